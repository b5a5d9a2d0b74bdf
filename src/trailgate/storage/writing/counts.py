"""How many operations of each table and kind a run has."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trailgate.model.changes import BEGIN, WHOLE, ChangeBatch

Counts = dict[str, dict[str, int]]


def counted(batch: ChangeBatch, begin: int, stop: int) -> tuple[Counts, int]:
    """Return operations [begin, stop) by table and kind, and how many transactions begin there."""
    found: list[Counts] = []
    transactions = 0
    for block in batch.blocks:
        here = (block.order >= begin) & (block.order < stop)
        kinds = np.bincount(block.op_type[here], minlength=256)
        by_kind = {chr(kind): int(kinds[kind]) for kind in np.flatnonzero(kinds).tolist()}
        if by_kind:
            found.append({block.table.name: by_kind})
        indicator = block.tx_ind[here]
        transactions += int(((indicator == BEGIN) | (indicator == WHOLE)).sum())
    return summed(found), transactions


def added(one: Counts, other: Counts) -> Counts:
    """Return two counts together."""
    return summed((one, other))


def summed(parts: Iterable[Counts]) -> Counts:
    """Return many counts together, in the order in which tables are first counted."""
    total: Counts = {}
    for part in parts:
        for table, kinds in part.items():
            into = total.setdefault(table, {})
            for kind, count in kinds.items():
                into[kind] = into.get(kind, 0) + count
    return total
