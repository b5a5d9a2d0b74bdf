"""Explain why the bytes of a field are not a decimal number, for error messages.

The explanation names the usual causes: blanks, binary zeros, padding beside the digits, and the
bytes of another usage. For example, ``12 34 5C`` in a DISPLAY field has the hint "Is it COMP-3?".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from trailgate.cobol.copybook.layouts import CopybookField, Usage
from trailgate.cobol.values.codec import (
    Explain,
    FaultExplanation,
    ValueOptions,
    page_of,
)
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


def explain_number(field: CopybookField, options: ValueOptions) -> Explain:
    """Return a function that explains why bytes are not a number of decimal digits."""
    problem = _PROBLEMS.get(field.usage, f"not a number as {field.picture} prints it")
    page = page_of(field, options)
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
