"""Packed decimal: two digits a byte, with a sign in the last nibble or without one."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import Field
from trailgate.cobol.values.codec import Decoder, Encoder, Explain
from trailgate.cobol.values.decimal_digits import (
    DigitBytes,
    decode_digits,
    digits_of,
    explain_number,
    number_form,
    number_of,
)
from trailgate.cobol.values.kernels import MINUS, WRONG
from trailgate.cobol.values.options import ValueOptions

_PLUS, _MINUS, _UNSIGNED = 0xC, 0xD, 0xF
_BYTES: Final = np.arange(256)
_HIGH, _LOW = _BYTES >> 4, _BYTES & 0xF
_PAIRS: Final = np.where((_HIGH > 9) | (_LOW > 9), WRONG, 10 * _HIGH + _LOW)


def _signs(*, signed: bool, strict: bool) -> Longs:
    """Return what each last byte is: a digit and a sign."""
    minus = [0xD] if strict else [0xB, 0xD]
    plus = [0xC, 0xF] if strict else [0xA, 0xC, 0xE, 0xF]
    found = np.where(np.isin(_LOW, minus) & signed, _HIGH + MINUS, WRONG)
    found = np.where(np.isin(_LOW, plus), _HIGH, found)
    return np.where(_HIGH > 9, WRONG, found)


def _most_first(nibbles: int, digits: int) -> int:
    """Return the greatest first byte: an even number of digits can leave a nibble without a digit."""
    return 0x0F if nibbles > digits else 0xFF


def decode_packed(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-3."""
    number, form = number_of(field), number_form(field, options)
    held = DigitBytes(
        _PAIRS,
        base=100,
        signs=_signs(signed=number.signed, strict=options.strict),
        sign_at=field.size - 1,
        sign_base=10,
        most_first=_most_first(2 * field.size - 1, number.digits),
    )
    return lambda matrix: decode_digits(form, held, matrix)


def decode_unsigned_packed(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-6: no sign nibble."""
    number, form = number_of(field), number_form(field, options)
    most_first = _most_first(2 * field.size, number.digits)
    held = DigitBytes(_PAIRS, base=100, most_first=most_first)
    return lambda matrix: decode_digits(form, held, matrix)


def encode_packed(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP-3: signs C and D, F in an unsigned field."""
    number, form = number_of(field), number_form(field, options)

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        sign = np.where(written.negative, _MINUS, _PLUS if number.signed else _UNSIGNED)
        nibbles = np.column_stack([written.digits, sign.astype(np.uint8)])
        return _packed(nibbles, field.size, written.blank, form.blank)

    return encode


def encode_unsigned_packed(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of COMP-6."""
    number, form = number_of(field), number_form(field, options)

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        return _packed(written.digits, field.size, written.blank, form.blank)

    return encode


def _packed(nibbles: Octets, size: int, blank: Mask, filler: bytes) -> Octets:
    padded = np.zeros((len(nibbles), 2 * size), np.uint8)
    padded[:, 2 * size - nibbles.shape[1] :] = nibbles
    made = padded[:, 0::2] << np.uint8(4) | padded[:, 1::2]
    made[blank] = np.frombuffer(filler, np.uint8)
    return made


def explain_packed(field: Field, options: ValueOptions) -> Explain:
    """Return what explains why bytes are not a packed number."""
    return explain_number(field, options, "not a packed number")


def explain_unsigned_packed(field: Field, options: ValueOptions) -> Explain:
    """Return what explains why bytes are not a packed number without a sign nibble."""
    return explain_number(field, options, "not a packed number without a sign nibble (COMP-6)")
