"""Decode and encode packed decimal numbers: two digits per byte.

The last nibble of COMP-3 is the sign: ``12 34 5C`` is 12345, and ``5D`` is -5. COMP-6 has no sign
nibble. If a field has one nibble more than its picture has digits, the first nibble must be 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.values.codec import (
    Decoder,
    Encoder,
    ValueOptions,
)
from trailgate.cobol.values.decimals import (
    DigitBytes,
    decode_decimal_digits,
    digits_of,
    number_form,
    number_of,
)
from trailgate.cobol.values.kernels import (
    MINUS,
    WRONG,
)

_PACKED_PLUS: Final = 0xC
_PACKED_MINUS: Final = 0xD
_UNSIGNED: Final = 0xF
_BYTES: Final = np.arange(256)
_HIGH: Final = _BYTES >> 4
_LOW: Final = _BYTES & 0xF
# Each byte as two digits: 0x12 is 12, and 0x1A is not two digits.
_PAIRS: Final = np.where((_HIGH > 9) | (_LOW > 9), WRONG, 10 * _HIGH + _LOW)


def _packed_signs(*, signed: bool, strict: bool) -> Longs:
    """Build a table that maps the last byte of a packed number to its digit, plus MINUS if negative.

    Invalid bytes are mapped to WRONG.
    """
    minus = [0xD] if strict else [0xB, 0xD]
    plus = [0xC, 0xF] if strict else [0xA, 0xC, 0xE, 0xF]
    # The high nibble is the last digit, the low nibble is the sign.
    table = np.where(np.isin(_LOW, minus) & signed, _HIGH + MINUS, WRONG)
    table = np.where(np.isin(_LOW, plus), _HIGH, table)
    return np.where(_HIGH > 9, WRONG, table)


def _most_first(nibbles: int, digits: int) -> int:
    """Return the largest valid first byte of a packed number.

    If the field has one nibble more than the picture has digits, its first nibble must be 0.
    """
    # Example: S9(4) COMP-3 has 3 bytes, that is 5 nibbles and the sign, for 4 digits: 01 23 4C.
    return 0x0F if nibbles > digits else 0xFF


def decode_packed(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-3, or of COMP-6, which has no sign nibble."""
    number, form = number_of(field), number_form(field, options)
    if field.usage is Usage.UNSIGNED_PACKED:
        most = _most_first(2 * field.size, number.digits)
        digit_bytes = DigitBytes(_PAIRS, base=100, most_first=most, zone=0)
    else:
        # 12 34 5C: two digits per byte, and in the last byte a digit and the sign.
        digit_bytes = DigitBytes(
            _PAIRS,
            base=100,
            signs=_packed_signs(signed=number.signed, strict=options.strict),
            sign_at=field.size - 1,
            sign_base=10,
            most_first=_most_first(2 * field.size - 1, number.digits),
            zone=0,
        )
    return lambda matrix: decode_decimal_digits(form, digit_bytes, matrix)


def encode_packed(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP-3 (signs C and D, or F for unsigned) or COMP-6 (no sign)."""
    number, form = number_of(field), number_form(field, options)
    plus = _PACKED_PLUS if number.signed else _UNSIGNED

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        nibbles = written.digits
        if field.usage is Usage.PACKED:
            signs = np.where(written.negative, _PACKED_MINUS, plus).astype(np.uint8)
            nibbles = np.column_stack([nibbles, signs])
        return _pack(nibbles, field.size, written.blank, form.blank)

    return encode


def _pack(nibbles: Octets, size: int, blank: Mask, filler: bytes) -> Octets:
    """Join each pair of nibbles into a byte, right-aligned; ``blank`` rows become ``filler``."""
    padded = np.zeros((len(nibbles), 2 * size), np.uint8)
    padded[:, 2 * size - nibbles.shape[1] :] = nibbles
    # Even columns are the high nibbles, odd columns the low ones: 1 2 3 C becomes 12 3C.
    packed = padded[:, 0::2] << np.uint8(4) | padded[:, 1::2]
    packed[blank] = np.frombuffer(filler, np.uint8)
    return packed
