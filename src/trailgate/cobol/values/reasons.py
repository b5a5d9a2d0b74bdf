"""Why the bytes of a COBOL item are not a valid value: explained in words, or classified for counting.

An explainer, such as that of ``explain_number``, explains one bad value in an error message. It
names the usual causes: blanks, binary zeros, padding beside the digits, and the bytes of another
usage. For example, ``12 34 5C`` in a DISPLAY field has the hint "Is it COMP-3?". A ``classifier``
only counts: it maps complete columns of bad values to a ``FaultReason`` each, so it must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask, Octets
from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.values.binary import WORD, binary_form, is_limited
from trailgate.cobol.values.code_pages import page_of_field, text_page
from trailgate.cobol.values.codec import (
    Classify,
    Explain,
    FaultExplanation,
    FaultReason,
    ValueOptions,
)
from trailgate.cobol.values.decimals import number_of
from trailgate.cobol.values.zoned import could_be_sign, sign_offset, zone_of
from trailgate.errors import EncodeError

_BLANK_HINT: Final = "Blank numbers can be read with the option blank"


_LOW_HINT: Final = "Low-values in zoned and packed numbers can be read with the option lowValues"


_PADDED_HINT: Final = "Blanks and low-values beside digits can be read with the option padding"


_SIGN_NIBBLES: Final = "abcdef"


# By usage. Other usages print numbers, and name their picture.
_PROBLEMS: Final[Mapping[Usage, str]] = MappingProxyType(
    {
        Usage.ZONED: "not a zoned number",
        Usage.NATIONAL_DIGITS: "not a number in national characters",
        Usage.PACKED: "not a packed number",
        Usage.UNSIGNED_PACKED: "not a packed number without a sign nibble (COMP-6)",
    }
)


_EXPLAINED: Final = 1024  # forms of bad numbers that are remembered


# Each digit in ASCII and EBCDIC to the zero of its code.
_ALIKE: Final = bytes(
    byte & 0xF0 if byte & 0xF0 in (0x30, 0xF0) and byte & 0x0F < 10 else byte for byte in range(256)
)


_CODES: Final = {why: code for code, why in enumerate(FaultReason)}


# Usages whose bytes can be wrong for one reason only.
_SINGLE: Final[Mapping[Usage, FaultReason]] = MappingProxyType(
    dict.fromkeys((Usage.TEXT, Usage.NATIONAL, Usage.UTF8, Usage.DBCS), FaultReason.CHARACTER)
    | dict.fromkeys(
        (Usage.BINARY, Usage.NATIVE, Usage.SHORT, Usage.NATIVE_SHORT, Usage.LITTLE),
        FaultReason.RANGE,
    )
)


def explain_number(field: CopybookField, options: ValueOptions) -> Explain:
    """Return a function that explains why bytes are not a zoned, packed or edited number."""
    problem = _PROBLEMS.get(field.usage, f"not a number as {field.picture} prints it")
    page = page_of_field(field, options)
    try:
        digits = b"".join(page.encode(pa.array(list("0123456789"))).to_pylist())
    except EncodeError:
        digits = b""

    pads = page.blank + b"\0"

    def is_padded(raw: bytes) -> bool:
        body = raw.strip(pads)
        return body != raw and bool(digits) and set(body[1:-1]) <= set(digits)

    @lru_cache(_EXPLAINED)
    def explain_form(raw: bytes) -> FaultExplanation:
        if raw and not raw.strip(page.blank):
            return FaultExplanation(f"blanks, {problem}", _BLANK_HINT)
        if raw and not raw.strip(b"\0"):
            return FaultExplanation(f"binary zeros, {problem}", _LOW_HINT)
        if field.usage is Usage.ZONED and is_padded(raw):
            return FaultExplanation(problem, _PADDED_HINT)
        return FaultExplanation(problem, _likely(field, raw, digits))

    def explain(raw: bytes) -> FaultExplanation:
        # Which digits there are does not matter, except in the last byte, which may have a sign. Example: 12x4
        # and 98x4 are explained as 00x4.
        return explain_form(raw[:-1].translate(_ALIKE) + raw[-1:])

    return explain


def _likely(field: CopybookField, raw: bytes, digits: bytes) -> str:
    """Guess which usage the bytes really have, as a question: "Is it COMP-3?".

    Returns "" if there is no guess.
    """
    text = raw.hex()
    body = raw[:-1] or raw
    if field.usage is not Usage.ZONED and set(body) <= set(digits):
        return "Is it zoned?"
    # 12 34 5C: all nibbles are digits, except the last one, which is a sign.
    if field.usage is not Usage.PACKED and text[:-1].isdigit() and text[-1] in _SIGN_NIBBLES:
        return "Is it COMP-3?"
    if body.isdigit() and 0x30 not in digits:
        return "Is it ASCII?"
    if set(body) <= set(range(0xF0, 0xFA)) and 0xF0 not in digits:
        return "Is it EBCDIC?"
    signed = field.number is not None and field.number.signed
    # A last nibble D or B is a minus, for which an unsigned picture has no S.
    if "-" not in field.picture and text[-1:] in ("d", "b") and not signed:
        return "Is it signed?"
    return ""


def explain_binary(field: CopybookField, options: ValueOptions) -> Explain:
    """Return a function that explains why the bytes of a binary item are not a number with the digits of its picture."""
    if field.size > WORD and not is_limited(field, options):
        problem = (
            f"a binary number of more than {binary_form(field, options).type.precision} digits"
        )
        return lambda _: FaultExplanation(problem, "A decimal column has no more digits")
    problem = f"a binary number of more than {number_of(field).digits} digits"
    reason = FaultExplanation(problem, "COMP-5, or lenient signs, allow all values of the bytes")
    return lambda _: reason


def explain_float_text(field: CopybookField, _: ValueOptions) -> Explain:
    """Return a function that explains why bytes are not printed floating point."""
    reason = FaultExplanation(f"not a number as {field.picture} prints it")
    return lambda _: reason


def explain_text(field: CopybookField, options: ValueOptions) -> Explain:
    """Return a function that explains why a text field's bytes are not text."""
    problem = f"bytes that are not characters of {text_page(field, options).name}"
    reason = FaultExplanation(problem, "Is the code page a different one?")
    return lambda _: reason


