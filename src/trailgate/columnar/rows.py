"""Work with the rows of columns: string buffers, words at any offset, rows grouped by key, and bad rows.

``words(data, "u4")[offsets]`` reads the 32-bit words that begin at these offsets through a view
with overlapping items, without a copy. `BadRowIsolation` processes many rows at once; if that
fails, it halves them until each bad row is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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

BIG_ENDIAN: Final = ">"
LITTLE_ENDIAN: Final = "<"

FEW: Final = 64  # up to this many distinct keys, comparing with each of them is faster than sorting


def find_failing_row(check: Callable[[pa.Array], object], values: pa.Array) -> int:
    """Return the index of the first row of a column that ``check`` rejects.

    The caller must know that ``check`` rejects the complete column.

    ``check`` raises DecodeError or an Arrow error for a column with a bad row. It is called with
    slices, each twice as long as the previous one, until one is rejected; this slice is bisected.
    So a bad row at the start is found at once.
    """
    start, size = 0, 1
    while start + size < len(values):
        try:
            check(values.slice(start, size))
        except (DecodeError, pa.ArrowException):
            break
        # These rows are good. If all slices are, the bad row is in the rest.
        start, size = start + size, 2 * size
    # From here on, the bad row is known to be in the ``size`` rows from ``start`` on.
    size = min(size, len(values) - start)
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
    """Build the error for one row of a column, with its index as the record and its bytes as the raw value."""
    raw = values[row].as_buffer()
    where = Where(record=int(row), raw=None if raw is None else raw.to_pybytes())
    return DecodeError(problem, where=where, hint=hint)


def convert_valid_rows(convert: Callable[[pa.Array], pa.Array], values: pa.Array) -> pa.Array:
    """Convert the rows of a column that are not null: call ``convert`` with them, and put the nulls back.

    The row numbers in an error of ``convert`` are translated to rows of ``values``.
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
        translated = DecodeError(error.problem, where=where, hint=error.hint)
        translated.alike = rows[error.alike].tolist() if len(error.alike) else ()
        raise translated from None
    # valid 1 0 1 takes 0, null, 1.
    slots = np.cumsum(valid) - 1
    return dense.take(pa.array(slots, mask=~valid))


def nullify_rows(values: pa.Array, missing: Mask) -> pa.Array:
    """Return a column with null in the rows that the mask ``missing`` marks. Rows that are null stay null.

    The result shares the buffers of ``values``, unless ``values`` is a slice.
    """
    if values.offset:  # its validity bits do not begin at bit 0, so let Arrow shift them
        return pc.if_else(pa.array(missing), pa.scalar(None, values.type), values)
    # Arrow's validity bits: row i is bit i % 8 of byte i // 8, and 1 means not null. Example: of
    # three rows the second is missing: the byte is 0b101. A row that was null stays null (&=).
    bits = np.packbits(~missing, bitorder="little")
    valid, *parts = values.buffers()
    if valid is not None:
        bits &= np.frombuffer(valid, np.uint8, len(bits))
    return pa.Array.from_buffers(values.type, len(values), [pa.py_buffer(bits), *parts])


def mask_as_null(values: pa.Array, nulls: Mask | None) -> pa.Array:
    """Return a column with null in the rows of the mask ``nulls``, copied if there are any. Rows that are null stay null."""
    if nulls is None or not nulls.any():
        return values
    return values.take(pa.array(np.arange(len(values)), mask=nulls))


def byte_view(values: pa.StringArray) -> tuple[Longs, Octets]:
    """Return the offsets of a binary or string column as int64, one more than rows, and its data bytes without a copy."""
    offsets, data = text_view(values)
    return offsets.astype(np.int64), data


def text_view(values: pa.StringArray) -> tuple[Offsets, Octets]:
    """Return the offsets (int32) and data bytes of a string or binary column as Arrow stores them, without a copy."""
    _, offsets, data = values.buffers()
    if not len(values) or offsets is None:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    # A slice begins in the middle of the offsets, which have four bytes each.
    ends = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset)
    return ends, np.frombuffer(data or b"", np.uint8)


def most_bytes(values: pa.Array) -> int:
    """Return the size of the longest value in a text or binary column."""
    size: int = longest(text_view(values)[0])
    return size


