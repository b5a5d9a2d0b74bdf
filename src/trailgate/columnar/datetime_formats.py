"""The format language of dates and times, compiled to the place of each part in a value.

Source: capture properties §4.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import OptionError


class Part(Enum):
    """What a run of digits (or the letters of a month) means."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    FRACTION = "fraction"


class Field(NamedTuple):
    """The place of one part; with ``letters``, three letters."""

    part: Part
    start: int
    width: int
    letters: bool = False


class Layout(NamedTuple):
    """One way a format's values can look: all of one length, each part at a fixed offset."""

    length: int
    fields: tuple[Field, ...]
    literals: tuple[tuple[int, bytes], ...]  # position, the bytes allowed there


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A compiled format: its text and the layouts of each length, most usual first.

    ``origin`` is where it was configured, for errors; formats of other origins are the same format.
    """

    text: str
    layouts: tuple[Layout, ...]
    origin: str = field(default="", compare=False, repr=False)

    def __hash__(self) -> int:
        """Return the hash of its text: tables made of a format are looked up by it."""
        return hash(self.text)


class _Token(NamedTuple):
    part: Part | None
    widths: tuple[int, ...]
    literal: bytes = b""
    letters: bool = False


MOST_FRACTION_DIGITS: Final = 12  # Db2's TIMESTAMP(12); digits 10 to 12 must be zero
_TOKENS: Final[Mapping[str, _Token]] = MappingProxyType(
    {
        "YYYY": _Token(Part.YEAR, (4,)),
        "YY": _Token(Part.YEAR, (2,)),
        "MMM": _Token(Part.MONTH, (3,), letters=True),
        "MM": _Token(Part.MONTH, (2,)),
        "M": _Token(Part.MONTH, (2, 1)),
        "DD": _Token(Part.DAY, (2,)),
        "D": _Token(Part.DAY, (2, 1)),
        "HH": _Token(Part.HOUR, (2,)),
        "MI": _Token(Part.MINUTE, (2,)),
        "SS": _Token(Part.SECOND, (2,)),
    }
)
# Words of Java's formats, and what they would be here.
_FOREIGN: Final = {
    "yy": Part.YEAR,
    "dd": Part.DAY,
    "hh": Part.HOUR,
    "mm": Part.MINUTE,
    "ss": Part.SECOND,
}
_WORDS: Final = re.compile("y+|d+|h+|H+|m+|s+|S+")
_SCANNER: Final = re.compile(r"YYYY|YY|MMM|MM|MI|M|DD|D|HH|SS|F[0-9]{1,2}|F+|[^A-Z0-9]", re.DOTALL)


@cache
def compile_format(text: str) -> DateFormat:
    """Return a compiled format; raises OptionError for what the language does not know.

    Tokens: YYYY YY M MM MMM D DD HH MI SS, F repeated or Fn; MM after HH is minutes; M and D are
    of one or two digits. All else is literal. A fraction at the end of a format takes any number
    of digits (fields of 22 and 23 characters share the one documented format with FF).
    """
    tokens = _minutes(list(_scan(text.strip())))
    _check_capitals(tokens, text)
    _check(tokens, text)
    layouts = [Layout(0, (), ())]
    for i, token in enumerate(tokens):
        open_end = token.part is Part.FRACTION and i == len(tokens) - 1
        widths = _any_width(token.widths[0]) if open_end else token.widths
        layouts = [_extended(layout, token, width) for layout in layouts for width in widths]
    return DateFormat(text, tuple(layouts))


def _any_width(first: int) -> tuple[int, ...]:
    others = (n for n in range(1, MOST_FRACTION_DIGITS + 1) if n != first)
    return (first, *others)


def _scan(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _SCANNER.match(text, at)
        if found is None and text[at] != "T":
            raise OptionError(
                f"date format {text!r} is not understood at {text[at:]!r}",
                hint="Tokens: YYYY YY MM M MMM DD D HH MI SS FFF; all but capitals and digits is literal",
            )
        word = found.group() if found else text[at]
        at += len(word)
        if word in _TOKENS:
            yield _TOKENS[word]
        elif word[0] == "F":
            yield _fraction(word, text)
        else:
            yield _Token(None, (len(word.encode()),), word.encode())


def _fraction(word: str, text: str) -> _Token:
    digits = int(word[1:]) if word[1:].isdigit() else len(word)
    if not 1 <= digits <= MOST_FRACTION_DIGITS:
        raise OptionError(f"date format {text!r} has {digits} fraction digits")
    return _Token(Part.FRACTION, (digits,))


def _minutes(tokens: list[_Token]) -> list[_Token]:
    """Return the tokens with an MM after HH read as minutes, as the manuals' examples do."""
    parts = [token.part for token in tokens]
    if Part.HOUR not in parts or Part.MINUTE in parts:
        return tokens
    hour = parts.index(Part.HOUR)
    for i in range(hour + 1, len(tokens)):
        if tokens[i] is _TOKENS["MM"]:
            return [*tokens[:i], _TOKENS["MI"], *tokens[i + 1 :]]
    return tokens


