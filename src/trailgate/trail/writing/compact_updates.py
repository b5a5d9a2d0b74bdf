"""UPDATERECORDFORMAT COMPACT: images of an update without the columns that it did not change.

trail format §10.4: the before image holds the key and what changed, the after image what changed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.model.changes import KEY_UPDATE, UPDATE, ChangeBlock, StateColumn


def compacted(block: ChangeBlock) -> ChangeBlock:
    """Return the block with the unchanged columns of its updates missing."""
    updates: Mask = (block.op_type == UPDATE) | (block.op_type == KEY_UPDATE)
    keys = set(block.table.keys)
    befores, afters = list(block.before), list(block.after)
    for index, (before, after) in enumerate(zip(befores, afters, strict=True)):
        same = updates & _same(before, after)
        if same.any():
            afters[index] = _without(after, same)
            if index not in keys:
                befores[index] = _without(before, same)
    return replace(block, before=tuple(befores), after=tuple(afters))


def _same(before: StateColumn, after: StateColumn) -> Mask:
    """Return the rows in which both images have the column, with the same value or NULL."""
    if before.values is None or after.values is None:
        return np.zeros(1, bool)
    equal = pc.equal(before.values, after.values).fill_null(False)
    null = pc.and_(before.values.is_null(), after.values.is_null())
    same: Mask = pc.or_(equal, null).to_numpy(zero_copy_only=False)
    for column in (before, after):
        if column.missing is not None:
            same = same & ~column.missing
    return same


def _without(column: StateColumn, rows: Mask) -> StateColumn:
    missing = rows if column.missing is None else column.missing | rows
    values = column.values
    assert values is not None
    return StateColumn(pc.if_else(pa.array(rows), pa.scalar(None, values.type), values), missing)
