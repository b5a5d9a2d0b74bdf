"""Decimals as Connect writes them: unscaled two's complement numbers, big-endian, and a scale."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.numbers import format_integers
from trailgate.columnar.rows import over_nulls, row_error
from trailgate.errors import DecodeError
from trailgate.messages.json_text.base64_text import from_base64
from trailgate.messages.json_text.images import Values
from trailgate.messages.json_text.kernels.layout import OBJECT

MOST_SCALE: Final = 1000  # more digits than any database holds
_WORD: Final = 8


def decimal_texts(values: pa.BinaryArray, scale: int) -> pa.StringArray:
    """Return the digits of unscaled numbers, with ``scale`` of them after the point; null stays null."""

    def convert(dense: pa.Array) -> pa.Array:
        numbers = _small(dense)
        if numbers is not None and 0 <= scale <= 18:
            return _scaled(numbers, scale)
        raws = dense.to_pylist()
        if b"" in raws:
            raise row_error("a number has no bytes", dense, raws.index(b""))
        return pa.array([_text(raw, scale) for raw in raws], pa.string())

    return over_nulls(convert, values)


def _small(values: pa.BinaryArray) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Return the numbers of at most eight bytes each; None where one has more, or none."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    sizes = np.diff(offsets)
    if not len(sizes) or sizes.min() < 1 or sizes.max() > _WORD:
        return None
    data = np.frombuffer(values.buffers()[2], np.uint8)
    found = (data[offsets[:-1]].astype(np.int8)).astype(np.int64)
    for place in range(1, int(sizes.max())):
        more = sizes > place
        found[more] = found[more] << 8 | data[offsets[:-1][more] + place]
    return found


def _scaled(numbers: np.ndarray[tuple[int], np.dtype[np.int64]], scale: int) -> pa.StringArray:
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


def variable_decimals(values: Values) -> pa.Array:
    """Return the digits of numbers that have their scale beside them: ``{"scale": 2, "value": "BAA="}``.

    Raises DecodeError, with the row as its record, for other values.
    """
    kinds = values.kinds
    found: list[str | None] = []
    for row, text in enumerate(values.texts.to_pylist()):
        if text is None or kinds[row] != OBJECT:
            found.append(text)
            continue
        number = _with_scale(text)
        if number is None:
            raise row_error("not a number with its scale", values.texts, row)
        found.append(number)
    return pa.array(found, pa.string())


def _with_scale(text: str) -> str | None:
    """Return the digits of an object with a number and its scale, None for other objects."""
    try:
        members = json.loads(text)
        scale, raw = int(members["scale"]), from_base64(pa.array([members["value"]], pa.string()))
    except (ValueError, TypeError, KeyError, DecodeError, pa.ArrowException):
        return None
    found = raw[0].as_py()
    return _text(found, scale) if found and abs(scale) <= MOST_SCALE else None
