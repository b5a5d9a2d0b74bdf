"""Live captures from real brokers, each beside the barest consumer of the same run."""

from benchmarks.live.running import run

__all__ = ["run"]
