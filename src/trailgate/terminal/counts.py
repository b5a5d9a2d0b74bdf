"""Format counts, ages, and the table of operations by table and type that several commands print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

KINDS: Final = {
    "I": "inserts",
    "U": "updates",
    "K": "key updates",
    "D": "deletes",
    "T": "truncates",
}


def counts_table(
    operations: Mapping[str, Mapping[str, int]],
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Arrange operation counts by table and type: the headings, and one row per table."""
    present = {kind for counts in operations.values() for kind in counts}
    kinds = {kind: name for kind, name in KINDS.items() if kind in present}
    rows = [
        (name, *(counts.get(kind, 0) for kind in kinds), sum(counts.values()))
        for name, counts in operations.items()
    ]
    return ("table", *kinds.values(), "all"), rows


def format_age(seconds: float) -> str:
    """Format an age in the largest unit that gives a number of at least 2, for example "90 min"."""
    for name, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds / size):,} {name}"
    return f"{seconds:.1f} s"
