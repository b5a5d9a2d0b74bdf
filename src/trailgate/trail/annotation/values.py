"""Explain a column value by its bytes alone, without a definition (trail format §10.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trailgate.trail.annotation.elements import Area, Part, printable, shortened

PRESENT, NULL = b"\0\0", b"\xff\xff"
# trail format §10.2: YYYY-MM-DD:HH:MI:SS and a fraction; MySQL's DATE is a date alone.
DATETIME: Final = re.compile(rb"\d{4}-\d{2}-\d{2}(:\d{2}:\d{2}:\d{2}(\.\d+)?)?")
INTEGER_WIDTHS: Final = (2, 4, 8)


def explain_value(area: Area, level: int) -> Iterator[Part]:
    """Yield a value: its null indicator and the bytes after it."""
    indicator, rest = area.raw[:2], area.raw[2:]
    if indicator == NULL:
        yield from area.bytes("NULL", level=level)
    elif indicator != PRESENT:
        problem = "a value begins with 0000, or FFFF for NULL"
        yield from area.bytes(problem=problem, level=level)
    else:
        yield from area.bytes(
            f"not null, {_meaning(rest, area.order.number(rest[:2]))}", level=level
        )


def _meaning(rest: bytes, length: int) -> str:
    # A guess, in the order of the reference: only a definition distinguishes CHAR from VARCHAR2.
    if len(rest) >= 2 and length == len(rest) - 2:
        return f"{length} bytes: {_text(rest[2:])}"
    if DATETIME.fullmatch(rest):
        return f"datetime: {rest.decode()}"
    if printable(rest) and len(rest) not in INTEGER_WIDTHS:
        return f"fixed text: {shortened(rest)}"
    if len(rest) in INTEGER_WIDTHS:
        # Binary values are big-endian in either order of a trail (trail format §3).
        number = int.from_bytes(rest, "big", signed=True)
        text = f", or fixed text: {shortened(rest)}" if printable(rest) else ""
        return f"perhaps the integer {number}{text}"
    return f"{len(rest)} bytes"


def _text(raw: bytes) -> str:
    return "not text" if printable(raw) is None else shortened(raw)
