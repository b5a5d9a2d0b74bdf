"""JSON strings: where they end, and their text without escapes (RFC 8259 section 7)."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Octets
from trailgate.columnar.kernels.compiled import inner
from trailgate.columnar.kernels.words import first_mark, string_marks
from trailgate.messages.json_text.kernels.layout import (
    BAD_ESCAPE,
    CONTROL,
    LONE_SURROGATE,
    OPEN_STRING,
)

QUOTE: Final = 0x22
ESCAPE: Final = 0x5C
LOWER: Final = np.uint64(0xFFFFFFFF)
UPPER: Final = np.uint64(32)
ONE: Final = np.uint64(1)


@inner
def special_byte(text: Octets, at: int, end: int) -> int:
    """Return the place of the next quote, escape or control from ``at``; ``end`` or more where there is none before.

    The text has 64 zeros after its end, so the search ends.
    """
    while at < end:
        marks = string_marks(text, at)
        marks = (marks | marks >> UPPER) & LOWER
        if marks:
            return at + first_mark(marks)
        at += 32
    return at


@inner
def decode_string(text: Octets, start: int, at: int, end: int, to: int) -> tuple[int, int]:
    """Write the string that begins at ``start`` without its escapes; return where its quote is and where what is written ends.

    ``at`` is its first escape. What is written is not longer than the string, and overlaps nothing that is read.
    Returns the place of what is wrong, and minus the problem.
    """
    for place in range(start, at):
        text[to + place - start] = text[place]
    to += at - start
    while True:
        byte = text[at]
        if byte == QUOTE:
            return at, to
        if byte != ESCAPE:
            return at, -CONTROL
        if at + 1 >= end:
            return end, -OPEN_STRING
        byte = text[at + 1]
        if byte == 0x75:  # u
            point = four_digits(text, at + 2, end)
            if point < 0:
                return at, -BAD_ESCAPE
            size = 6
            if 0xD800 <= point < 0xE000:
                low = -1
                if (
                    point < 0xDC00
                    and at + 7 < end
                    and text[at + 6] == ESCAPE
                    and text[at + 7] == 0x75
                ):
                    low = four_digits(text, at + 8, end)
                if not 0xDC00 <= low < 0xE000:
                    return at, -LONE_SURROGATE
                point = 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00)
                size = 12
            to = write_point(text, to, point)
            at += size
        else:
            plain = unescaped(byte)
            if plain == 0:
                return at, -BAD_ESCAPE
            text[to] = np.uint8(plain)
            to += 1
            at += 2
        begin = at
        at = special_byte(text, at, end)
        if at >= end:
            return end, -OPEN_STRING
        for place in range(begin, at):
            text[to + place - begin] = text[place]
        to += at - begin


@inner
def unescaped(byte: int) -> int:
    """Return the character that a letter after the escape byte means, 0 for none."""
    if byte == QUOTE or byte == ESCAPE or byte == 0x2F:
        return int(byte)
    if byte == 0x6E:
        return 0x0A
    if byte == 0x72:
        return 0x0D
    if byte == 0x74:
        return 0x09
    if byte == 0x62:
        return 0x08
    if byte == 0x66:
        return 0x0C
    return 0


@inner
def four_digits(text: Octets, at: int, end: int) -> int:
    """Return the number of four hexadecimal digits, -1 for anything else."""
    if at + 4 > end:
        return -1
    number = 0
    for place in range(at, at + 4):
        byte = np.int64(text[place])
        if 48 <= byte <= 57:
            digit = byte - 48
        elif 97 <= byte | 0x20 <= 102:
            digit = (byte | 0x20) - 87
        else:
            return -1
        number = number << 4 | digit
    return number


@inner
def write_point(text: Octets, to: int, point: int) -> int:
    """Write a character as UTF-8; return where it ends."""
    if point < 0x80:
        text[to] = np.uint8(point)
        return to + 1
    if point < 0x800:
        text[to] = np.uint8(0xC0 | point >> 6)
        text[to + 1] = np.uint8(0x80 | point & 63)
        return to + 2
    if point < 0x10000:
        text[to] = np.uint8(0xE0 | point >> 12)
        text[to + 1] = np.uint8(0x80 | point >> 6 & 63)
        text[to + 2] = np.uint8(0x80 | point & 63)
        return to + 3
    text[to] = np.uint8(0xF0 | point >> 18)
    text[to + 1] = np.uint8(0x80 | point >> 12 & 63)
    text[to + 2] = np.uint8(0x80 | point >> 6 & 63)
    text[to + 3] = np.uint8(0x80 | point & 63)
    return to + 4
