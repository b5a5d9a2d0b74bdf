"""DISPLAY numbers: a digit a byte, with every form of sign, in ASCII and EBCDIC."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.cobol.copybook.layouts import Field, Sign
from trailgate.cobol.values.codec import Decoder, Encoder, Explain, page_of
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
from trailgate.errors import EncodeError, OptionError, Where

EBCDIC_ZONE, ASCII_ZONE = 0xF0, 0x30
_ZONES: Final = (EBCDIC_ZONE, ASCII_ZONE)
_LEADING: Final = (Sign.LEADING, Sign.LEADING_SEPARATE)
# ASCII overpunches are the characters of the EBCDIC ones; Micro Focus adds 0x40 to a digit instead.
_PLUS, _MINUS, _MICRO_FOCUS_MINUS = b"{ABCDEFGHI", b"}JKLMNOPQR", b"pqrstuvwxy"


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


def digit_table(characters: bytes) -> Longs:
    """Return what each byte is, of which ten are the digits from 0 to 9."""
    found = np.full(256, WRONG)
    found[list(characters)] = np.arange(10)
    return found


def _sign_table(zone: int, *, signed: bool, strict: bool) -> Longs:
    """Return what each byte is that holds a digit and a sign."""
    found = np.full(256, WRONG)
    for minus, characters in _ebcdic_forms(strict) if zone == EBCDIC_ZONE else _ascii_forms(strict):
        if signed or not minus:
            found[list(characters)] = np.arange(10) + MINUS * minus
    return found


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
    if separate is None:
        signs = _sign_table(zone, signed=number.signed, strict=options.strict)
    else:
        signs = np.full(256, WRONG)
        signs[list(separate)] = 0, MINUS
    held = DigitBytes(
        digit_table(bytes(zone | digit for digit in range(10))),
        base=10,
        signs=signs,
        sign_at=0 if number.sign in _LEADING else field.size - 1,
        sign_base=10 if separate is None else 1,
    )
    return lambda matrix: decode_digits(form, held, matrix)


def _separate_signs(field: Field, options: ValueOptions) -> bytes | None:
    """Return the bytes of + and -, or None where the sign has no byte of its own."""
    if number_of(field).sign not in (Sign.LEADING_SEPARATE, Sign.TRAILING_SEPARATE):
        return None
    page = page_of(field, options)
    return b"".join(page.encode(pa.array(["+", "-"])).to_pylist())


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


def _overpunches(zone: int) -> tuple[Octets, Octets]:
    if zone == ASCII_ZONE:
        return np.frombuffer(_PLUS, np.uint8), np.frombuffer(_MINUS, np.uint8)
    digits = np.arange(10, dtype=np.uint8)
    return digits | np.uint8(0xC0), digits | np.uint8(0xD0)


def explain_zoned(field: Field, options: ValueOptions) -> Explain:
    """Return what explains why bytes are not a DISPLAY number."""
    return explain_number(field, options, "not a zoned number")