def explain_bytes(field: CopybookField, _: ValueOptions) -> Explain:
    """Return an explanation for usages in which every bit pattern is a valid value.

    The returned function is a placeholder, and never called.
    """
    kind = "" if field.usage is Usage.RAW else ", not a floating point number"
    return lambda raw: FaultExplanation(f"{len(raw)} bytes{kind}")


def classifier(field: CopybookField, options: ValueOptions) -> Classify:
    """Return a function that maps each row of bad bytes to the index of its reason in ``FaultReason``."""
    single = _SINGLE.get(field.usage)
    if single is not None:
        return lambda matrix: np.full(len(matrix), _CODES[single], np.uint8)
    inner = _INNER.get(field.usage, _of_picture)(field, options)
    blank = np.resize(np.frombuffer(page_of_field(field, options).blank, np.uint8), field.size)

    def classify(matrix: Octets) -> Octets:
        codes = inner(matrix)
        codes[(matrix == blank).all(axis=1)] = _CODES[FaultReason.BLANK]
        codes[(matrix == 0).all(axis=1)] = _CODES[FaultReason.LOW_VALUES]
        return codes

    return classify


def _chosen(rest: FaultReason, *choices: tuple[FaultReason, Mask]) -> Octets:
    """Return for each row the index of the first reason whose mask selects it, or of ``rest``."""
    codes = [np.uint8(_CODES[why]) for why, _ in choices]
    masks = [mask for _, mask in choices]
    return np.select(masks, codes, np.uint8(_CODES[rest])).astype(np.uint8)


def _of_picture(_: CopybookField, __: ValueOptions) -> Classify:
    return lambda matrix: np.full(len(matrix), _CODES[FaultReason.PICTURE], np.uint8)


def _of_zoned(field: CopybookField, options: ValueOptions) -> Classify:
    """Classify bad DISPLAY numbers: a wrong digit, padding beside the digits, or a wrong sign."""
    zone, sign_at, alone = zone_of(field, options), *sign_offset(field)
    signs = could_be_sign(field, options)
    pads = np.zeros(256, bool)
    pads[[0, *page_of_field(field, options).blank]] = True

    def classify(matrix: Octets) -> Octets:
        # All bytes but the sign's. A zoned digit has the zone in its high nibble and 0 to 9 in the
        # low one.
        body = np.delete(matrix, sign_at, axis=1)
        other = (body & 0xF0 != zone) | (body & 0x0F > 9)
        last = matrix[:, sign_at]
        digit = (last & 0xF0 == zone) & (last & 0x0F <= 9)
        is_pad = pads[last] & ~signs[last]
        # The first reason that applies counts: a wrong digit before padding, and that before a
        # wrong sign.
        return _chosen(
            FaultReason.DIGIT,
            (FaultReason.DIGIT, (other & ~pads[body]).any(axis=1)),
            (FaultReason.PADDING, other.any(axis=1) | is_pad),
            (FaultReason.SIGN, signs[last] | alone | digit),
        )

    return classify


def _of_packed(field: CopybookField, _: ValueOptions) -> Classify:
    """Classify bad COMP-3 and COMP-6 numbers: a bad digit nibble, or a bad sign nibble (COMP-3 only)."""
    signed = field.usage is Usage.PACKED
    good = (0xC, 0xF, *((0xD,) if number_of(field).signed else ()))

    def classify(matrix: Octets) -> Octets:
        low, last = matrix & 0x0F, matrix[:, -1] & 0x0F
        # All digit nibbles, in any order: the low one of the last byte is the sign, if there is
        # one.
        halves = np.concatenate([matrix >> 4, low[:, : -1 if signed else None]], axis=1)
        digits: Mask = np.greater(halves, 9).any(axis=1)
        wrong_sign: Mask = ~np.isin(last, good) & signed
        return _chosen(
            FaultReason.RANGE, (FaultReason.DIGIT, digits), (FaultReason.SIGN, wrong_sign)
        )

    return classify


_INNER: Final[Mapping[Usage, Callable[[CopybookField, ValueOptions], Classify]]] = MappingProxyType(
    {
        Usage.ZONED: _of_zoned,
        Usage.PACKED: _of_packed,
        Usage.UNSIGNED_PACKED: _of_packed,
    }
)