def find_row_without_mark(values: pa.StringArray, width: int, mark: str) -> int:
    """Return the first row in which the first ``mark`` (a single byte) is not at offset ``width``, or -1."""
    offsets, data = text_view(values)
    row: int = unmarked(data, offsets, width, ord(mark))
    return row


def join_string_columns(
    left: pa.StringArray, right: pa.StringArray, between: str
) -> pa.StringArray:
    """Join two string columns row by row with a single-byte character between. There must be no nulls."""
    one, other = text_view(left), text_view(right)
    size = sum(int(offsets[-1]) - int(offsets[0]) for offsets, _ in (one, other)) + len(left)
    placed, out = np.empty(len(left) + 1, np.int32), np.empty(size + SPARE, np.uint8)
    done = pair_values(*one[::-1], *other[::-1], ord(between), placed, out)
    assert done == size, "the values of two columns are more than 2 GiB"
    buffers = [None, pa.py_buffer(placed), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(left), buffers)


def flat_rows(matrix: Octets) -> tuple[Octets, int]:
    """Return the bytes of a matrix from its first to its last byte, and the distance between two rows.

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


def matrix_to_strings(matrix: Octets) -> pa.StringArray:
    """Return the rows of a byte matrix as a string column without a copy."""
    rows, width = matrix.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32) if width else None
    if offsets is None:  # np.arange refuses a step of 0
        offsets = np.zeros(rows + 1, np.int32)
    matrix = np.ascontiguousarray(matrix)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(matrix))


def find_different_row(values: pa.StringArray, rows: Longs) -> int:
    """Return the first row r whose text differs from the text of row ``rows[r]``, or -1.

    There must be no nulls.
    """
    row: int = kernels.first_other(*text_view(values), rows)
    return row


def mask_differing_rows(left: pa.StringArray, right: pa.StringArray) -> Mask:
    """Return a mask of the rows in which two text columns differ. Two nulls are equal."""
    differ = np.empty(len(left), bool)
    kernels.mark_differing(*_parts(left), *_parts(right), differ)
    return differ


def _parts(values: pa.StringArray) -> tuple[Offsets, Octets, Octets]:
    """Return the offsets, data and validity bits of a string column; the bits are empty if no value is null."""
    # The validity bits of a sliced column may begin inside a byte. Copying the column realigns
    # them.
    if values.offset and values.null_count:
        values = pa.concat_arrays([values])
    valid = values.buffers()[0] if values.null_count else None
    return *text_view(values), _ALL_VALID if valid is None else np.frombuffer(valid, np.uint8)


def trim(values: pa.StringArray) -> pa.StringArray:
    """Return a string column without surrounding blanks, or the column itself if there are none."""
    offsets, data = byte_view(values)
    full = offsets[1:] > offsets[:-1]
    if not full.any():
        return values
    firsts, lasts = data[offsets[:-1][full]], data[offsets[1:][full] - 1]
    # No value begins or ends with a byte up to the blank, so there is nothing to trim.
    if (firsts > 32).all() and (lasts > 32).all():
        return values
    return pc.utf8_trim(values, BLANKS)


def encode_distinct(values: pa.Array) -> tuple[Longs, list[str]]:
    """Encode a column by its distinct values. Returns the index of each row's value among them, and the distinct values.

    Null counts as a value.
    """
    coded = values.dictionary_encode("encode")
    return np.asarray(coded.indices), coded.dictionary.to_pylist()


def octets(data: Any) -> Octets:
    """Return the bytes of a buffer as a flat array that shares them."""
    if isinstance(data, np.ndarray):
        return data
    return np.frombuffer(data, np.uint8)


@dataclass(frozen=True, slots=True)
class StringBytes:
    """The bytes of a text or binary column: value i is data[offsets[i]:offsets[i + 1]].

    If created by ``of``, ``data`` has at least ``SPARE`` bytes after the last value, for loops that
    read complete words.
    """

    offsets: Offsets
    data: Octets

    @classmethod
    def of(cls, values: pa.Array) -> StringBytes:
        """Return the bytes of a string or binary column, followed by at least ``SPARE`` bytes.

        Copies them only if fewer bytes follow.
        """
        shared = cls.from_column(values)
        begin, end = int(shared.offsets[0]), int(shared.offsets[-1])
        if end + SPARE <= len(shared.data):
            return shared
        spare = np.zeros(SPARE, np.uint8)
        return cls(shared.offsets - begin, np.concatenate([shared.data[begin:end], spare]))

    @classmethod
    def from_column(cls, values: pa.Array) -> StringBytes:
        """Return the bytes of a string or binary column without copying them.

        Unlike ``of``, it does not ensure the ``SPARE`` bytes after the last value.
        """
        if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
            values = values.cast(pa.string())
        if not len(values):
            return cls(np.zeros(1, np.int32), np.zeros(0, np.uint8))
        _, ends, buffer = values.buffers()
        offsets = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1]
        return cls(offsets, octets(buffer or b""))


def words(data: Octets, kind: str, order: str = BIG_ENDIAN) -> npt.NDArray[Any]:
    """View bytes as the integer word at every byte offset, as far as a complete word fits.

    ``kind`` is a numpy type and its width in bytes, such as "u2", "u4" or "i8". For bytes 01 02 03,
    "u2" returns 0x0102 and 0x0203. Data shorter than one word result in an empty view. ``data``
    must be contiguous.
    """
    dtype = np.dtype(order + kind)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data if count else b"", strides=(1,))


def windows(data: Octets, width: int) -> npt.NDArray[np.void]:
    """Return the ``width`` bytes at every offset, each as one opaque array element."""
    count = max(0, len(data) - width + 1)
    return np.ndarray((count,), f"V{width}", data if count else b"", strides=(1,))


def rows_at(data: Octets, starts: npt.NDArray[np.int64], width: int) -> Octets:
    """Copy the ``width`` bytes at each start to a matrix, one row per start."""
    if not len(starts) or not width:
        return np.zeros((len(starts), width), np.uint8)
    return windows(data, width)[starts].view(np.uint8).reshape(len(starts), width)


def first_of_each(keys: Longs) -> tuple[Longs, Longs]:
    """Return the distinct numbers in ``keys`` in ascending order, and the index of the first row of each.

    Keys that already ascend are not sorted again.
    """
    steps = np.diff(keys)
    if (steps > 0).all():
        return keys, np.arange(len(keys))
    if (steps >= 0).all():
        first = np.flatnonzero(np.append(True, steps > 0))
        return keys[first], first
    distinct, first = np.unique(keys, return_index=True)
    return distinct, first


def distinct_numbers(numbers: Longs) -> tuple[Longs, Longs]:
    """Return the distinct numbers in ascending order, and each row's index into them."""
    if len(numbers) and (numbers == numbers[0]).all():
        return numbers[:1], np.zeros(len(numbers), np.int64)
    return np.unique(numbers, return_inverse=True)


