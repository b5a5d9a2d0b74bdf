"""The rows of change blocks as those of one Arrow batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
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
