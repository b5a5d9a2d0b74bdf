"""Why bytes are no number of their kind, and which kind they look like."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from trailgate.cobol.copybook.layouts import Field, Usage
from trailgate.cobol.values.codec import Explain, Reason, page_of
from trailgate.cobol.values.options import ValueOptions
from trailgate.errors import EncodeError

_BLANK_HINT: Final = "Blank numbers can be read as NULL by option"
_SIGN_NIBBLES: Final = "abcdef"


def explain_number(field: Field, options: ValueOptions, problem: str) -> Explain:
    """Return what tells why bytes are no such number."""
    page = page_of(field, options)
    try:
        digits = b"".join(page.encode(pa.array(list("0123456789"))).to_pylist())
    except EncodeError:
        digits = b""

    def explain(raw: bytes) -> Reason:
        if raw and not raw.strip(page.blank):
            return Reason(f"blanks, {problem}", _BLANK_HINT)
        if raw and not raw.strip(b"\0"):
            return Reason(f"binary zeros, {problem}")
        return Reason(problem, _likely(field, raw, digits))

    return explain


def _likely(field: Field, raw: bytes, digits: bytes) -> str:
    """Return a question that names what the bytes look like, if anything."""
    text = raw.hex()
    body = raw[:-1] or raw
    if field.usage is not Usage.ZONED and set(body) <= set(digits):
        return "Is it zoned?"
    if field.usage is not Usage.PACKED and text[:-1].isdigit() and text[-1] in _SIGN_NIBBLES:
        return "Is it packed?"
    if body.isdigit() and 0x30 not in digits:
        return "Is it ASCII?"
    if set(body) <= set(range(0xF0, 0xFA)) and 0xF0 not in digits:
        return "Is it EBCDIC?"
    if "-" not in field.picture and text[-1:] in ("d", "b") and not _signed(field):
        return "Is it signed?"
    return ""


def _signed(field: Field) -> bool:
    return field.number is not None and field.number.signed
