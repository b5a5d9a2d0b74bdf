"""Binary numbers in trail form and back; always big-endian (trail format §3 and §10.2)."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Mask
from trailgate.model.tables import Column
from trailgate.model.types import Family
from trailgate.trail.values import kernels
from trailgate.trail.values.codec import INDICATOR_BYTES, Cells, Target, Written, heads, null_mask
from trailgate.trail.values.text import fixed_bytes, null_cells

Words = npt.NDArray[np.int64] | npt.NDArray[np.uint64]

# Assumed: a NULL integer is FF FF and zeros in the column's width. No public dump shows one
# (trail format §10.2); a CHAR's NULL has this form. A bare FF FF is read as well.
NULL_INTEGER_IS_ZEROS: Final = True


def _kind(column: Column) -> str:
    return ("u" if column.family is Family.UNSIGNED else "i") + str(column.type_row.width)


def decode_integer(cells: Cells) -> pa.Array:
    """Return integers in the column's block type: int64, uint64, or a decimal of its scale."""
    kind = _kind(cells.column)
    width = int(kind[1:])
    nulls = null_cells(cells, width)
    count = len(cells.starts)
    found = np.empty(count, np.int64)
    kernels.read_integers(
        cells.source.data,
        cells.starts,
        np.zeros(count, bool) if nulls is None else nulls,
        width,
        kind[0] == "i",
        found,
    )
    return from_words(found.view(kind[0] + "8"), cells.column.arrow_type, nulls)


def from_words(found: Words, kind: pa.DataType, nulls: Mask | None) -> pa.Array:
    """Return 64-bit words as Arrow integers, or as unscaled decimals of 128 bits."""
    if not pa.types.is_decimal(kind):
        return pa.array(found, kind, mask=nulls)
    pairs = np.zeros((len(found), 2), np.int64)
    pairs[:, 0] = found.view(np.int64)
    if found.dtype == np.int64:
        pairs[:, 1] = found >> 63  # the sign, carried into the high word
    bitmap = None
    if nulls is not None:
        bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    return pa.Array.from_buffers(kind, len(found), [bitmap, pa.py_buffer(pairs)])


def encode_integer(target: Target, values: pa.Array) -> Written:
    """Return integers as big-endian words; one out of range is an error."""
    kind = _kind(target.column)
    width = int(kind[1:])
    nulls = null_mask(values)
    found = _to_words(target, values, nulls)
    if width < 8 and len(found):
        limits = np.iinfo(kind)
        bad = (found < limits.min) | (found > limits.max)
        if bad.any():
            raise _out_of_range(target, values, int(np.argmax(bad)))
    head = heads(target, INDICATOR_BYTES + width, nulls, len(values))
    body = found.astype(">" + kind).view(np.uint8).reshape(len(values), width)
    return Written(np.concatenate([head, body], axis=1))


def decode_float(cells: Cells) -> pa.Array:
    """Return IEEE floats of four or eight bytes.

    Assumed (trail format §10.2): big-endian, as integers are, in the width of the type.
    """
    width = cells.column.type_row.width or 8
    nulls = null_cells(cells, width)
    found = fixed_bytes(cells, width, nulls).view(f">f{width}").reshape(-1).astype(f"f{width}")
    if nulls is None:
        return pa.array(found)
    return pa.array(found).take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))


def encode_float(target: Target, values: pa.Array) -> Written:
    """Return IEEE floats as big-endian words."""
    width = target.column.type_row.width or 8
    nulls = null_mask(values)
    filled = values if nulls is None else values.fill_null(0)
    found = filled.to_numpy(zero_copy_only=False).astype(f">f{width}")
    head = heads(target, INDICATOR_BYTES + width, nulls, len(values))
    return Written(np.concatenate([head, found.view(np.uint8).reshape(-1, width)], axis=1))


def _to_words(target: Target, values: pa.Array, nulls: Mask | None) -> Words:
    if not pa.types.is_decimal(values.type):
        filled = values if nulls is None else values.fill_null(0)
        words: Words = filled.to_numpy(zero_copy_only=False)
        return words
    data = np.frombuffer(values.buffers()[1], np.int64)
    pairs = data[2 * values.offset : 2 * (values.offset + len(values))].reshape(-1, 2)
    signed = target.column.family is Family.INTEGER
    high = pairs[:, 0] >> 63 if signed else np.zeros(len(pairs), np.int64)
    bad = pairs[:, 1] != high
    if nulls is not None:
        bad &= ~nulls
    if bad.any():
        raise _out_of_range(target, values, int(np.argmax(bad)))
    low = np.where(nulls, 0, pairs[:, 0]) if nulls is not None else pairs[:, 0]
    return low if signed else np.ascontiguousarray(low).view(np.uint64)


def _out_of_range(target: Target, values: pa.Array, row: int) -> Exception:
    value = values[row].as_py()
    name = target.column.type_row.name
    return target.error(f"{value} is out of the range of {name}", str(value))
