"""Operations as numbers that stand for their content, so that two transactions of one id are compared without keeping either."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.kernels.hashing import hash_texts
from trailgate.columnar.rows import text_view
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn

_FACTOR: Final = 6364136223846793005
_NULL: Final = 2147483648  # above all numbers of texts
_MISSING: Final = 2147483649


def content_numbers(batch: ChangeBatch) -> Longs:
    """Return a number for each operation in order: the same for the same table, type and values."""
    found = np.zeros(batch.rows, np.int64)
    for block in batch.blocks:
        found[block.order] = _of_block(block)
    return found


class Sums(NamedTuple):
    """Numbers that stand for operations that follow one another: that of the first one, and one of all of them in their order."""

    first: int
    every: int


def sums(numbers: Longs, starts: Longs, before: int) -> list[Sums]:
    """Return the sums of the operations up to the first start, and of those from each start on.

    ``before`` is how many operations the transaction that is open at the beginning has already; sums of its parts are added.
    """
    bounds = np.append(0, starts)
    ordinals = np.arange(len(numbers))
    begins = np.repeat(np.append(-before, starts), np.diff(np.append(bounds, len(numbers))))
    mixed = (numbers + 1) * ((ordinals - begins) * _FACTOR * 2 + 1)
    totals = np.append(0, np.cumsum(mixed))
    every = np.append(totals[starts], totals[-1]) - totals[bounds]
    first = np.append(numbers, 0)[bounds]
    return [*map(Sums, first.tolist(), every.tolist())]


def _of_block(block: ChangeBlock) -> Longs:
    found = _texts(pa.array([block.table.name]), 1).repeat(len(block)) * 256 + block.op_type
    for image in (block.before, block.after):
        for column in image:
            found = found * _FACTOR + _values(column, len(block))
    return found


def _values(column: StateColumn, rows: int) -> Longs:
    if column.values is None:
        return np.full(rows, _MISSING, np.int64)
    values = column.values
    texts = values if pa.types.is_string(values.type) else pc.cast(values, pa.string())
    found = _texts(pc.fill_null(texts, ""), rows)
    if values.null_count:
        found[np.asarray(values.is_null())] = _NULL
    if column.missing is not None:
        found[column.missing] = _MISSING
    return found


def _texts(values: pa.Array, rows: int) -> Longs:
    offsets, data = text_view(values)
    found = np.empty(rows, np.int64)
    hash_texts(data, offsets, found)
    return found
