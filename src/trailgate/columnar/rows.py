"""Rows of columns: the bytes and offsets of strings, big-endian words at any offset, rows grouped by a key, and bad rows found among many.

``words(data, "u4")[offsets]`` reads the 32-bit words that begin at those offsets, through overlapping views; nothing is copied. ``Isolation`` tries what fails
as a whole in halves, until each bad row is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numpy.lib.stride_tricks import as_strided

from trailgate.arrays import Longs, Mask, Octets, Offsets
from trailgate.columnar.kernels import rows as kernels
from trailgate.columnar.kernels.gather import longest, pair_values, unmarked
from trailgate.columnar.kernels.words import SPARE
from trailgate.errors import DecodeError, TrailgateError, Where

BLANKS: Final = " \t\r\n"
_ALL_VALID: Final = np.zeros(0, np.uint8)


def failing_row(check: Callable[[pa.Array], object], values: pa.Array) -> int:
    """Return the index of the first row that ``check`` refuses, found by bisecting.

    ``check`` raises DecodeError or an Arrow error for a column with a bad row; it is known to
    refuse ``values`` as a whole.
    """
    start, size = 0, len(values)
    while size > 1:
        half = size // 2
        try:
            check(values.slice(start, half))
        except (DecodeError, pa.ArrowException):
            size = half
        else:
            start, size = start + half, size - half
    return start


def row_error(problem: str, values: pa.Array, row: int, hint: str = "") -> DecodeError:
    """Return the error of one row: its index as the record, its bytes as the raw value."""
    raw = values[row].as_buffer()
    where = Where(record=int(row), raw=None if raw is None else raw.to_pybytes())
    return DecodeError(problem, where=where, hint=hint)


def over_nulls(convert: Callable[[pa.Array], pa.Array], values: pa.Array) -> pa.Array:
    """Return ``convert`` of the rows that are not null, with the nulls back in their places.

    Errors of ``convert`` have their record translated to the row of ``values``.
    """
    if not values.null_count:
        return convert(values)
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    try:
        dense = convert(values.drop_null())
    except DecodeError as error:
        record = error.where.record
        rows = np.flatnonzero(valid)
        where = Where(record=int(rows[record or 0]), raw=error.where.raw)
        found = DecodeError(error.problem, where=where, hint=error.hint)
        found.alike = rows[error.alike].tolist() if len(error.alike) else ()
        raise found from None
    slots = np.cumsum(valid) - 1
    return dense.take(pa.array(slots, mask=~valid))


def without(values: pa.Array, missing: Mask) -> pa.Array:
    """Return the values with null in some rows more; what they are is shared and not copied."""
    if values.offset:
        return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values)
    bits = np.packbits(~missing, bitorder="little")
    valid, *parts = values.buffers()
    if valid is not None:
        bits &= np.frombuffer(valid, np.uint8, len(bits))
    return pa.Array.from_buffers(values.type, len(values), [pa.py_buffer(bits), *parts])


def byte_view(values: pa.StringArray) -> tuple[Longs, Octets]:
    """Return the offsets (one more than rows) and the data bytes of a column, not copied."""
    offsets, data = text_view(values)
    return offsets.astype(np.int64), data


def text_view(values: pa.StringArray) -> tuple[Offsets, Octets]:
    """Return the offsets and data of a column as Arrow holds them."""
    _, offsets, data = values.buffers()
    if not len(values) or offsets is None:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    own = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
    return own, np.frombuffer(data or b"", np.uint8)


def most_bytes(values: pa.Array) -> int:
    """Return how many bytes values of a text or binary column have at most."""
    found: int = longest(text_view(values)[0])
    return found


def starts_before(values: pa.StringArray, width: int, mark: str) -> int:
    """Return the first row in which a mark, of one byte, is not after exactly so many other bytes, -1 for none."""
    offsets, data = text_view(values)
    found: int = unmarked(data, offsets, width, ord(mark))
    return found


def pair(left: pa.StringArray, right: pa.StringArray, between: str) -> pa.StringArray:
    """Return two columns joined row by row, with a character of one byte between; there are no nulls."""
    one, other = text_view(left), text_view(right)
    size = sum(int(offsets[-1]) - int(offsets[0]) for offsets, _ in (one, other)) + len(left)
    placed, out = np.empty(len(left) + 1, np.int32), np.empty(size + SPARE, np.uint8)
    done = pair_values(*one[::-1], *other[::-1], ord(between), placed, out)
    assert done == size, "the values of two columns are more than 2 GiB"
    buffers = [None, pa.py_buffer(placed), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(left), buffers)


def flat_rows(matrix: Octets) -> tuple[Octets, int]:
    """Return the bytes from the first row's first one to the last row's last one, not copied if possible, and the rows' distance."""
    rows, size = matrix.shape
    if not rows:
        return np.zeros(0, np.uint8), size
    if matrix.strides[1] != 1 or matrix.strides[0] < 1:
        matrix = np.ascontiguousarray(matrix)
    step = matrix.strides[0]
    return as_strided(matrix, ((rows - 1) * step + size,), (1,)), step


