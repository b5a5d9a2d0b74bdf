"""Format durations and ages for the output of commands."""

from __future__ import annotations


def format_duration(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds: 3700 → "1:01:40"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def format_age(seconds: float) -> str:
    """Format an age in the largest unit that gives a number of at least 2, for example "90 min"."""
    for name, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds / size):,} {name}"
    return f"{seconds:.1f} s"