def _check(tokens: list[_Token], text: str) -> None:
    parts = [token.part for token in tokens if token.part is not None]
    if not parts:
        raise OptionError(f"date format {text!r} has no part of a date")
    for part, found in groupby(sorted(parts, key=lambda p: p.value)):
        if len(list(found)) > 1:
            raise OptionError(f"date format {text!r} gives the {part.value} twice")
    for this, following in pairwise(tokens):
        literal_digit = following.literal[:1].isdigit()
        if len(this.widths) > 1 and (following.part is not None or literal_digit):
            raise OptionError(
                f"date format {text!r} has a one-or-two-digit part without a separator after it",
                hint="Write MM or DD",
            )
    if Part.FRACTION in parts and Part.SECOND not in parts:
        raise OptionError(f"date format {text!r} has a fraction without seconds")


def _check_capitals(tokens: list[_Token], text: str) -> None:
    """Raise OptionError where letters of another format language would only be literals."""
    parts = {token.part for token in tokens}
    if any(part not in parts and word in text for word, part in _FOREIGN.items()):
        hour = re.search("[hH]", text)
        end = hour.start() if hour else len(text)

        def ours(found: re.Match[str]) -> str:
            word = found[0]
            if word[0] == "m":
                return "MM" if found.start() < end and "MM" not in text[:end] else "MI"
            return "F" * len(word) if len(word) > 2 and word[0] in "sS" else word.upper()

        raise OptionError(
            f"date format {text!r} has small letters, which stand for themselves",
            hint=f"Did you mean {_WORDS.sub(ours, text)}?",
        )


def _extended(layout: Layout, token: _Token, width: int) -> Layout:
    at = layout.length
    if token.part is not None:
        field = Field(token.part, at, width, token.letters)
        return Layout(at + width, (*layout.fields, field), layout.literals)
    extra = tuple((at + i, bytes([byte])) for i, byte in enumerate(token.literal))
    return Layout(at + width, layout.fields, (*layout.literals, *extra))


def _default() -> DateFormat:
    """Return the lenient default: time and fraction optional, blank, T or colon before the time.

    The documented default is YYYY-MM-DD:HH:MI:SS.FFF. Some manuals print a blank for the colon, and the
    XML samples rely on the default without a fraction (capture properties §4.1 and §11).
    """
    layouts = []
    for shape in (
        "YYYY-MM-DD:HH:MI:SS.FFF",
        "YYYY-MM-DD:HH:MI:SS",
        "YYYY-MM-DD",
        "YYYY-MM-DD:HH:MI",
    ):
        for layout in compile_format(shape).layouts:
            literals = tuple((at, b" T:" if at == 10 else text) for at, text in layout.literals)
            layouts.append(layout._replace(literals=literals))
    return DateFormat("YYYY-MM-DD:HH:MI:SS.FFF", tuple(layouts))


DEFAULT_FORMAT: Final = _default()


def _db2() -> DateFormat:
    """Return Db2's ISO forms: a date, or a timestamp with 0 to 12 fraction digits, and its variants.

    Db2 writes YYYY-MM-DD-HH.MM.SS.ffffff; a blank or T before the time, and colons within it, are taken as well.
    """
    layouts = []
    for shape in ("YYYY-MM-DD-HH.MI.SS", "YYYY-MM-DD", "YYYY-MM-DD-HH.MI.SS.FFFFFF"):
        for layout in compile_format(shape).layouts:
            allowed = {10: b"- T", 13: b".:", 16: b".:"}
            literals = tuple((at, allowed.get(at, text)) for at, text in layout.literals)
            layouts.append(layout._replace(literals=literals))
    return DateFormat("YYYY-MM-DD-HH.MI.SS.FFFFFF", tuple(layouts))


DB2_FORMAT: Final = _db2()
