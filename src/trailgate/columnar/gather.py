"""Copy values that are scattered in a buffer into an Arrow column or a matrix.

Values are given by their start and end offsets: from ``b"..AB..C"``, the spans (2, 4) and (6, 7)
result in the column "AB", "C". A first loop measures all values and checks that they are within the
buffer; a second one copies them in words of 32 bytes. Values of one width are read through views with
overlapping items, without a copy: ``sliding_words(data, "u4")[offsets]`` are the 32-bit words that begin
at these offsets.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.lib.stride_tricks import as_strided

from trailgate.arrays import BIG_ENDIAN, Longs, Mask, Octets, Offsets, octets
from trailgate.columnar import gather_kernels as kernels
from trailgate.columnar import rows_kernels as row_kernels
from trailgate.columnar.strings import NO_NULLS, build_binary_column, text_view
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError, Where


def gather(
    buffer: Any,
    starts: Longs | Offsets,
    ends: Longs | Offsets,
    *,
    nulls: Mask | None = None,
    text: bool = False,
    checked: bool = False,
) -> pa.Array:
    """Copy the values buffer[start:end] to a binary column, or with ``text`` to a string column.

    ``buffer`` is a pa.Buffer, bytes or a flat uint8 array. Starts may be in any order, and values
    may overlap. Rows marked in ``nulls`` are null, whatever their start and end. Text is checked to
    be UTF-8, unless ``checked`` states that it is. Raises DecodeError, with the bytes and offset of
    the first value that is not UTF-8.
    """
    data = octets(buffer)
    starts, ends = _as_longs(starts, ends)
    missing = NO_NULLS if nulls is None else np.ascontiguousarray(nulls)
    assert len(missing) in {0, len(starts)}
    offsets = np.empty(len(starts) + 1, np.int32)
    size = kernels.measure_values(starts, ends, missing, len(data), offsets)
    if size < 0:
        raise measure_error(size, len(data))
    return gather_measured(data, starts, offsets, missing, text=text, checked=checked)


def gather_measured(
    data: Octets,
    starts: Longs,
    offsets: Offsets,
    nulls: Mask = NO_NULLS,
    *,
    text: bool = False,
    checked: bool = False,
) -> pa.Array:
    """Copy values to a column like ``gather``, if they are already measured and checked.

    ``offsets`` are the Arrow offsets that ``kernels.measure_values`` or a similar kernel has written.
    """
    out = np.empty(int(offsets[-1]) + SPARE, np.uint8)
    ascii_only = kernels.copy_values(data, starts, offsets, out)
    values = build_binary_column(offsets, out, nulls, text=text)
    if text and not checked and not ascii_only:
        check_gathered_text(values, starts)
    return values


def _as_longs(starts: Longs | Offsets, ends: Longs | Offsets) -> tuple[Longs, Longs]:
    assert len(starts) == len(ends)
    return np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)


def measure_error(problem: int, size: int) -> DecodeError:
    """Build the error for a problem code of the kernel ``measure_values``. ``size`` is the size of the buffer."""
    if problem == kernels.OUTSIDE:
        return DecodeError(f"a value lies outside its {size} bytes")
    return DecodeError("the values of one column are more than 2 GiB", hint="read fewer at a time")


def check_gathered_text(values: pa.Array, starts: Longs) -> None:
    """Raise DecodeError for the first gathered value that is not UTF-8. ``starts`` are the offsets of the values in the buffer."""
    # The column was built as text without a check. The cast from binary checks it.
    raw = values.view(pa.binary())
    try:
        raw.cast(pa.string())
    except pa.ArrowInvalid:
        for start, value in zip(starts.tolist(), raw.to_pylist(), strict=True):
            try:
                (value or b"").decode()
            except UnicodeDecodeError:
                where = Where(offset=start, raw=value)
                raise DecodeError("text is not UTF-8", where=where) from None
        raise


def take_text(values: pa.Array, rows: Longs) -> pa.Array:
    """Select rows of a string column like ``take``, but several times as fast for short strings."""
    if values.null_count or not pa.types.is_string(values.type):
        return values.take(pa.array(rows))
    if len(rows) == len(values) and bool((rows == np.arange(len(rows))).all()):
        return values
    offsets, data = text_view(values)
    rows, taken = np.ascontiguousarray(rows, np.int64), np.empty(len(rows) + 1, np.int32)
    size = row_kernels.measure_selected_rows(offsets, len(data), rows, taken)
    if size < 0:
        raise measure_error(size, len(data))
    out = np.empty(size + SPARE, np.uint8)
    row_kernels.copy_selected_rows(data, offsets, rows, taken, out)
    return build_binary_column(taken, out, NO_NULLS, text=True)


def gather_matrix(data: Octets, starts: npt.NDArray[np.int64], width: int) -> Octets:
    """Copy values of ``width`` bytes, data[start:start + width], to a matrix with one row per value."""
    if not len(starts) or not width:
        return np.zeros((len(starts), width), np.uint8)
    return sliding_windows(data, width)[starts].view(np.uint8).reshape(len(starts), width)


def checksums(data: Any, starts: Longs, ends: Longs) -> list[int]:
    """Return the CRC-32 checksums of values that are scattered in a buffer: data[starts[i]:ends[i]]."""
    view = memoryview(data)
    return [
        zlib.crc32(view[begin:end])
        for begin, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def flat_rows(matrix: Octets) -> tuple[Octets, int]:
    """View a byte matrix as a flat array, from its first to its last byte. Return it and the distance between two rows.

    Nothing is copied unless the matrix has gaps between the bytes of a row.
    """
    rows, size = matrix.shape
    if not rows:
        return np.zeros(0, np.uint8), size
    # The bytes of a row must be adjacent, and rows must follow each other. Gaps between rows are
    # allowed: ``step`` includes them.
    if matrix.strides[1] != 1 or matrix.strides[0] < 1:
        matrix = np.ascontiguousarray(matrix)
    step = matrix.strides[0]
    return as_strided(matrix, ((rows - 1) * step + size,), (1,)), step


def sliding_words(data: Octets, kind: str, order: str = BIG_ENDIAN) -> npt.NDArray[Any]:
    """View an array of bytes as the integer words at all byte offsets, as far as a complete word fits.

    ``kind`` is a numpy type and its width in bytes, such as "u2", "u4" or "i8". For bytes 01 02 03,
    "u2" returns 0x0102 and 0x0203. Data shorter than one word result in an empty view. ``data``
    must be contiguous.
    """
    dtype = np.dtype(order + kind)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data if count else b"", strides=(1,))


def sliding_windows(data: Octets, width: int) -> npt.NDArray[np.void]:
    """View an array of bytes as the ``width`` bytes at every offset, each as one opaque element."""
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), f"V{width}", data if count else b"", strides=(1,))
