"""Counts and ages in words, and the table of operations that several commands print."""

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
    """Return operations by table and kind: the headings, and a row a table."""
    present = {kind for counts in operations.values() for kind in counts}
    kinds = {kind: name for kind, name in KINDS.items() if kind in present}
    rows = [
        (name, *(counts.get(kind, 0) for kind in kinds), sum(counts.values()))
        for name, counts in operations.items()
    ]
    return ("table", *kinds.values(), "all"), rows


def age_text(seconds: float) -> str:
    """Return how old something is, in the largest unit that it has two of."""
    for name, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds / size):,} {name}"
    return f"{seconds:.1f} s"


def many(count: int, name: str, plural: str = "") -> str:
    """Return a count with its noun, whose plural has an s unless it is stated."""
    return f"{count:,} {name if count == 1 else plural or f'{name}s'}"
