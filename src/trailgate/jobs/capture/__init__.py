"""The capture job: plan it, run its ranges in parallel, publish the trail files."""
