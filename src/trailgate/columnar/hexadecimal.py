"""Bytes as hexadecimal text and back, whole columns at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.errors import DecodeError, Where

LOWER: Final = np.frombuffer(b"".join(b"%02x" % n for n in range(256)), "V2")
UPPER: Final = np.frombuffer(b"".join(b"%02X" % n for n in range(256)), "V2")
_INVALID: Final = 0xFF


def _digit_values() -> npt.NDArray[np.uint8]:
    table = np.full(256, _INVALID, np.uint8)
    for value, digit in enumerate("0123456789abcdef"):
        table[[ord(digit), ord(digit.upper())]] = value
    table.setflags(write=False)
    return table


_VALUES: Final = _digit_values()


def to_hex(values: pa.BinaryArray, digits: npt.NDArray[np.void] = UPPER) -> pa.StringArray:
    """Return two digits a byte; null stays null."""
    ends, content = _parts(values)
    text = pa.py_buffer(np.ascontiguousarray(digits[content]))
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends * np.int32(2)), text, _validity(values)
    )


def from_hex(values: pa.StringArray) -> pa.BinaryArray:
    """Return the bytes; null stays null.

    Raises DecodeError, with the row as its record, for what is not pairs of hex digits.
    """
    valid = _validity(values)
    ends, content = _parts(values.fill_null("") if valid is not None else values)
    digits = _VALUES[content]
    odd = np.diff(ends) % 2 != 0
    if odd.any() or (digits == _INVALID).any():
        row = _first_bad(ends, digits, odd)
        raw = content[ends[row] : ends[row + 1]].tobytes()
        problem = "not pairs of hexadecimal digits"
        raise DecodeError(problem, where=Where(record=row, raw=raw))
    data = (digits[0::2] << 4) | digits[1::2]
    return pa.BinaryArray.from_buffers(
        pa.binary(),
        len(values),
        [valid, pa.py_buffer(ends // np.int32(2)), pa.py_buffer(data)],
    )


def _parts(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the offsets of a column of bytes or text, from 0 on, and its content."""
    if not len(values):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
    return ends - ends[0], content


def _validity(values: pa.Array) -> pa.Buffer | None:
    if not values.null_count:
        return None
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _first_bad(
    ends: npt.NDArray[np.int32], digits: npt.NDArray[np.uint8], odd: npt.NDArray[np.bool_]
) -> int:
    total = np.concatenate([[0], np.cumsum(digits == _INVALID)])
    bad = odd | (total[ends[1:]] > total[ends[:-1]])
    return int(np.argmax(bad))
