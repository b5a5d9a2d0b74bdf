"""Copy values that lie scattered in a buffer into an Arrow column, in C++.

A binary array is laid over the shared buffer with offsets [start0, end0, start1, end1, ...];
``take`` of its even slots copies the values out in one call.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, Where

MAX_INT32: Final = 2**31 - 1  # Arrow's binary and string arrays count bytes in int32


def gather(
    buffer: Any,
    starts: Longs,
    ends: Longs,
    *,
    nulls: Mask | None = None,
    text: bool = False,
    checked: bool = False,
) -> pa.Array:
    """Return the values buffer[start:end] as a binary column, or with ``text`` a string column.

    ``buffer`` is a pa.Buffer, bytes or a flat uint8 array. Starts may come in any order, and
    values may overlap; ascending ones are fastest. A row of ``nulls`` is null and its start and
    end are not looked at. Text is checked to be UTF-8 unless ``checked`` says that it is known
    to be; raises DecodeError with the bytes and offset of the first value that is not.
    """
    source = buffer if isinstance(buffer, pa.Buffer) else pa.py_buffer(buffer)
    rows = None
    if nulls is not None and nulls.any():
        rows = np.flatnonzero(~nulls)
        starts, ends = starts[rows], ends[rows]
    values, slots = _laid_over(source, starts, ends)
    taken = values.take(_spread(slots, rows, 0 if nulls is None else len(nulls)))
    if not pa.types.is_binary(taken.type):
        taken = taken.cast(pa.binary())
    if not text:
        return taken
    return as_text(taken, starts, rows, checked=checked)


def as_text(
    values: pa.Array, starts: Longs, rows: Longs | None = None, *, checked: bool = False
) -> pa.Array:
    """Return a binary column as strings; ``starts`` (of ``rows``) place a value that is not UTF-8."""
    if checked:
        return values.view(pa.string())
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        raise _not_text(values, starts, rows) from None


def _not_text(values: pa.Array, starts: Longs, rows: Longs | None) -> DecodeError:
    valid = values if rows is None else values.take(pa.array(rows))
    for start, value in zip(starts.tolist(), valid.to_pylist(), strict=True):
        try:
            value.decode()
        except UnicodeDecodeError:
            return DecodeError("text is not UTF-8", where=Where(offset=start, raw=value))
    return DecodeError("text is not UTF-8")


def _spread(slots: Longs, rows: Longs | None, count: int) -> pa.Array:
    """Return take indexes for ``count`` rows of which only ``rows`` have a slot."""
    if rows is None:
        return pa.array(slots)
    index = np.zeros(count, np.int64)
    index[rows] = slots
    empty = np.ones(count, bool)
    empty[rows] = False
    return pa.array(index, mask=empty)


def _laid_over(buffer: pa.Buffer, starts: Longs, ends: Longs) -> tuple[pa.Array, Longs]:
    """Return an array over the buffer that holds all values, and the slot of each."""
    count = len(starts)
    if not count:
        return pa.array([], pa.binary()), np.zeros(0, np.int64)
    _check_bounds(buffer, starts, ends)
    if _ascending(starts, ends):
        return _interleaved(buffer, starts, ends), np.arange(0, 2 * count, 2)
    order = np.argsort(starts, kind="stable")
    if _ascending(starts[order], ends[order]):
        slots = np.empty(count, np.int64)
        slots[order] = np.arange(0, 2 * count, 2)
        return _interleaved(buffer, starts[order], ends[order]), slots
    return _copied(buffer, starts, ends), np.arange(count)


def _check_bounds(buffer: pa.Buffer, starts: Longs, ends: Longs) -> None:
    if starts.min() < 0 or ends.max() > buffer.size or bool((ends < starts).any()):
        raise DecodeError(f"a value lies outside its {buffer.size} bytes")


def _ascending(starts: Longs, ends: Longs) -> bool:
    return bool((ends[:-1] <= starts[1:]).all())


def _interleaved(buffer: pa.Buffer, starts: Longs, ends: Longs) -> pa.Array:
    count = 2 * len(starts)
    base, span = int(starts[0]), int(ends[-1] - starts[0])
    small = span <= MAX_INT32
    offsets = np.empty(count, np.int32 if small else np.int64)
    offsets[0::2] = starts - base
    offsets[1::2] = ends - base
    kind = pa.binary() if small else pa.large_binary()
    buffers = [None, pa.py_buffer(offsets), buffer.slice(base, span)]
    return pa.Array.from_buffers(kind, count - 1, buffers, 0)


def _copied(buffer: pa.Buffer, starts: Longs, ends: Longs) -> pa.Array:
    """Return overlapping values copied byte by byte; slow, for the odd case."""
    lengths = ends - starts
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    data = octets(buffer)[places]
    return pa.Array.from_buffers(
        pa.large_binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0
    )


def fixed_rows(matrix: Octets) -> pa.Array:
    """Return the rows of a byte matrix as a binary column that shares its bytes."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width) if width else _zeros(count)
    data = np.ascontiguousarray(matrix).reshape(-1)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)], 0
    )


def _zeros(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count + 1, np.int32)
