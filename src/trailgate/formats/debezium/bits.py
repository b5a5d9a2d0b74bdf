"""Debezium's bits (``io.debezium.data.Bits``): base64 of bytes in little-endian order, of which the schema has the number of bits.

Seven bits 0001011 are the byte 0B, ``"Cw=="``: the text ``0001011``, or the number 11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.columnar.digits import to_hex
from trailgate.columnar.rows import over_nulls, row_error, strings_of, text_view
from trailgate.formats.json.images import Values, from_base64
from trailgate.formats.json.scan_kernels import STRING

_WORD: Final = 8  # bytes of a number that 64 bits hold
# PostgreSQL's bit varying without a length has 2^31 - 1 bits in its schema: then a value has as many as its bytes.
MOST_BITS: Final = 65535


def bit_bytes(values: Values) -> pa.Array:
    """Return the bytes as they are, as hexadecimal digits."""
    values.refuse_others(STRING)
    return to_hex(from_base64(values.strings))


def bit_numbers(values: Values) -> pa.Array:
    """Return the digits of the numbers that the bits are."""
    values.refuse_others(STRING)

    def convert(dense: pa.Array) -> pa.Array:
        raw = _matrix(dense)
        if raw.shape[1] <= _WORD:
            padded = np.zeros((len(raw), _WORD), np.uint8)
            padded[:, : raw.shape[1]] = raw
            return pa.array(padded.view("<u8").ravel()).cast(pa.string())
        numbers = [str(int.from_bytes(row.tobytes(), "little")) for row in raw]
        return pa.array(numbers, pa.string())

    return over_nulls(convert, from_base64(values.strings))


def bit_strings(length: int) -> Callable[[Values], pa.Array]:
    """Return a decoder to text of ``length`` digits 0 and 1, the most significant first.

    With a length of 0, or more than a column has room for, a value has all the bits of its bytes.
    """

    def decode(values: Values) -> pa.Array:
        values.refuse_others(STRING)
        return over_nulls(convert, from_base64(values.strings))

    def convert(dense: pa.Array) -> pa.Array:
        raw = _matrix(dense)
        digits = np.unpackbits(raw, axis=1, bitorder="little")
        if not 0 < length <= MOST_BITS:
            sizes = np.diff(text_view(dense)[0])
            strings = [row[: 8 * size][::-1] for row, size in zip(digits, sizes, strict=True)]
            return pa.array(["".join(map(str, row.tolist())) for row in strings], pa.string())
        beyond = digits[:, length:].any(axis=1)
        if beyond.any():
            problem = f"more bits than the {length} of the column's type"
            raise row_error(problem, dense, int(np.argmax(beyond)))
        whole = np.zeros((len(digits), length), np.uint8)
        whole[:, : min(length, digits.shape[1])] = digits[:, :length]
        return strings_of(whole[:, ::-1] + ord("0"))

    return decode


def _matrix(values: pa.BinaryArray) -> Octets:
    """Return the bytes of each value as a row, with zeros after those of shorter values."""
    offsets, data = text_view(values)
    sizes = np.diff(offsets)
    raw = np.zeros((len(values), int(sizes.max(initial=0))), np.uint8)
    mine = np.arange(raw.shape[1]) < sizes[:, None]
    raw[mine] = data[offsets[0] : offsets[-1]]
    return raw
