"""Bytes as base64 text (RFC 4648 section 4), whole columns at once."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.columnar.gather import NO_NULLS, column
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.rows import over_nulls, row_error, text_view
from trailgate.columnar.views import octets
from trailgate.messages.json_text.kernels import base64 as kernels

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def _digits() -> Octets:
    table = np.full(256, kernels.INVALID, np.uint8)
    table[octets(_ALPHABET)] = np.arange(64)
    table.setflags(write=False)
    return table


_DIGITS: Final = _digits()


def from_base64(values: pa.StringArray) -> pa.BinaryArray:
    """Return the bytes of base64 text with its padding; null stays null.

    Raises DecodeError, with the row as its record, for other text.
    """

    def convert(dense: pa.Array) -> pa.Array:
        offsets, data = text_view(dense)
        ends = np.empty(len(dense) + 1, np.int32)
        out = np.empty(3 * (int(offsets[-1] - offsets[0]) // 4) + SPARE, np.uint8)
        row = kernels.decode(data, offsets, _DIGITS, ends, out)
        if row >= 0:
            raise row_error("not base64 text", dense, row)
        return column(ends, out, NO_NULLS, text=False)

    return over_nulls(convert, values)


def to_base64(values: pa.BinaryArray) -> pa.StringArray:
    """Return base64 text with its padding; null stays null."""

    def convert(dense: pa.Array) -> pa.Array:
        offsets, data = text_view(dense)
        lengths = np.diff(offsets).astype(np.int64)
        ends = np.zeros(len(dense) + 1, np.int32)
        np.cumsum((lengths + 2) // 3 * 4, out=ends[1:])
        out = np.empty(int(ends[-1]), np.uint8)
        kernels.encode(data, offsets, octets(_ALPHABET), ends, out)
        return column(ends, out, NO_NULLS, text=True)

    return over_nulls(convert, values)
