"""Run an apply: read batches of the trail, write them to the target, and keep the position."""
