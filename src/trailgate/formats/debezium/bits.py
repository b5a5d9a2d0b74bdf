"""Bit strings of change events (`io.debezium.data.Bits`). In JSON their bytes are base64.

The bytes are in little-endian order, and the schema states the number of bits: the seven bits
0001011 are the byte 0B, in base64 `"Cw=="`. They become the text `0001011`, or the number 11.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.columnar.hex_digits import to_hex
from trailgate.columnar.rows import convert_valid_rows, row_error
from trailgate.columnar.strings import matrix_to_strings, text_view
from trailgate.formats.debezium.schemas import ConnectFieldType
from trailgate.formats.json.base64_text import from_base64
from trailgate.formats.json.images import JsonValues
from trailgate.formats.json.scanner_kernels import STRING

# PostgreSQL's bit varying without a length has 2^31 - 1 bits in its schema. The bits of such a value
# are all bits of its bytes.
MOST_BITS: Final = 65535
_WORD: Final = 8  # bytes of a 64-bit number


def bit_bytes(values: JsonValues) -> pa.Array:
    """Convert Debezium's bit strings to hex digits, the first byte first: the bytes 0B 01 are "0B01"."""
    values.require_types(STRING)
    return to_hex(from_base64(values.strings))


def bit_numbers(values: JsonValues) -> pa.Array:
    """Convert Debezium's bit strings to decimal numbers."""
    values.require_types(STRING)

    def convert(dense: pa.Array) -> pa.Array:
        raw = _matrix(dense)
        if raw.shape[1] <= _WORD:
            padded = np.zeros((len(raw), _WORD), np.uint8)
            padded[:, : raw.shape[1]] = raw
            # The bytes of a Debezium bit string are little-endian: 01 02 is 0x0201.
            return pa.array(padded.view("<u8").ravel()).cast(pa.string())
        numbers = [str(int.from_bytes(row.tobytes(), "little")) for row in raw]
        return pa.array(numbers, pa.string())

    return convert_valid_rows(convert, from_base64(values.strings))


def bit_strings(length: int) -> Callable[[JsonValues], pa.Array]:
    """Create a decoder of Debezium's bit strings to text of `length` digits 0 and 1, the most significant bit first.

    If the length is 0 or above `MOST_BITS`, the text has all bits of the bytes. Otherwise a set bit
    beyond the length is a DecodeError, with the row in `where.record`.
    """

    def decode(values: JsonValues) -> pa.Array:
        values.require_types(STRING)
        return convert_valid_rows(convert, from_base64(values.strings))

    def convert(dense: pa.Array) -> pa.Array:
        raw = _matrix(dense)
        digits = np.unpackbits(raw, axis=1, bitorder="little")
        if not 0 < length <= MOST_BITS:
            sizes = np.diff(text_view(dense)[0])
            strings = [row[: 8 * size][::-1] for row, size in zip(digits, sizes, strict=True)]
            return pa.array(["".join(map(str, row.tolist())) for row in strings], pa.string())
        # Bits above the declared length must be zero.
        beyond = digits[:, length:].any(axis=1)
        if beyond.any():
            problem = f"more bits than the {length} of the column's type"
            raise row_error(problem, dense, int(np.argmax(beyond)))
        padded = np.zeros((len(digits), length), np.uint8)
        padded[:, : min(length, digits.shape[1])] = digits[:, :length]
        return matrix_to_strings(padded[:, ::-1] + ord("0"))

    return decode


def _matrix(values: pa.BinaryArray) -> Octets:
    """Return a matrix with the bytes of each bit string in a row, padded with zeros."""
    offsets, data = text_view(values)
    sizes = np.diff(offsets)
    raw = np.zeros((len(values), int(sizes.max(initial=0))), np.uint8)
    used = np.arange(raw.shape[1]) < sizes[:, None]
    raw[used] = data[offsets[0] : offsets[-1]]
    return raw


def bit_length(field_type: ConnectFieldType) -> int:
    """Return the number of bits that a Debezium schema states, or 0 if it is not known.

    That is the case if the schema states more than `MOST_BITS`: PostgreSQL's `bit varying` without
    a length has 2^31 - 1 bits in its schema.
    """
    text = field_type.parameters.get("length", "")
    length = int(text) if re.fullmatch("[0-9]{1,10}", text) else 0
    return length if length <= MOST_BITS else 0
