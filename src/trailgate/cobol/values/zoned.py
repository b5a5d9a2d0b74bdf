"""DISPLAY numbers: a digit a byte, with every form of sign, in ASCII and EBCDIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import Field, Sign
from trailgate.cobol.values.codec import Decoded, Decoder, Encoder, Explain, page_of
from trailgate.cobol.values.digit_text import digits_of
from trailgate.cobol.values.number_form import finished, number_form, number_of
from trailgate.cobol.values.number_reasons import explain_number
from trailgate.cobol.values.options import ValueOptions
from trailgate.cobol.values.zoned_digits import to_words, zoned_digits
from trailgate.errors import EncodeError, OptionError, Where

EBCDIC_ZONE, ASCII_ZONE = 0xF0, 0x30
_ZONES: Final = (EBCDIC_ZONE, ASCII_ZONE)
_LEADING: Final = (Sign.LEADING, Sign.LEADING_SEPARATE)
# ASCII overpunches are the characters of the EBCDIC ones; Micro Focus adds 0x40 to a digit instead.
_PLUS, _MINUS, _MICRO_FOCUS_MINUS = b"{ABCDEFGHI", b"}JKLMNOPQR", b"pqrstuvwxy"


@dataclass(frozen=True, slots=True)
class SignTable:
    """What each byte is where the sign stands: a digit's own byte, or 0, and whether it is negative."""

    digit: npt.NDArray[np.uint8]
    negative: npt.NDArray[np.bool_]


def zone_of(field: Field, options: ValueOptions) -> int:
    """Return the zone of a digit's byte in the field's code page; raises OptionError."""
    page = page_of(field, options)
    try:
        first = page.encode(pa.array(["0"]))[0].as_py()
    except EncodeError:
        first = b""
    if len(first) != 1 or first[0] not in _ZONES:
        problem = f"the code page {page.name} has no digits of one byte"
        raise OptionError(problem, where=Where(field=field.name))
    return int(first[0])


def sign_table(zone: int, *, signed: bool, strict: bool) -> SignTable:
    """Return the bytes that hold a digit and a sign."""
    forms = _ebcdic_forms(strict) if zone == EBCDIC_ZONE else _ascii_forms(strict)
    digit, negative = np.zeros(256, np.uint8), np.zeros(256, bool)
    for minus, characters in forms:
        if minus and not signed:
            continue
        for value, byte in enumerate(characters):
            digit[byte], negative[byte] = zone | value, minus
    return SignTable(digit, negative)


def _ebcdic_forms(strict: bool) -> list[tuple[bool, bytes]]:
    """Return the ten bytes of each zone; C, D and F are the signs that a compiler writes."""
    minus, plus = ("D", "CF") if strict else ("BD", "ACEF")
    zones = [(True, z) for z in minus] + [(False, z) for z in plus]
    return [(negative, bytes(int(z, 16) << 4 | d for d in range(10))) for negative, z in zones]


def _ascii_forms(strict: bool) -> list[tuple[bool, bytes]]:
    forms = [(False, b"0123456789"), (False, _PLUS), (True, _MINUS)]
    return forms if strict else [*forms, (True, _MICRO_FOCUS_MINUS)]


def decode_zoned(field: Field, options: ValueOptions) -> Decoder:
    """Return the decoder of a DISPLAY number."""
    number, form, zone = number_of(field), number_form(field, options), zone_of(field, options)
    separate = _separate_signs(field, options)
    table = sign_table(zone, signed=number.signed, strict=options.strict)
    leading = number.sign in _LEADING

    def decode(matrix: Octets) -> Decoded:
        wrong: Mask | None = None
        negative: Mask | None = None
        if separate:
            places, wrong, negative = _separated(matrix, leading, separate)
        else:
            at = 0 if leading else matrix.shape[1] - 1
            signs = matrix[:, at]
            places, negative = matrix, table.negative[signs] if number.signed else None
        padded = to_words(places, zone)
        if not separate:
            padded[:, padded.shape[1] - places.shape[1] if leading else -1] = table.digit[signs]
        return finished(form, zoned_digits(padded, zone, negative, wrong), matrix)

    return decode


def _separate_signs(field: Field, options: ValueOptions) -> bytes | None:
    """Return the bytes of + and -, or None where the sign has no byte of its own."""
    if number_of(field).sign not in (Sign.LEADING_SEPARATE, Sign.TRAILING_SEPARATE):
        return None
    page = page_of(field, options)
    return b"".join(page.encode(pa.array(["+", "-"])).to_pylist())


def _separated(matrix: Octets, leading: bool, signs: bytes) -> tuple[Octets, Mask, Mask]:
    sign = matrix[:, 0 if leading else -1]
    negative = sign == signs[1]
    wrong = ~negative & (sign != signs[0])
    return (matrix[:, 1:] if leading else matrix[:, :-1]), wrong, negative


def encode_zoned(field: Field, options: ValueOptions) -> Encoder:
    """Return the encoder of a DISPLAY number: overpunches C and D, F without a sign."""
    number, form, zone = number_of(field), number_form(field, options), zone_of(field, options)
    separate = _separate_signs(field, options)
    leading = number.sign in _LEADING
    plus, minus = _overpunches(zone)

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        made = written.digits | np.uint8(zone)
        at = 0 if leading else number.digits - 1
        if separate:
            signs = np.where(written.negative, separate[1], separate[0]).astype(np.uint8)
            made = np.insert(made, 0 if leading else number.digits, signs, axis=1)
        elif number.signed:
            digit = written.digits[:, at]
            made[:, at] = np.where(written.negative, minus[digit], plus[digit])
        made[written.blank] = np.frombuffer(form.blank, np.uint8)
        return made

    return encode


def _overpunches(zone: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    if zone == ASCII_ZONE:
        return np.frombuffer(_PLUS, np.uint8), np.frombuffer(_MINUS, np.uint8)
    digits = np.arange(10, dtype=np.uint8)
    return digits | np.uint8(0xC0), digits | np.uint8(0xD0)


def explain_zoned(field: Field, options: ValueOptions) -> Explain:
    """Return what tells why bytes are no DISPLAY number."""
    return explain_number(field, options, "not a zoned number")
