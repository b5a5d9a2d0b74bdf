"""Decode and encode text fields (single-byte, double-byte or Unicode), and raw bytes.

Decoding converts a matrix of bytes to strings by the code page and trims the padding; encoding pads
with blanks. Raw fields (POINTER, INDEX) are bytes or hexadecimal text.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.values.code_pages import text_page
from trailgate.cobol.values.codec import (
    DecodedColumn,
    Decoder,
    Encoder,
    RawRepresentation,
    TrimSide,
    ValueOptions,
    encode_error,
    refuse_nulls,
)
from trailgate.columnar.code_pages import (
    SingleBytePage,
)
from trailgate.columnar.hex_digits import LOWER, to_hex
from trailgate.columnar.strings import byte_view, matrix_to_binary

# For each side, the functions that trim ASCII blanks and that trim a given character.
_TRIMS: Final = MappingProxyType(
    {
        TrimSide.LEFT: (pc.ascii_ltrim, pc.utf8_ltrim),
        TrimSide.RIGHT: (pc.ascii_rtrim, pc.utf8_rtrim),
        TrimSide.BOTH: (pc.ascii_trim, pc.utf8_trim),
    }
)
_WIDE_BLANK = "\N{IDEOGRAPHIC SPACE}"


def decode_text(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of text fields. Blanks are trimmed on the right, or on the left for JUST RIGHT."""
    page, side = text_page(field, options), _trimmed_side(field, options)
    if isinstance(page, SingleBytePage):
        left, right = (
            side in (TrimSide.LEFT, TrimSide.BOTH),
            side in (TrimSide.RIGHT, TrimSide.BOTH),
        )
        return lambda matrix: DecodedColumn(*page.decode(matrix, left=left, right=right))
    trim = _trimmer(field, side)

    def decode(matrix: Octets) -> DecodedColumn:
        decoded = page.decode(matrix)
        return DecodedColumn(trim(decoded.values), decoded.bad)

    return decode


def _trimmed_side(field: CopybookField, options: ValueOptions) -> TrimSide | None:
    """Return the side on which a text field is trimmed, or None if it is not trimmed."""
    if not options.trim or isinstance(options.trim, TrimSide):
        return options.trim or None
    return TrimSide.LEFT if field.justified else TrimSide.RIGHT


def _trimmer(field: CopybookField, side: TrimSide | None) -> Callable[[pa.Array], pa.Array]:
    """Return a function that trims a column of strings; double-byte text has wide blanks."""
    if side is None:
        return lambda values: values
    plain, wide = _TRIMS[side]
    if field.usage is Usage.DBCS:
        return lambda values: wide(values, _WIDE_BLANK)
    return lambda values: plain(values, " ")


def encode_text(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of text fields, which pads with blanks.

    It raises EncodeError if a text is too long.
    """
    page, size = text_page(field, options), field.size
    padding = np.resize(np.frombuffer(page.blank, np.uint8), size)

    def encode(values: pa.Array) -> Octets:
        refuse_nulls(values)
        encoded = page.encode(values.cast(pa.string()))
        offsets, data = byte_view(encoded)
        lengths = np.diff(offsets)
        if (lengths > size).any():
            row = int(np.argmax(lengths > size))
            problem = f"{lengths[row]} bytes in a field of {size}"
            raise encode_error(problem, row, repr(values[row].as_py()))
        rows = np.tile(padding, (len(values), 1))
        column = np.arange(size)
        first = (size - lengths)[:, None] if field.justified else 0
        # The bytes of each row that the text occupies. Boolean assignment fills them row by row,
        # which is also the order of ``data``.
        inside = (column >= first) & (column < first + lengths[:, None])
        rows[inside] = data[offsets[0] : offsets[-1]]
        return rows

    return encode


def decode_raw(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of raw fields, such as POINTER: bytes, or text of their hex digits."""
    del field
    if options.raw is RawRepresentation.BINARY:
        return lambda matrix: DecodedColumn(matrix_to_binary(matrix))
    return lambda matrix: DecodedColumn(to_hex(matrix_to_binary(matrix), LOWER))


def encode_raw(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of raw fields, such as POINTER: from bytes or text of hex digits, exactly of the field's size."""
    hexed = options.raw is RawRepresentation.HEX

    def encode(values: pa.Array) -> Octets:
        refuse_nulls(values)
        if hexed or pa.types.is_string(values.type):
            raws = [_unhex(row, text) for row, text in enumerate(values.to_pylist())]
            values = pa.array(raws, pa.binary())
        offsets, data = byte_view(values.cast(pa.binary()))
        wrong = np.diff(offsets) != field.size
        if wrong.any():
            row = int(np.argmax(wrong))
            problem = f"{len(values[row].as_buffer())} bytes in a field of {field.size}"
            raise encode_error(problem, row, values[row].as_py())
        return data[offsets[0] : offsets[-1]].reshape(len(values), field.size)

    return encode


def _unhex(row: int, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise encode_error("not pairs of hex digits, such as 0a1b", row, text) from None