def strings_of(matrix: Octets) -> pa.StringArray:
    """Return a column whose values are the lines of a byte matrix, not copied."""
    rows, width = matrix.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32) if width else None
    if offsets is None:
        offsets = np.zeros(rows + 1, np.int32)
    matrix = np.ascontiguousarray(matrix)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(matrix))


def first_other(values: pa.StringArray, rows: Longs) -> int:
    """Return the first row of a column without nulls whose text is not that of the row it is compared with, or -1."""
    found: int = kernels.first_other(*text_view(values), rows)
    return found


def differing(left: pa.StringArray, right: pa.StringArray) -> Mask:
    """Return the rows where two text columns differ; two nulls are alike."""
    found = np.empty(len(left), bool)
    kernels.mark_differing(*_parts(left), *_parts(right), found)
    return found


def _parts(values: pa.StringArray) -> tuple[Offsets, Octets, Octets]:
    """Return the offsets, data and bits of validity of a column, which are empty where all values are valid."""
    if values.offset and values.null_count:
        values = pa.concat_arrays([values])
    valid = values.buffers()[0] if values.null_count else None
    return *text_view(values), _ALL_VALID if valid is None else np.frombuffer(valid, np.uint8)


def trim(values: pa.StringArray) -> pa.StringArray:
    """Return the values without blanks around them; the same column where there are none."""
    offsets, data = byte_view(values)
    full = offsets[1:] > offsets[:-1]
    if not full.any():
        return values
    firsts, lasts = data[offsets[:-1][full]], data[offsets[1:][full] - 1]
    if (firsts > 32).all() and (lasts > 32).all():
        return values
    return pc.utf8_trim(values, BLANKS)


def distinct(values: pa.Array) -> tuple[Longs, list[str]]:
    """Return each row's number among the different values, and those values; null is one too."""
    coded = values.dictionary_encode("encode")
    return np.asarray(coded.indices), coded.dictionary.to_pylist()


BIG_ENDIAN: Final = ">"
LITTLE_ENDIAN: Final = "<"


def octets(data: Any) -> Octets:
    """Return the bytes of anything with a buffer as a flat array that shares them."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


def words(data: Octets, kind: str, order: str = BIG_ENDIAN) -> npt.NDArray[Any]:
    """Return one word for every byte offset at which a whole word lies.

    ``kind`` is a numpy kind and width in bytes ("u2", "u4", "i8", ...). Data shorter than one
    word give an empty view. ``data`` must be contiguous.
    """
    dtype = np.dtype(order + kind)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data if count else b"", strides=(1,))


def windows(data: Octets, width: int) -> npt.NDArray[np.void]:
    """Return the ``width`` bytes at every offset, as one opaque item each."""
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), f"V{width}", data if count else b"", strides=(1,))


def rows_at(data: Octets, starts: npt.NDArray[np.int64], width: int) -> Octets:
    """Return a matrix with the ``width`` bytes at each start; a fresh copy, one row a start."""
    if not len(starts) or not width:
        return np.zeros((len(starts), width), np.uint8)
    return windows(data, width)[starts].view(np.uint8).reshape(len(starts), width)


FEW: Final = 64  # keys up to which comparing with each is faster than sorting


def group(keys: Longs) -> Iterator[tuple[int, Longs]]:
    """Yield each key and its rows, by ascending key."""
    codes = np.empty(len(keys), np.int64)
    known, sizes = np.empty(FEW, np.int64), np.empty(FEW, np.int64)
    count = kernels.code_keys(keys, codes, known, sizes)
    if count == kernels.FULL:
        known, codes, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        count = len(known)
    ends = np.cumsum(sizes[:count])
    rows = np.empty(len(keys), np.int64)
    kernels.order_rows(codes, ends - sizes[:count], rows)
    for code in np.argsort(known[:count]).tolist():
        yield int(known[code]), rows[ends[code] - sizes[code] : ends[code]]


class Isolation:
    """Rows 0 to ``count`` - 1 in as few parts as have no bad row, in ascending order; ``errors`` are those of the bad rows.

    A part in which TrailgateError is raised is tried again in halves, until each bad row is alone:

        isolation = Isolation(len(values))
        for rows in isolation:
            with isolation:
                convert(values.slice(rows.start, len(rows)))
    """

    def __init__(self, count: int) -> None:
        self.errors: dict[int, TrailgateError] = {}
        self._waiting = [range(count)]
        self._rows = range(0)

    def __iter__(self) -> Iterator[range]:
        while self._waiting:
            self._rows = self._waiting.pop()
            if self._rows:
                yield self._rows

    def __enter__(self) -> None:
        """Begin to work on the part that was given last."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, TrailgateError):
            return False
        rows = self._rows
        half = len(rows) // 2
        if half:
            self._waiting += [rows[half:], rows[:half]]
        else:
            self.errors[rows.start] = error
        return True
