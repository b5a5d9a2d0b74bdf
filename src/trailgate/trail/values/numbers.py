"""Binary numbers in trail values: integers and IEEE floats, always big-endian (trail format §3 and §10.2).

For example, ``00 00 FF FE`` is -2 in a column of two bytes. Integers of a column with a scale
become decimals.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Mask
from trailgate.model.tables import Column
from trailgate.model.types import TypeFamily
from trailgate.trail.values import value_kernels
from trailgate.trail.values.cell_writers import WordCells
from trailgate.trail.values.cells import check_fixed_cells, fixed_bytes, width_error
from trailgate.trail.values.codec import CellTarget, CellWriter, RecordValues, TrailCells

Integers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]

# Assumed: a NULL integer is FF FF and zeros in the column's width, as a NULL CHAR is. No public dump
# shows one (trail format §10.2). Reading accepts a bare FF FF too.
NULL_INTEGER_IS_ZEROS: Final = True


def number_width(column: Column) -> int:
    """Return the number of bytes of a column's binary numbers in a trail."""
    return column.type_row.width or 8


def _numpy_type(column: Column) -> str:
    return ("u" if column.family is TypeFamily.UNSIGNED else "i") + str(column.type_row.width)


def decode_integer(cells: TrailCells) -> pa.Array:
    """Decode a trail's integers as the column's Arrow type: int64, uint64, or a decimal of its scale."""
    numpy_type = _numpy_type(cells.column)
    width = int(numpy_type[1:])
    count = len(cells.starts)
    nulls, words = np.empty(count, bool), np.empty(count, np.int64)
    null_count, bad = value_kernels.read_integers(
        cells.source.data,
        cells.starts,
        cells.lengths,
        width,
        numpy_type[0] == "i",
        nulls,
        words,
    )
    if bad >= 0:
        raise width_error(cells, width, bad)
    missing = nulls if null_count else None
    return arrow_from_words(words.view(numpy_type[0] + "8"), cells.column.arrow_type, missing)


def check_integer(cells: TrailCells) -> None:
    """Raise DecodeError for an integer that does not have the column's width."""
    check_fixed_cells(cells, number_width(cells.column))


def arrow_from_words(words: Integers, arrow_type: pa.DataType, nulls: Mask | None) -> pa.Array:
    """Convert the binary integers of a trail column (64-bit words) to Arrow integers, or to decimals that have them as unscaled values."""
    bitmap = None
    if nulls is not None:
        # Arrow's validity bits: 1 for a value, and row 0 in the lowest bit of byte 0.
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    if not pa.types.is_decimal(arrow_type):
        return pa.Array.from_buffers(arrow_type, len(words), [bitmap, pa.py_buffer(words)])
    # A decimal128 is two little-endian words, the low one first.
    pairs = np.zeros((len(words), 2), np.int64)
    pairs[:, 0] = words.view(np.int64)
    if words.dtype == np.int64:
        pairs[:, 1] = words >> 63  # extend the sign into the high word: 0 or -1
    return pa.Array.from_buffers(arrow_type, len(words), [bitmap, pa.py_buffer(pairs)])


def encode_integer(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode integers as big-endian words of a trail. Raises EncodeError if an integer is out of range."""
    numpy_type = _numpy_type(target.column)
    width = int(numpy_type[1:])
    words = _to_words(target, column_values)
    # Words of eight bytes have the full range already; parsing has checked it.
    if width < 8:
        limits = np.iinfo(numpy_type)
        _check_range(target, column_values, (words < limits.min) | (words > limits.max))
    return WordCells(target, column_values, words.view(np.uint64), width)


def decode_float(cells: TrailCells) -> pa.Array:
    """Decode a trail's IEEE floats of four or eight bytes.

    Assumed (trail format §10.2): they are big-endian like integers, and as wide as the type.
    """
    width = number_width(cells.column)
    nulls = check_fixed_cells(cells, width)
    floats = fixed_bytes(cells, width, nulls).view(f">f{width}").reshape(-1).astype(f"f{width}")
    if nulls is None:
        return pa.array(floats)
    # fixed_bytes skipped the NULLs. nulls 0 1 0 take 0, null, 1.
    return pa.array(floats).take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))


def check_float(cells: TrailCells) -> None:
    """Raise DecodeError for a float that does not have the type's width."""
    check_fixed_cells(cells, number_width(cells.column))


def encode_float(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode IEEE floats as big-endian words of a trail."""
    width = number_width(target.column)
    floats = (
        _fill(column_values.values).to_numpy(zero_copy_only=False).astype(f"f{width}", copy=False)
    )
    words = floats.view(f"u{width}").astype(np.uint64, copy=False)
    return WordCells(target, column_values, words, width)


def _fill(values: pa.Array) -> pa.Array:
    return values.fill_null(0) if values.null_count else values


def _to_words(target: CellTarget, column_values: RecordValues) -> Integers:
    """Convert a column of integers or decimals to 64-bit words for a trail, with 0 for NULL.

    The word of a decimal is its unscaled value. Raises EncodeError if one does not fit.
    """
    signed = target.column.family is TypeFamily.INTEGER
    numpy_type, values = np.int64 if signed else np.uint64, column_values.values
    if not pa.types.is_decimal(values.type):
        words: Integers = (
            _fill(values).to_numpy(zero_copy_only=False).astype(numpy_type, copy=False)
        )
        return words
    data = np.frombuffer(values.buffers()[1], np.int64)
    # A decimal128 is two words of 64 bits, the low one first. The array may be a slice of its
    # buffer.
    pairs = data[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    low, high = pairs[:, 0].copy(), pairs[:, 1]
    # The value fits in 64 bits if the high word only extends the sign of the low one.
    bad = high != (low >> 63 if signed else 0)
    if values.null_count:
        nulls = values.is_null().to_numpy(zero_copy_only=False)
        low[nulls] = 0
        bad &= ~nulls
    _check_range(target, column_values, bad)
    return low if signed else low.view(np.uint64)


def _check_range(target: CellTarget, column_values: RecordValues, bad: Mask) -> None:
    row = column_values.first_bad_row(bad)
    if row is not None:
        value, name = column_values.values[row].as_py(), target.column.type_row.name
        raise target.error(f"{value} is out of the range of {name}", str(value))
