"""Counts of operations by table and type: ``{"HR.JOBS": {"I": 3, "U": 1}}`` is three inserts and an update.

Each part of a capture or of a write counts its own operations; the counts are then added.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trailgate.model.changes import ChangeBatch
from trailgate.model.transactions import mask_begins

Counts = dict[str, dict[str, int]]


def count_operations(batch: ChangeBatch, begin: int, stop: int) -> tuple[Counts, int]:
    """Count the operations [begin, stop) of a batch by table and type, and the transactions that begin there."""
    counts_found: list[Counts] = []
    transactions = 0
    for block in batch.blocks:
        here = (block.order >= begin) & (block.order < stop)
        # Operation types are ASCII letters, so 256 bins are enough for any of them.
        kinds = np.bincount(block.op_type[here], minlength=256)
        by_kind = {chr(kind): int(kinds[kind]) for kind in np.flatnonzero(kinds).tolist()}
        if by_kind:
            counts_found.append({block.table.name: by_kind})
        transactions += int(mask_begins(block.tx_ind[here]).sum())
    return sum_counts(counts_found), transactions


def add_counts(one: Counts, other: Counts) -> Counts:
    """Add the counts of operations of two parts."""
    return sum_counts((one, other))


def sum_counts(parts: Iterable[Counts]) -> Counts:
    """Add the counts of operations of many parts. Tables are in the order in which they first occur."""
    total: Counts = {}
    for part in parts:
        for table, kinds in part.items():
            into = total.setdefault(table, {})
            for kind, count in kinds.items():
                into[kind] = into.get(kind, 0) + count
    return total
