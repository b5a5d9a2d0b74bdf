"""Decimals of change events. In JSON their bytes are base64.

A decimal is an unscaled big-endian two's complement number and a scale: the bytes `01 2C` with a
scale of 2 are 3.00.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.numbers import format_integers, parse_integers
from trailgate.columnar.rows import convert_valid_rows, row_error
from trailgate.formats.json.base64_text import from_base64
from trailgate.formats.json.images import JsonValues
from trailgate.formats.json.node_kernels import NO_NODE
from trailgate.formats.json.scanner_kernels import NUMBER, OBJECT, STRING

MOST_SCALE: Final = 1000  # more digits than any database supports
_MOST_BYTES: Final = 1000  # bytes of an unscaled number: some 2,400 digits
_WORD: Final = 8  # bytes of a 64-bit number


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


def precise_decimals(scale: int) -> Callable[[JsonValues], pa.Array]:
    """Create a decoder of Debezium's decimals with `scale` digits after the point.

    Depending on its setting decimal.format, Connect's converter writes them as base64 of the
    unscaled number (BASE64) or as JSON numbers (NUMERIC). The decoder accepts both.
    """

    def decode(values: JsonValues) -> pa.Array:
        values.require_types(STRING, NUMBER)
        return values.decode_by_type(values.strings, {STRING: unscale})

    def unscale(values: JsonValues) -> pa.Array:
        return decimal_strings(from_base64(values.strings), scale)

    return decode
