"""PICTURE strings: which category, how many characters, digits and decimal places."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple


class Category(Enum):
    """What kind of data a picture describes."""

    TEXT = "text"
    NATIONAL = "national"
    UTF8 = "utf-8"
    DBCS = "dbcs"
    NUMBER = "number"
    EDITED = "edited number"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: ``characters`` is its printed width, ``size`` its bytes as DISPLAY without a sign byte."""

    text: str
    category: Category
    characters: int
    digits: int = 0
    scale: int = 0
    signed: bool = False

    @property
    def size(self) -> int:
        """Return the bytes of a DISPLAY item."""
        return _BYTES.get(self.category, 1) * self.characters


# Bytes of a character, where they are more than one (copybooks §3).
_BYTES: Final[Mapping[Category, int]] = MappingProxyType(
    {Category.NATIONAL: 2, Category.DBCS: 2, Category.UTF8: 4}
)
MAX_CHARACTERS: Final = 1 << 27  # the largest item that Enterprise COBOL allows
_PART: Final = re.compile(r"(CR|DB|.)(?:\((\d+)\))?")
_SYMBOLS: Final = frozenset("AXNGU9SVPZ*+-,./$B0") | {"CR", "DB"}
_TEXTS: Final[Mapping[str, Category]] = MappingProxyType(
    {
        "N": Category.NATIONAL,
        "U": Category.UTF8,
        "G": Category.DBCS,
        "X": Category.TEXT,
        "A": Category.TEXT,
    }
)
_FLOATING: Final = frozenset("+-$")
# Bytes that a symbol takes in a DISPLAY item; S, V and P take none.
_WIDTH: Final[Mapping[str, int]] = MappingProxyType(
    {**dict.fromkeys(_SYMBOLS, 1), "S": 0, "V": 0, "P": 0, "CR": 2, "DB": 2}
)


class PictureError(ValueError):
    """A picture is wrong; the caller adds its place."""


def parse_picture(text: str) -> Picture:
    """Return a parsed picture; raises PictureError."""
    symbols = _expanded(text)
    used = {symbol for symbol, _ in symbols}
    characters = sum(_WIDTH[symbol] * count for symbol, count in symbols)
    if characters > MAX_CHARACTERS:
        raise PictureError(f"a picture of {characters} characters is too long")
    for symbol, category in _TEXTS.items():
        if symbol in used:
            return Picture(text, category, characters)
    return _number(text, symbols, characters)


class _Symbols(NamedTuple):
    """A symbol of a picture, and how often it is repeated."""

    symbol: str
    repeats: int


def _expanded(text: str) -> list[_Symbols]:
    """Return symbols with their repeats, in order."""
    found = []
    place = 0
    upper = text.upper()
    while place < len(upper):
        part = _PART.match(upper, place)
        symbol = part[1] if part else upper[place]
        if part is None or symbol not in _SYMBOLS:
            raise PictureError(f"{symbol!r} in the picture {text} is not a picture symbol")
        count = int(part[2] or 1)
        if not count:
            raise PictureError(f"the picture {text} repeats {symbol} no time")
        found.append(_Symbols(symbol, count))
        place = part.end()
    if not found:
        raise PictureError("an empty picture")
    return found


def _number(text: str, symbols: list[_Symbols], characters: int) -> Picture:
    plain = all(symbol in "9SVP" for symbol, _ in symbols)
    category = Category.NUMBER if plain else Category.EDITED
    digits, scale = _digits(text, symbols)
    signed = any(symbol in ("S", "+", "-", "CR", "DB") for symbol, _ in symbols)
    return Picture(text, category, characters, digits, scale, signed)


def _digits(text: str, symbols: list[_Symbols]) -> tuple[int, int]:
    """Return how many digits are held and how many of them are decimal places."""
    floats = _floating(symbols)
    digits = decimals = lead = trail = 0
    point = False
    for symbol, count in symbols:
        if symbol in ("V", "."):
            point = True
        elif symbol == "P":
            if digits and not point:
                trail += count  # 9(9)PPP: the digits are left of the point
            else:
                lead, point = lead + count, True  # SPPP9(9), VPP9: right of it
        elif symbol in "9Z*" or symbol in floats:
            held = count
            if floats.get(symbol):
                held, floats[symbol] = count - 1, 0  # the first one is the sign or currency itself
            digits += held
            decimals += held if point else 0
    if not digits:
        raise PictureError(f"the picture {text} has no digit")
    return digits, decimals + lead - trail


def _floating(symbols: list[_Symbols]) -> dict[str, int]:
    """Return the symbols of _FLOATING that occur more than once: they are places of digits."""
    totals: dict[str, int] = {}
    for symbol, count in symbols:
        if symbol in _FLOATING:
            totals[symbol] = totals.get(symbol, 0) + count
    return {symbol: 1 for symbol, total in totals.items() if total > 1}
