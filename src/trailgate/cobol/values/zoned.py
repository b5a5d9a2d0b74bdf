"""Decode and encode zoned decimal numbers (DISPLAY): one digit per byte, in EBCDIC or ASCII.

The sign is a separate byte, or it is overpunched: it changes the zone of the first or last digit.
For example, ``F1 F2 D5`` in EBCDIC is -125.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField, SignPosition
from trailgate.cobol.values.code_pages import page_of_field
from trailgate.cobol.values.codec import Decoder, Encoder, ValueOptions
from trailgate.cobol.values.decimals import (
    DigitBytes,
    decimal_digit_table,
    decode_decimal_digits,
    digits_of,
    number_form,
    number_of,
)
from trailgate.cobol.values.kernels import (
    MINUS,
    WRONG,
)
from trailgate.errors import EncodeError, OptionError, Where

EBCDIC_ZONE: Final = 0xF0
ASCII_ZONE: Final = 0x30
_ZONES: Final = (EBCDIC_ZONE, ASCII_ZONE)
_LEADING: Final = (SignPosition.LEADING, SignPosition.LEADING_SEPARATE)
# ASCII overpunches are the same characters as in EBCDIC; Micro Focus adds 0x40 to negative digits.
_ZONED_PLUS: Final = b"{ABCDEFGHI"
_ZONED_MINUS: Final = b"}JKLMNOPQR"
_MICRO_FOCUS_MINUS: Final = b"pqrstuvwxy"


def zone_of(field: CopybookField, options: ValueOptions) -> int:
    """Return the zone of digits in the field's code page: 0xF0 or 0x30.

    Raises OptionError if a digit is not one byte there.
    """
    page = page_of_field(field, options)
    try:
        first = page.encode(pa.array(["0"]))[0].as_py()
    except EncodeError:
        first = b""
    if len(first) != 1 or first[0] not in _ZONES:
        problem = f"the code page {page.name} has no digits of one byte"
        raise OptionError(problem, where=Where(field=field.name))
    return int(first[0])


def _zoned_signs(zone: int, *, signed: bool, strict: bool) -> Longs:
    """Build a table that maps each overpunched byte to its digit, plus MINUS if negative; other bytes to WRONG."""
    table = np.full(256, WRONG)
    for minus, characters in _ebcdic_forms(strict) if zone == EBCDIC_ZONE else _ascii_forms(strict):
        if signed or not minus:
            table[list(characters)] = np.arange(10) + MINUS * minus
    return table


def _ebcdic_forms(strict: bool) -> list[tuple[bool, bytes]]:
    """Return for each accepted sign zone whether it is negative, and its ten bytes.

    The zone D is True and ``D0`` to ``D9``. Compilers write only the zones C, D and F.
    """
    minus, plus = ("D", "CF") if strict else ("BD", "ACEF")
    zones = [(True, z) for z in minus] + [(False, z) for z in plus]
    return [(negative, bytes(int(z, 16) << 4 | d for d in range(10))) for negative, z in zones]


def _ascii_forms(strict: bool) -> list[tuple[bool, bytes]]:
    forms = [(False, b"0123456789"), (False, _ZONED_PLUS), (True, _ZONED_MINUS)]
    return forms if strict else [*forms, (True, _MICRO_FOCUS_MINUS)]


def decode_zoned(field: CopybookField, options: ValueOptions) -> Decoder:
    """Return the decoder of a DISPLAY number."""
    number, form, zone = number_of(field), number_form(field, options), zone_of(field, options)
    separate = _separate_signs(field, options)
    if separate is None:
        signs = _zoned_signs(zone, signed=number.signed, strict=options.strict)
    else:
        signs = np.full(256, WRONG)
        # A separate sign byte has no digit: plus is 0, minus is MINUS.
        signs[list(separate)] = 0, MINUS
    digit_bytes = DigitBytes(
        decimal_digit_table(bytes(zone | digit for digit in range(10))),
        base=10,
        signs=signs,
        sign_at=0 if number.sign in _LEADING else field.size - 1,
        sign_base=10 if separate is None else 1,
        padding=options.padding,
        zone=zone,
    )
    return lambda matrix: decode_decimal_digits(form, digit_bytes, matrix)


def sign_offset(field: CopybookField) -> tuple[int, bool]:
    """Return the offset of a DISPLAY number's sign byte, and whether the byte contains only the sign."""
    sign = number_of(field).sign
    return (0 if sign in _LEADING else field.size - 1), sign.separate


def could_be_sign(field: CopybookField, options: ValueOptions) -> Mask:
    """Return a mask of the byte values that occur only as the sign byte, never as a plain digit."""
    zone, separate = zone_of(field, options), _separate_signs(field, options)
    mask = np.zeros(256, bool)
    if separate is not None:
        mask[list(separate)] = True
        return mask
    mask |= _zoned_signs(zone, signed=True, strict=False) < WRONG
    mask[[zone | digit for digit in range(10)]] = False
    return mask


def _separate_signs(field: CopybookField, options: ValueOptions) -> bytes | None:
    """Return the bytes of + and -, or None if the sign is overpunched."""
    if number_of(field).sign not in (SignPosition.LEADING_SEPARATE, SignPosition.TRAILING_SEPARATE):
        return None
    page = page_of_field(field, options)
    return b"".join(page.encode(pa.array(["+", "-"])).to_pylist())


def encode_zoned(field: CopybookField, options: ValueOptions) -> Encoder:
    """Return the encoder of a DISPLAY number.

    An overpunched sign changes the first or last digit: 1 becomes X'C1' (plus) or X'D1' (minus) in
    EBCDIC, and ``A`` or ``J`` in ASCII. Unsigned numbers have only plain digits.
    """
    number, form, zone = number_of(field), number_form(field, options), zone_of(field, options)
    separate = _separate_signs(field, options)
    leading = number.sign in _LEADING
    plus, minus = _overpunches(zone)

    def encode(values: pa.Array) -> Octets:
        written = digits_of(values, number, form)
        # Each byte is a zone and a digit: with the zone F0 of EBCDIC, 5 is F5. The overpunch of the
        # sign replaces the zone of one digit: -5 ends with D5.
        encoded = written.digits | np.uint8(zone)
        at = 0 if leading else number.digits - 1
        if separate:
            signs = np.where(written.negative, separate[1], separate[0]).astype(np.uint8)
            # A separate sign adds a column before or after the digits.
            encoded = np.insert(encoded, 0 if leading else number.digits, signs, axis=1)
        elif number.signed:
            digit = written.digits[:, at]
            encoded[:, at] = np.where(written.negative, minus[digit], plus[digit])
        encoded[written.blank] = np.frombuffer(form.blank, np.uint8)
        return encoded

    return encode


def _overpunches(zone: int) -> tuple[Octets, Octets]:
    if zone == ASCII_ZONE:
        return np.frombuffer(_ZONED_PLUS, np.uint8), np.frombuffer(_ZONED_MINUS, np.uint8)
    digits = np.arange(10, dtype=np.uint8)
    # EBCDIC overpunches: C1 is +1, or the letter A; D1 is -1, or J.
    return digits | np.uint8(0xC0), digits | np.uint8(0xD0)
