"""Large objects: values that stand in records of their own (116) behind the one of their image.

The record itself holds NULL for them; each piece says which part of the value it is (trail format §11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.hexadecimal import from_hex
from trailgate.errors import DecodeError, EncodeError, Where
from trailgate.model.changes import DELETE, UPDATE, ChangeBlock, Image, StateColumn
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.values.charsets import UTF_8, charset_of, encoded_texts
from trailgate.trail.values.codec import MAX_CELL
from trailgate.trail.values.text import VARIABLE_HEAD

# Assumed: a value of a column that is a large object by its definition (lob_type) stays in its record up to the length
# of Oracle's longest VARCHAR2; one printed LONG of 513 bytes is in its record, one of 7,070 is not (trail format §11).
INLINE_BYTES: Final = 4000
PIECE_BYTES: Final = (
    2000  # of the printed large object, whose odd piece comes first (trail format §11)
)
WIDEST: Final = 2  # bytes in a character set of one byte of UTF-8


def _text_bytes(column: Column, values: pa.Array) -> pa.Array:
    charset = charset_of(column, UTF_8)
    if charset is None or charset == UTF_8:
        return values.view(pa.binary())
    return encoded_texts(values, charset)


# How a block column's values become the bytes of large objects: those families that can have one.
LARGE_BYTES: Final[Mapping[Family, Callable[[Column, pa.Array], pa.Array]]] = MappingProxyType(
    {
        Family.TEXT: _text_bytes,
        Family.NUMBER_TEXT: _text_bytes,
        Family.BYTES: lambda _, values: from_hex(values),
    }
)

# (order of the operation, whether of its before image) to (column, value).
LargeValues = Mapping[tuple[int, bool], tuple[tuple[int, bytes], ...]]
NO_VALUES: Final[LargeValues] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Parted:
    """A block without the rows that have large objects; and those rows, with NULL for them."""

    plain: ChangeBlock
    rest: ChangeBlock
    values: LargeValues


def part_large(block: ChangeBlock) -> Parted | None:
    """Return a block in two parts; None where no row has a large object.

    The before values of a key update stay in its record, which has both images.
    """
    befores = (block.op_type == DELETE) | (block.op_type == UPDATE)
    found: list[tuple[bool, int, Mask]] = []
    for is_before, image, rows in ((True, block.before, befores), (False, block.after, None)):
        for index, state in enumerate(image):
            large = _large(block, index, state, rows)
            if large is not None:
                found.append((is_before, index, large))
    if not found:
        return None
    any_large = np.logical_or.reduce([large for _, _, large in found])
    rows = np.flatnonzero(any_large)
    return Parted(
        block.take(np.flatnonzero(~any_large)),
        _without(block, found).take(rows),
        _values(block, found),
    )


def _large(block: ChangeBlock, index: int, state: StateColumn, rows: Mask | None) -> Mask | None:
    """Return the rows whose value stands in pieces; None where there is none."""
    column = block.table.columns[index]
    if state.values is None or column.family not in LARGE_BYTES or column.type_row.fixed:
        return None
    limit = INLINE_BYTES if column.lob_type else MAX_CELL - VARIABLE_HEAD
    longest = pc.max(pc.binary_length(state.values)).as_py() or 0
    if longest * WIDEST <= limit:
        return None
    sizes = pc.binary_length(_bytes_of(block, index, state.values)).fill_null(0).to_numpy()
    large: Mask = sizes > limit
    if rows is not None:
        large &= rows
    return large if large.any() else None


def _bytes_of(block: ChangeBlock, index: int, values: pa.Array) -> pa.Array:
    column = block.table.columns[index]
    try:
        return LARGE_BYTES[column.family](column, values)
    except (DecodeError, EncodeError) as error:
        where = Where(table=block.table.name, field=column.name, raw=error.where.raw)
        raise EncodeError(error.problem, where=where) from None


def _without(block: ChangeBlock, found: list[tuple[bool, int, Mask]]) -> ChangeBlock:
    images: dict[bool, list[StateColumn]] = {True: list(block.before), False: list(block.after)}
    for is_before, index, large in found:
        state = images[is_before][index]
        assert state.values is not None
        null = pa.scalar(None, state.values.type)
        values = pc.if_else(pa.array(large), null, state.values)
        images[is_before][index] = replace(state, values=values)
    before: Image = tuple(images[True])
    return replace(block, before=before, after=tuple(images[False]))


def _values(block: ChangeBlock, found: list[tuple[bool, int, Mask]]) -> LargeValues:
    values: dict[tuple[int, bool], tuple[tuple[int, bytes], ...]] = {}
    for is_before, index, large in found:
        state = (block.before if is_before else block.after)[index]
        assert state.values is not None
        rows = np.flatnonzero(large)
        raw = _bytes_of(block, index, state.values.take(pa.array(rows)))
        for order, value in zip(block.order[rows].tolist(), raw.to_pylist(), strict=True):
            key = (order, is_before)
            values[key] = (*values.get(key, ()), (index, value))
    return values


def piece_data(column: int, value: bytes, order: ByteOrder) -> Iterator[bytes]:
    """Yield the data of a value's pieces: five words of 4 bytes, then a part of it."""
    count = -(-len(value) // PIECE_BYTES)
    end = len(value) - (count - 1) * PIECE_BYTES
    start = 0
    for number in range(1, count + 1):
        words = (column, count, number, start, end - start)
        yield b"".join(order.raw(word, 4) for word in words) + value[start:end]
        start, end = end, end + PIECE_BYTES
