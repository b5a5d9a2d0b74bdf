"""Live captures from real brokers, each beside the barest consumer of the same run."""
