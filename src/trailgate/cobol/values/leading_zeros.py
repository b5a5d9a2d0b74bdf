"""Whole numbers as text that keeps their leading zeros: account and article numbers."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.cobol.copybook.layouts import Field, Usage
from trailgate.cobol.values.codec import Decoded, Decoder, Encoder
from trailgate.cobol.values.options import Integers, ValueOptions
from trailgate.errors import EncodeError

_DECIMAL: Final = (Usage.ZONED, Usage.PACKED, Usage.UNSIGNED_PACKED)


def keeps_zeros(field: Field, options: ValueOptions) -> bool:
    """Return whether a field becomes text: decimal digits without sign and point."""
    number = field.number
    if number is None or number.signed or number.scale or field.usage not in _DECIMAL:
        return False
    return options.integers is Integers.TEXT


def with_zeros(field: Field, decode: Decoder) -> Decoder:
    """Return a decoder that gives all digits of the picture."""
    digits = field.number.digits if field.number else 0

    def decoded(matrix: Octets) -> Decoded:
        found = decode(matrix)
        text = pc.utf8_lpad(pc.cast(found.values, pa.string()), digits, "0")
        return Decoded(text, found.bad)

    return decoded


def from_text(field: Field, encode: Encoder) -> Encoder:
    """Return an encoder that takes digits as text; raises EncodeError for other text."""

    def encoded(values: pa.Array) -> Octets:
        if not pa.types.is_string(values.type):
            return encode(values)
        try:
            return encode(pc.cast(values, pa.decimal128(38, 0)))
        except pa.ArrowInvalid:
            problem = f"text that is no number in a {field.usage.value} field"
            raise EncodeError(problem) from None

    return encoded
