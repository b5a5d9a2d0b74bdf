"""Bytes as hex and text side by side, as Logdump prints them: ten groups of two bytes a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.logdump.session.settings import Charset

A_LINE: Final = 20
WIDTH: Final = 49  # ten groups of four digits, with nine blanks between them


def dump(raw: bytes, charset: Charset = Charset.ASCII, limit: int | None = None) -> list[str]:
    """Return the lines that show bytes, at most ``limit`` of them."""
    return list(_lines(raw if limit is None else raw[:limit], charset))


def visible(raw: bytes, charset: Charset = Charset.ASCII) -> str:
    """Return bytes as text, with a point for each byte that cannot be printed."""
    text = raw.decode(charset.value)
    return "".join(letter if " " <= letter <= "~" else "." for letter in text)


def _lines(raw: bytes, charset: Charset) -> Iterator[str]:
    for start in range(0, len(raw), A_LINE):
        piece = raw[start : start + A_LINE]
        yield f" {piece.hex(' ', -2):{WIDTH}} | {visible(piece, charset)}"
