"""Packed decimal: two digits a byte, with a sign in the last nibble or without one."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Octets, Words
from trailgate.cobol.copybook.layouts import Field
from trailgate.cobol.values.codec import Decoded, Decoder, Encoder, Explain
from trailgate.cobol.values.digit_text import digits_of
from trailgate.cobol.values.digit_words import PACKED_DIGITS, packed_word, right_aligned
from trailgate.cobol.values.number_form import Digits, finished, merged, number_form, number_of
from trailgate.cobol.values.number_reasons import explain_number
from trailgate.cobol.values.options import ValueOptions

_WORD: Final = 8  # bytes
_PLUS, _MINUS, _UNSIGNED = 0xC, 0xD, 0xF


def _signs(*, signed: bool, strict: bool) -> npt.NDArray[np.uint8]:
    """Return for the last byte 1 where its sign nibble is minus, 2 where it is no sign."""
    minus = {0xD} if strict else {0xB, 0xD}
    plus = {0xC, 0xF} if strict else {0xA, 0xC, 0xE, 0xF}
    known = plus | (minus if signed else set())
    nibbles = [byte & 0xF for byte in range(256)]
    return np.array([(n in minus) | 2 * (n not in known) for n in nibbles], np.uint8)


def decode_packed(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-3."""
    number, form = number_of(field), number_form(field, options)
    signs = _signs(signed=number.signed, strict=options.strict)
    spare = 2 * field.size - 1 > number.digits

    def decode(matrix: Octets) -> Decoded:
        words = _loaded(matrix)
        sign = signs[matrix[:, -1]]
        words[-1] >>= np.uint64(4)
        found = [packed_word(word) for word in words]
        bad = merged([wrong for _, wrong in found])
        bad |= sign > 1
        if spare:  # an even number of digits leaves a nibble, which is no place for a digit
            bad |= matrix[:, 0] > 0x0F
        widths = (*[PACKED_DIGITS] * (len(found) - 2), PACKED_DIGITS - 1)[: len(found) - 1]
        negative = (sign & 1).view(bool) if number.signed else None
        return finished(form, Digits(tuple(w for w, _ in found), widths, negative, bad), matrix)

    return decode


def decode_unsigned_packed(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of COMP-6: no sign nibble."""
    number, form = number_of(field), number_form(field, options)
    spare = 2 * field.size > number.digits

    def decode(matrix: Octets) -> Decoded:
        found = [packed_word(word) for word in _loaded(matrix)]
        bad = merged([wrong for _, wrong in found])
        if spare:
            bad |= matrix[:, 0] > 0x0F
        widths = (PACKED_DIGITS,) * (len(found) - 1)
        return finished(form, Digits(tuple(w for w, _ in found), widths, None, bad), matrix)

    return decode


def _loaded(matrix: Octets) -> list[Words]:
    width = -(-matrix.shape[1] // _WORD) * _WORD
    words = right_aligned(matrix, width, 0).view(">u8")
    return [words[:, column].astype(np.uint64) for column in range(width // _WORD)]


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


def _packed(nibbles: Octets, size: int, blank: npt.NDArray[np.bool_], filler: bytes) -> Octets:
    padded = right_aligned(nibbles, 2 * size, 0)
    made = padded[:, 0::2] << np.uint8(4) | padded[:, 1::2]
    made[blank] = np.frombuffer(filler, np.uint8)
    return made


def explain_packed(field: Field, options: ValueOptions) -> Explain:
    """Return what tells why bytes are no packed number."""
    return explain_number(field, options, "not a packed number")
