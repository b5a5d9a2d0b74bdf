"""PICTURE strings: ``parse_picture`` reads one symbol by symbol.

It derives the category, the printed width, the digits and the decimal places: ``S9(5)V99`` is a
signed number of 7 digits, 2 of them decimal places, and takes 7 bytes in DISPLAY. Pictures that no
compiler accepts are errors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

MAX_CHARACTERS: Final = 1 << 27  # the largest item that Enterprise COBOL allows
# A symbol of a picture and its repetition: S, 9(5), V, CR
_PART: Final = re.compile(r"(CR|DB|.)(?:\((\d+)\))?")
_SYMBOLS: Final = frozenset("AXNGU9SVPZ*+-,./$B0") | {"CR", "DB"}
_FLOATING: Final = frozenset("+-$")
# Bytes that a symbol takes in a DISPLAY item; S, V and P take none.
_WIDTH: Final[Mapping[str, int]] = MappingProxyType(
    {**dict.fromkeys(_SYMBOLS, 1), "S": 0, "V": 0, "P": 0, "CR": 2, "DB": 2}
)
# Printed floating point: +9(2).9(3)E-99
_FLOAT: Final = re.compile(
    r"[+-](?:9(?:\(\d+\))?)*(?:[V.,](?:9(?:\(\d+\))?)*)?E[+-]99", re.IGNORECASE
)
SWAPPED: Final = str.maketrans(".,", ",.")
SWAPPING: Final = (
    "DECIMAL-POINT IS COMMA swaps points and commas: the option decimalComma, or --decimal-comma"
)
# Pictures that no compiler accepts, by their symbols without repeats: 9(4)V99P is 9V9P. Without
# these rules a number would get a scale that nobody meant, such as Z.ZZZ.ZZ9,99 of a program with
# DECIMAL-POINT IS COMMA.
_WRONG_NUMBERS: Final = (
    (r".+S.*", "has an S that is not its first symbol", ""),
    (
        r".*[.].*[.].*|.*,.*[.].*,.*",
        "has commas after its decimal point, or two decimal points",
        SWAPPING,
    ),
    (r".*[.V].*[.V].*", "has two decimal points", ""),
    (r".*P[^PV]+P.*|.*[^SPV]VP.*|.*V[^P]+P.*|.*[^SPV]+P+V?[^VP]+.*", "has a P between its digits", "P comes before or after all digits, as in VPP9 or 9PP"),
    (r".*(?:CR|DB).+", "has a CR or DB that is not its last symbol", ""),
)  # fmt: skip
_WRONG_TEXT: Final = re.compile(r"[SVPZ*+$-]")


class PictureCategory(Enum):
    """The category of data that a PICTURE describes, such as numeric or alphanumeric."""

    TEXT = "text"
    NATIONAL = "national"
    UTF8 = "utf-8"
    DBCS = "dbcs"
    NUMBER = "number"
    FLOAT = "floating point"
    EDITED = "edited number"


# Bytes per character of the categories with more than one (copybooks §3).
_BYTES: Final[Mapping[PictureCategory, int]] = MappingProxyType(
    {PictureCategory.NATIONAL: 2, PictureCategory.DBCS: 2, PictureCategory.UTF8: 4}
)


# By the symbol of the picture.
_STRINGS: Final[Mapping[str, PictureCategory]] = MappingProxyType(
    {
        "N": PictureCategory.NATIONAL,
        "U": PictureCategory.UTF8,
        "G": PictureCategory.DBCS,
        "X": PictureCategory.TEXT,
        "A": PictureCategory.TEXT,
    }
)


@dataclass(frozen=True, slots=True)
class ParsedPicture:
    """A parsed PICTURE. ``characters`` is its printed width, without a separate sign.

    ``digits`` are the stored digits of a number, and ``scale`` its decimal places.
    """

    text: str
    category: PictureCategory
    characters: int
    digits: int = 0
    scale: int = 0
    signed: bool = False
    comma: bool = False  # commas and points are swapped in ``text``

    @property
    def size(self) -> int:
        """The number of bytes of a DISPLAY item with this PICTURE, without a separate sign."""
        return _BYTES.get(self.category, 1) * self.characters


class PictureError(ValueError):
    """Raised for an invalid PICTURE. The caller adds the position in the copybook."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def parse_picture(text: str, *, comma: bool = False) -> ParsedPicture:
    """Parse a PICTURE. Raises PictureError if it is invalid.

    ``comma`` means DECIMAL-POINT IS COMMA: commas and points are swapped before parsing.
    """
    if _FLOAT.fullmatch(text):
        return _float(text.replace(",", ".") if comma else text, comma=comma)
    if comma:
        swapped = text.translate(SWAPPED)
        try:
            parsed = parse_picture(swapped)
        except PictureError as error:
            raise PictureError(str(error).replace(swapped, text), error.hint) from None
        return replace(parsed, comma=parsed.category is PictureCategory.EDITED)
    symbols = _expand(text)
    used = {symbol for symbol, _ in symbols}
    characters = sum(_WIDTH[symbol] * count for symbol, count in symbols)
    if characters > MAX_CHARACTERS:
        raise PictureError(f"a picture of {characters} characters is too long")
    for symbol, category in _STRINGS.items():
        if symbol in used:
            wrong = _WRONG_TEXT.search("".join(sorted(used)))
            if wrong:
                raise PictureError(f"the picture {text} has both {symbol} and {wrong[0]}")
            return ParsedPicture(text, category, characters)
    _check_number(text, "".join(symbol for symbol, _ in symbols))
    return _number(text, symbols, characters)