def group_rows(keys: Longs) -> Iterator[tuple[int, Longs]]:
    """Yield each distinct key and the indexes of its rows, in ascending order of the keys."""
    codes = np.empty(len(keys), np.int64)
    known, sizes = np.empty(FEW, np.int64), np.empty(FEW, np.int64)
    count = kernels.code_keys(keys, codes, known, sizes)
    if count == kernels.FULL:
        known, codes, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        count = len(known)
    # A counting sort: the rows of code c are rows[ends[c] - sizes[c] : ends[c]].
    ends = np.cumsum(sizes[:count])
    rows = np.empty(len(keys), np.int64)
    kernels.order_rows(codes, ends - sizes[:count], rows)
    for code in np.argsort(known[:count]).tolist():
        yield int(known[code]), rows[ends[code] - sizes[code] : ends[code]]


class BadRowIsolation:
    """Processes rows 0 to ``count`` - 1 in as few parts as possible, so that each bad row is in a part of its own.

    ``errors`` maps each bad row to its error.

    The parts are in ascending order. A part that raises TrailgateError is tried again in halves:

        isolation = BadRowIsolation(len(values))
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
        """Start processing the part that was yielded last."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, TrailgateError):
            return False
        rows = self._rows
        half = len(rows) // 2
        if half:
            # A stack: the first half is on top, so that parts are yielded in ascending order.
            self._waiting += [rows[half:], rows[:half]]
        else:
            self.errors[rows.start] = error
        return True
