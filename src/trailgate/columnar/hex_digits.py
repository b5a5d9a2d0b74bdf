"""Convert binary columns to strings of hex digits, and back."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import byte_table
from trailgate.errors import DecodeError, Where

LOWER: Final = np.frombuffer(b"".join(b"%02x" % n for n in range(256)), "V2")
UPPER: Final = np.frombuffer(b"".join(b"%02X" % n for n in range(256)), "V2")
_INVALID: Final = 0xFF
_VALUES: Final = byte_table(
    {ord(digit): int(digit, 16) for digit in "0123456789abcdefABCDEF"}, _INVALID
)


def to_hex(values: pa.BinaryArray, digits: npt.NDArray[np.void] = UPPER) -> pa.StringArray:
    """Format a binary column as two hex digits per byte. Null stays null."""
    # A table of 256 pairs of digits: the bytes 0A FF select "0A" and "FF".
    ends, content = _parts(values)
    text = pa.py_buffer(np.ascontiguousarray(digits[content]))
    return pa.StringArray.from_buffers(
        len(values), pa.py_buffer(ends * np.int32(2)), text, _validity(values)
    )


def from_hex(values: pa.StringArray) -> pa.BinaryArray:
    """Parse a string column of hex digits to a binary column. Null stays null.

    Raises DecodeError, with the row in ``where.record``, if a value is not pairs of hex digits.
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
    # All digits of all values in a row: the even ones are the high halves of bytes.
    # This is right across values, because each has an even number of digits: "0AFF" and "10" are
    # the digits 0 A F F 1 0, and the bytes 0A FF 10.
    data = (digits[0::2] << 4) | digits[1::2]
    return pa.BinaryArray.from_buffers(
        pa.binary(),
        len(values),
        [valid, pa.py_buffer(ends // np.int32(2)), pa.py_buffer(data)],
    )


def _parts(values: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Return the offsets of a column of text or bytes, converted to start from 0, and the bytes of its values."""
    if not len(values):
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    _, offsets, data = values.buffers()
    # The values may be a slice of the column: use its part of the offsets, and its bytes only.
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
    # Row i has a bad digit if the number of bad digits before its end exceeds that before its begin.
    # Example: "1x" and "22": total = 0 0 1 1 1, ends = 0 2 4: 1 > 0 in row 0, and 1 > 1 is false.
    total = np.concatenate([[0], np.cumsum(digits == _INVALID)])
    bad = odd | (total[ends[1:]] > total[ends[:-1]])
    return int(np.argmax(bad))
