"""Build, read, join and compare string and binary columns as Arrow stores them: offsets and bytes.

Value i of a column is data[offsets[i]:offsets[i + 1]]: the values "AB", "" and "C" are the bytes ``ABC``
with the offsets 0 2 2 3. `text_view` returns both arrays without a copy, and `build_binary_column` makes a
column of them. Comparing and joining columns are compiled loops (``columnar/strings_kernels.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets, Offsets, octets
from trailgate.columnar import strings_kernels as kernels
from trailgate.columnar.word_kernels import SPARE

BLANKS: Final = " \t\r\n"
NO_NULLS = np.zeros(0, np.bool_)
_ALL_VALID: Final = np.zeros(0, np.uint8)


def codes_to_letters(codes: Octets) -> pa.StringArray:
    """Convert ASCII codes to a column of one-letter strings, without a copy."""
    offsets = pa.py_buffer(np.arange(len(codes) + 1, dtype=np.int32))
    return pa.StringArray.from_buffers(
        len(codes), offsets, pa.py_buffer(np.ascontiguousarray(codes))
    )


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
    size: int = kernels.longest_value(text_view(values)[0])
    return size


def find_row_without_mark(values: pa.StringArray, width: int, mark: str) -> int:
    """Return the first row in which the first ``mark`` (a single byte) is not at offset ``width``, or -1."""
    offsets, data = text_view(values)
    row: int = kernels.first_row_without_mark(data, offsets, width, ord(mark))
    return row


def join_string_columns(
    left: pa.StringArray, right: pa.StringArray, between: str
) -> pa.StringArray:
    """Join two string columns row by row with a single-byte character between. There must be no nulls."""
    one, other = text_view(left), text_view(right)
    size = sum(int(offsets[-1]) - int(offsets[0]) for offsets, _ in (one, other)) + len(left)
    placed, out = np.empty(len(left) + 1, np.int32), np.empty(size + SPARE, np.uint8)
    done = kernels.join_pairs(*one[::-1], *other[::-1], ord(between), placed, out)
    assert done == size, "the values of two columns are more than 2 GiB"
    buffers = [None, pa.py_buffer(placed), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), len(left), buffers)


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
    row: int = kernels.first_differing_row(*text_view(values), rows)
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


def trim_strings(values: pa.StringArray) -> pa.StringArray:
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


def matrix_to_binary(matrix: Octets) -> pa.Array:
    """Return the rows of a byte matrix as a binary column that shares its bytes."""
    count, width = matrix.shape
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
    return build_binary_column(
        offsets, np.ascontiguousarray(matrix).reshape(-1), NO_NULLS, text=False
    )


def strings_from_lengths(data: bytes | npt.NDArray[np.uint8], lengths: Longs) -> pa.Array:
    """Build a string column from UTF-8 ``data`` and the length of each value in bytes."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))