def _float(text: str, *, comma: bool) -> ParsedPicture:
    """Parse an external floating-point picture such as ``+9(3).99E+99``."""
    mantissa = _expand(text.upper().partition("E")[0])
    digits, scale = _digits(
        text, [(symbol, count) for symbol, count in mantissa if symbol not in "+-"]
    )
    characters = sum(_WIDTH[symbol] * count for symbol, count in mantissa) + len("E+99")
    return ParsedPicture(
        text=text.upper(),
        category=PictureCategory.FLOAT,
        characters=characters,
        digits=digits,
        scale=scale,
        signed=True,
        comma=comma,
    )


def _expand(text: str) -> list[tuple[str, int]]:
    """Split a picture into symbols with repeat counts: ``S9(5)V99`` is S 1, 9 5, V 1, 9 1, 9 1."""
    expanded = []
    position = 0
    upper = text.upper()
    while position < len(upper):
        part = _PART.match(upper, position)
        symbol = part[1] if part else upper[position]
        if part is None or symbol not in _SYMBOLS:
            raise PictureError(f"{symbol!r} in the picture {text} is not a picture symbol")
        count = int(part[2] or 1)
        if not count:
            raise PictureError(f"the picture {text} repeats {symbol} zero times")
        expanded.append((symbol, count))
        position = part.end()
    if not expanded:
        raise PictureError("the picture is empty")
    return expanded


def _check_number(text: str, symbols: str) -> None:
    """Raise PictureError if the symbols of a number are in an order that COBOL does not allow."""
    for wrong, problem, hint in _WRONG_NUMBERS:
        if re.fullmatch(wrong, symbols):
            raise PictureError(f"the picture {text} {problem}", hint)


def _number(text: str, symbols: list[tuple[str, int]], characters: int) -> ParsedPicture:
    """Return the parsed picture of a number: numeric if it contains only 9, S, V and P, otherwise numeric-edited.

    ``characters`` is its printed width.
    """
    plain = all(symbol in "9SVP" for symbol, _ in symbols)
    category = PictureCategory.NUMBER if plain else PictureCategory.EDITED
    digits, scale = _digits(text, symbols)
    signed = any(symbol in ("S", "+", "-", "CR", "DB") for symbol, _ in symbols)
    return ParsedPicture(
        text=text,
        category=category,
        characters=characters,
        digits=digits,
        scale=scale,
        signed=signed,
    )


def _digits(text: str, symbols: list[tuple[str, int]]) -> tuple[int, int]:
    """Return the number of stored digits and the scale (decimal places).

    Leading Ps add to the scale, trailing Ps make it negative: ``9(3)PP`` is (3, -2).
    """
    floats = _floating(symbols)
    digits = decimals = lead = trail = 0
    point = False
    for symbol, count in symbols:
        # V is the implied point; a period is a printed one.
        if symbol in ("V", "."):
            point = True
        elif symbol == "P":
            if digits and not point:
                trail += count  # 9(9)PPP: the digits are left of the point
            else:
                lead, point = lead + count, True  # SPPP9(9), VPP9: right of it
        elif symbol in "9Z*" or symbol in floats:
            positions = count
            if floats.get(symbol):
                positions, floats[symbol] = (
                    count - 1,
                    0,
                )  # the first one is the sign or currency itself
            digits += positions
            decimals += positions if point else 0
    if not digits:
        raise PictureError(f"the picture {text} has no digit")
    return digits, decimals + lead - trail


def _floating(symbols: list[tuple[str, int]]) -> dict[str, int]:
    """Return the floating insertion symbols: ``+``, ``-`` or ``$``, if they occur more than once.

    Each has the value 1: its first occurrence is not a digit, but all later ones are, as in ``--9``.
    """
    totals = Counter[str]()
    for symbol, count in symbols:
        totals[symbol] += count
    return {symbol: 1 for symbol in _FLOATING if totals[symbol] > 1}
