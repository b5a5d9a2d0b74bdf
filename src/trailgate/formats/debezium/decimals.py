"""Decimals and bit strings of change events. In JSON their bytes are base64.

A decimal is an unscaled big-endian two's complement number and a scale: the bytes `01 2C` with a
scale of 2 are 3.00.

Bit strings (`io.debezium.data.Bits`) are bytes in little-endian order, and the schema states the
number of bits: the seven bits 0001011 are the byte 0B, in base64 `"Cw=="`. They become the text
`0001011`, or the number 11.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.columnar.hex_digits import to_hex
from trailgate.columnar.numbers import format_integers, parse_integers
from trailgate.columnar.rows import convert_valid_rows, row_error
from trailgate.columnar.strings import matrix_to_strings, text_view
from trailgate.formats.json.base64_text import from_base64
from trailgate.formats.json.images import JsonValues
from trailgate.formats.json.object_kernels import NO_NODE
from trailgate.formats.json.scan_kernels import NUMBER, OBJECT, STRING

MOST_SCALE: Final = 1000  # more digits than any database supports
_MOST_BYTES: Final = 1000  # bytes of an unscaled number: some 2,400 digits
_WORD: Final = 8  # bytes of a 64-bit number
# PostgreSQL's bit varying without a length has 2^31 - 1 bits in its schema. The bits of such a value
# are all bits of its bytes.
MOST_BITS: Final = 65535


def decimal_strings(values: pa.BinaryArray, scale: int) -> pa.StringArray:
    """Format Debezium's unscaled numbers as decimals with `scale` digits after the point; null stays null."""

    def convert(dense: pa.Array) -> pa.Array:
        numbers = _small(dense)
        if numbers is not None and 0 <= scale <= 18:
            return _scale(numbers, scale)
        raws = dense.to_pylist()
        if b"" in raws:
            raise row_error("the bytes of a number are empty", dense, raws.index(b""))
        sizes = [len(raw) for raw in raws]
        if max(sizes, default=0) > _MOST_BYTES:
            problem = f"a number has more than {_MOST_BYTES} bytes"
            raise row_error(problem, dense, sizes.index(max(sizes)))
        return pa.array([_text(raw, scale) for raw in raws], pa.string())

    return convert_valid_rows(convert, values)


def _small(values: pa.BinaryArray) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Decode Debezium's unscaled numbers of one to eight bytes.

    Returns None if a value has more bytes, or no bytes.
    """
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    sizes = np.diff(offsets)
    if not len(sizes) or sizes.min() < 1 or sizes.max() > _WORD:
        return None
    data = np.frombuffer(values.buffers()[2], np.uint8)
    # Start with the sign-extended first byte, then append the others: FF 38 is -1, then -1 << 8 |
    # 0x38 = -200.
    numbers = (data[offsets[:-1]].astype(np.int8)).astype(np.int64)
    for place in range(1, int(sizes.max())):
        more = sizes > place
        numbers[more] = numbers[more] << 8 | data[offsets[:-1][more] + place]
    return numbers


def _scale(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], scale: int) -> pa.StringArray:
    # A decimal128 is two 64-bit words, low word first. The high word is the sign: number >> 63 is 0
    # or -1.
    pairs = np.empty((len(numbers), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = numbers, numbers >> 63
    kind = pa.decimal128(19, scale)
    return format_integers(pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(pairs)]))


def _text(raw: bytes, scale: int) -> str:
    number = int.from_bytes(raw, "big", signed=True)
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def variable_decimals(values: JsonValues) -> pa.Array:
    """Format Debezium's numbers that state their own scale, such as `{"scale": 2, "value": "BAA="}`.

    Other values are unchanged. Raises DecodeError, with the row in `where.record`, for an object
    that is not such a number.
    """
    nodes, kinds = values.nodes, values.kinds
    objects = np.where(kinds == OBJECT, values.cells, NO_NODE).astype(np.int64)
    scale, value = nodes.members(objects, ["scale", "value"])
    odd = (nodes.kinds(scale) != NUMBER) | (nodes.kinds(value) != STRING)
    odd &= kinds == OBJECT
    if odd.any():
        raise row_error(
            'not a number with its scale, such as {"scale": 2, "value": "BAA="}',
            values.strings,
            int(np.argmax(odd)),
        )
    scales = parse_integers(nodes.strings(scale), 0, 2, signed=True)
    if pc.any(pc.greater(pc.abs_checked(scales), MOST_SCALE)).as_py():
        row = pc.index(pc.greater(pc.abs_checked(scales), MOST_SCALE), True).as_py()
        raise row_error(f"the scale is not from -{MOST_SCALE} to {MOST_SCALE}", values.strings, row)
    numbers = from_base64(nodes.strings(value))
    decimals = pc.if_else(pa.array(kinds == OBJECT), pa.scalar(None, pa.string()), values.strings)
    # One pass per distinct scale: numbers of other scales are null in it, and coalesce merges the
    # passes.
    for each in pc.unique(scales.drop_null()).to_pylist():
        mine = pc.fill_null(pc.equal(scales, each), False)
        unscaled = pc.if_else(mine, numbers, pa.scalar(None, pa.binary()))
        decimals = pc.coalesce(decimals, decimal_strings(unscaled, each))
    return decimals


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
