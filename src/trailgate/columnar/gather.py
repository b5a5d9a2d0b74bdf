"""Copy values that are scattered in a buffer into an Arrow column, and join small record batches.

Values are given by their start and end offsets: from ``b"..AB..C"``, the spans (2, 4) and (6, 7)
result in the column "AB", "C". A first loop measures all values and checks that they are within the
buffer; a second one copies them in words of 32 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels import gather as kernels
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import octets, text_view
from trailgate.errors import DecodeError, Where

NO_NULLS = np.zeros(0, np.bool_)

# Up to this many rows, or bytes of buffers, the cost of a batch matters more than that of copying it.
ROWS: Final = 8192
SIZE: Final = 8 << 20  # bytes of buffers, about


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
    size = kernels.measure(starts, ends, missing, len(data), offsets)
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

    ``offsets`` are the Arrow offsets that ``kernels.measure`` or a similar kernel has written.
    """
    out = np.empty(int(offsets[-1]) + SPARE, np.uint8)
    ascii_only = kernels.copy(data, starts, offsets, out)
    values = build_binary_column(offsets, out, nulls, text=text)
    if text and not checked and not ascii_only:
        check_text(values, starts)
    return values


def build_binary_column(offsets: Offsets, data: Octets, nulls: Mask, *, text: bool) -> pa.Array:
    """Build an Arrow binary or string column from its offsets, bytes and a mask of the nulls.

    ``nulls`` may be empty. ``data`` may be longer than the values: the extra bytes (``SPARE``) let
    loops read complete words at the end.
    """
    valid = None
    if len(nulls) and nulls.any():
        # Arrow's validity bits: 1 for a value, and row 0 in the lowest bit of byte 0.
        valid = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    kind = pa.string() if text else pa.binary()
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def _as_longs(starts: Longs | Offsets, ends: Longs | Offsets) -> tuple[Longs, Longs]:
    assert len(starts) == len(ends)
    return np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64)


def measure_error(problem: int, size: int) -> DecodeError:
    """Build the error for a problem code of the kernel ``measure``. ``size`` is the size of the buffer."""
    if problem == kernels.OUTSIDE:
        return DecodeError(f"a value lies outside its {size} bytes")
    return DecodeError("the values of one column are more than 2 GiB", hint="read fewer at a time")


def check_text(values: pa.Array, starts: Longs) -> None:
    """Raise DecodeError for the first value of a column that is not UTF-8. ``starts`` are the values' offsets, for the error."""
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
    size = kernels.measure_rows(offsets, len(data), rows, taken)
    if size < 0:
        raise measure_error(size, len(data))
    out = np.empty(size + SPARE, np.uint8)
    kernels.copy_rows(data, offsets, rows, taken, out)
    return build_binary_column(taken, out, NO_NULLS, text=True)


def fixed_rows(matrix: Octets) -> pa.Array:
    """Return the rows of a byte matrix as a binary column that shares its bytes."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return build_binary_column(
        offsets, np.ascontiguousarray(matrix).reshape(-1), NO_NULLS, text=False
    )


def join_small_batches(
    batches: Iterable[pa.RecordBatch], rows: int = ROWS, size: int = SIZE
) -> Iterator[pa.RecordBatch]:
    """Join small Arrow record batches of one schema, up to ``rows`` rows and about ``size`` bytes each, in their order.

    This saves costs that every batch has. A larger batch is returned unchanged.
    """
    buffered: list[pa.RecordBatch] = []
    count = total = 0
    for batch in batches:
        count, total = count + len(batch), total + batch.get_total_buffer_size()
        if buffered and (count > rows or total > size or batch.schema != buffered[0].schema):
            yield _join(buffered)
            buffered, count, total = [], len(batch), batch.get_total_buffer_size()
        buffered.append(batch)
    if buffered:
        yield _join(buffered)


def _join(buffered: list[pa.RecordBatch]) -> pa.RecordBatch:
    return buffered[0] if len(buffered) == 1 else pa.concat_batches(buffered)
