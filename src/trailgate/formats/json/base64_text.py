"""Decode and encode columns of base64 text (RFC 4648 section 4), the form of bytes in JSON."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import byte_table, octets
from trailgate.columnar.rows import convert_valid_rows, row_error
from trailgate.columnar.strings import NO_NULLS, build_binary_column, text_view
from trailgate.columnar.word_kernels import SPARE
from trailgate.formats.json import base64_kernels as kernels

_ALPHABET: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DIGITS: Final = byte_table({code: value for value, code in enumerate(_ALPHABET)}, kernels.INVALID)


def from_base64(values: pa.StringArray) -> pa.BinaryArray:
    """Decode a column of base64 text with padding; null stays null.

    Raises DecodeError, with the row in `where.record`, if a value is not base64.
    """

    def convert(dense: pa.Array) -> pa.Array:
        offsets, data = text_view(dense)
        ends = np.empty(len(dense) + 1, np.int32)
        out = np.empty(3 * (int(offsets[-1] - offsets[0]) // 4) + SPARE, np.uint8)
        row = kernels.decode_base64(data, offsets, _DIGITS, ends, out)
        if row >= 0:
            raise row_error("not base64 text", dense, row)
        return build_binary_column(ends, out, NO_NULLS, text=False)

    return convert_valid_rows(convert, values)


def to_base64(values: pa.BinaryArray) -> pa.StringArray:
    """Encode a column of bytes as base64 text with padding; null stays null."""

    def convert(dense: pa.Array) -> pa.Array:
        offsets, data = text_view(dense)
        lengths = np.diff(offsets).astype(np.int64)
        ends = np.zeros(len(dense) + 1, np.int32)
        # Each 3 bytes begun become 4 characters: 0, 1, 3 and 4 bytes become 0, 4, 4 and 8.
        np.cumsum((lengths + 2) // 3 * 4, out=ends[1:])
        out = np.empty(int(ends[-1]), np.uint8)
        kernels.encode_base64(data, offsets, octets(_ALPHABET), ends, out)
        return build_binary_column(ends, out, NO_NULLS, text=True)

    return convert_valid_rows(convert, values)
