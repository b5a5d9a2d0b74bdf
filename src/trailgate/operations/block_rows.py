"""The rows of change blocks as those of one Arrow batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.model.changes import StateColumn
from trailgate.model.operations_schema import COMMIT_TIME, undatable


def in_order(
    parts: Sequence[pa.RecordBatch], orders: Sequence[Longs], schema: pa.Schema
) -> pa.RecordBatch:
    """Return parts as one batch, in the order that the rows of all of them have."""
    if not parts:
        return pa.RecordBatch.from_pylist([], schema=schema)
    order = orders[0] if len(orders) == 1 else np.concatenate(orders)
    whole = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
    if (order[1:] > order[:-1]).all():
        return whole
    return whole.take(pa.array(np.argsort(order)))


def commit_times(micros: Longs) -> pa.TimestampArray:
    """Return microseconds since 1970 as commit times, not copied; null outside of the years 1 to 9999."""
    strange = undatable(micros)
    if strange.any():
        return pa.array(micros, mask=strange).view(COMMIT_TIME)
    values = pa.py_buffer(np.ascontiguousarray(micros))
    return pa.Array.from_buffers(COMMIT_TIME, len(micros), [None, values])


def letters(codes: Octets) -> pa.StringArray:
    """Return ASCII codes as a column of one-letter texts, not copied."""
    offsets = pa.py_buffer(np.arange(len(codes) + 1, dtype=np.int32))
    return pa.StringArray.from_buffers(
        len(codes), offsets, pa.py_buffer(np.ascontiguousarray(codes))
    )


def image_of(before: StateColumn, after: StateColumn, deletes: Mask) -> StateColumn:
    """Return the before image's column where rows are deletes, the after image's elsewhere."""
    if not deletes.any():
        return after
    if deletes.all():
        return before
    if before.values is None and after.values is None:
        return after
    known = after if before.values is None else before
    assert known.values is not None  # one of them is not, as seen above
    empty = pa.nulls(len(deletes), known.values.type)
    values = pc.if_else(
        pa.array(deletes),
        empty if before.values is None else before.values,
        empty if after.values is None else after.values,
    )
    rows = len(deletes)
    return StateColumn(values, np.where(deletes, before.is_missing(rows), after.is_missing(rows)))
