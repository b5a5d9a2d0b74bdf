"""The entries of a copybook: their tree by level number, their PICTURE strings, and comments.

``parse_picture`` reads a PICTURE symbol by symbol and derives its category, printed width, digits
and decimal places: ``S9(5)V99`` is a signed number of 7 digits, 2 of them decimal places. ``nest_entries``
nests the entries by their level numbers alone: an entry belongs to the last preceding entry with a
lower level. ``expand_typedefs`` then replaces TYPEDEF names by their descriptions.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.layouts import ConditionName, Occurs, SignPosition
from trailgate.cobol.copybook.source import CopybookToken

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
_SWAPPED: Final = str.maketrans(".,", ",.")

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

RECORD, RENAMES, STAND_ALONE, CONDITION = 1, 66, 77, 88
CONSTANT: Final = "78"
_LOG: Final = logging.getLogger(__name__)
# Usages whose size does not depend on a picture. Compilers refuse a picture beside them.
UNPICTURED: Final = frozenset({"COMP-1", "COMP-2", "POINTER", "PROCEDURE-POINTER", "INDEX"})
_DATE_LETTERS: Final = frozenset("YMDHSFIT")

# The attributes that an item takes over from its type.
_OF_TYPE: Final = (
    "picture",
    "usage",
    "sign",
    "sync",
    "justified",
    "blank_when_zero",
    "byte_length",
    "unsigned",
    "conditions",
    "children",
)


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
    """A parsed PICTURE. ``characters`` is its printed width, without a separate sign."""

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
        swapped = text.translate(_SWAPPED)
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
    """Return the parsed picture of a number: numeric if it contains only 9, S, V and P, otherwise numeric-edited."""
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
    """Return the floating insertion symbols: ``+``, ``-`` or ``$``, used more than once.

    Each prints a digit.
    """
    totals = Counter[str]()
    for symbol, count in symbols:
        totals[symbol] += count
    return {symbol: 1 for symbol in _FLOATING if totals[symbol] > 1}


@dataclass(slots=True)
class CopybookEntry:
    """One data description entry as written in the copybook.

    Sizes and offsets are computed later, in ``reader``.
    """

    level: int
    name: str
    token: CopybookToken
    picture: ParsedPicture | None = None
    usage: str | None = None
    sign: SignPosition | None = None
    occurs: Occurs | None = None
    redefines: str | None = None
    byte_length: int | None = None
    sync: bool = False
    justified: bool = False
    blank_when_zero: bool = False
    unsigned: bool = False
    type: str | None = None  # the name of its TYPEDEF, in capitals
    is_type: bool = False
    filler: bool = False
    key: bool = False
    date_format: str | None = None
    conditions: list[ConditionName] = field(default_factory=list)
    children: list[CopybookEntry] = field(default_factory=list)

    def walk(self) -> Iterator[CopybookEntry]:
        """Yield this copybook entry and all entries below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


def apply_comments(comments: list[CopybookToken], entry: CopybookEntry) -> None:
    """Apply the key and date comments before an entry: ``KEY``, ``DATEFORMAT fmt``, or a bare format.

    Only the comments between an entry and the preceding entry count (capture properties §5.1).
    """
    for comment in comments:
        words = comment.text.lstrip("*").split()
        if words and words[0].upper() == "KEY" and len(words) == 1:
            entry.key = True
        elif len(words) > 1 and words[0].upper() == "DATEFORMAT":
            entry.date_format = " ".join(words[1:])
        elif len(words) == 1 and _is_format(words[0]):
            entry.date_format = words[0]


def _is_format(word: str) -> bool:
    """Return True if a word is a date or time format such as ``YYYYMMDD`` or ``HHMMSS``."""
    letters = {letter for letter in word if letter.isalpha()}
    return word.isupper() and letters <= _DATE_LETTERS and ("YY" in word or "HH" in word)


def nest_entries(entries: list[CopybookEntry]) -> list[CopybookEntry]:
    """Nest copybook entries by level number and return the outermost entries.

    Conditions (88) are added to the item before them, and RENAMES (66) are dropped.
    """
    roots: list[CopybookEntry] = []
    open_groups: list[CopybookEntry] = []
    item: CopybookEntry | None = None  # the last one that takes storage
    for entry in entries:
        if entry.level == CONDITION:
            if item is None:
                raise entry.token.error(f"the condition {entry.name} has no item before it")
            item.conditions += entry.conditions
            continue
        if entry.level == RENAMES:
            continue  # an alias: no storage
        level = 1 if entry.level == STAND_ALONE else entry.level
        # Close the groups that this entry is not inside of. Level 77 never contains anything.
        while open_groups and (
            open_groups[-1].level >= level or open_groups[-1].level == STAND_ALONE
        ):
            open_groups.pop()
        (open_groups[-1].children if open_groups else roots).append(entry)
        open_groups.append(entry)
        item = entry
    for root in roots:
        for entry in root.walk():
            _check(entry)
    return roots


def expand_typedefs(records: list[CopybookEntry]) -> list[CopybookEntry]:
    """Replace each reference to a TYPEDEF by its description, and remove the typedefs from the records."""
    types: dict[str, CopybookEntry] = {}
    for record in records:
        for entry in [one for one in record.walk() if one.type is not None]:
            _describe(entry, types)
        if record.is_type:
            types[record.name.upper()] = record
    return [record for record in records if not record.is_type]


def _describe(entry: CopybookEntry, types: Mapping[str, CopybookEntry]) -> None:
    """Copy the picture, usage and items of the entry's TYPEDEF into the entry."""
    type_ = types.get(entry.type or "")
    if type_ is None:
        raise entry.token.error(f"{entry.name} has the type {entry.type}, which is not complete")
    if entry.children or entry.picture is not None:
        raise entry.token.error(f"{entry.name} has the type {entry.type}, and a description")
    definition = deepcopy(type_)
    for child in (one for item in definition.children for one in item.walk()):
        # Shift the levels of the copied items, so that they are below the entry and not below the
        # type.
        child.level += entry.level - type_.level
    for name in _OF_TYPE:
        if getattr(definition, name):
            setattr(entry, name, getattr(definition, name))


def _check(entry: CopybookEntry) -> None:
    """Raise DefinitionError if an entry contradicts itself.

    Also warns of words that have no effect: SIGN SEPARATE without an S, a picture beside COMP-1. Warns
    too if a comma follows a decimal point.
    """
    name = entry.name
    if entry.children and entry.picture is not None:
        child = entry.children[0]
        problem = f"{name} has a picture, so {child.name} cannot be in it"
        raise child.token.error(problem, "Is a level number wrong?")
    if entry.sign and entry.sign.separate and entry.picture and not entry.picture.signed:
        problem = f"{name} has a SEPARATE sign, but its picture {entry.picture.text} has no S"
        hint = "It is read as a number without a sign, and without a byte for one"
        _LOG.warning("%s", entry.token.error(problem, hint))
    picture = entry.picture
    if picture and entry.usage in UNPICTURED:
        problem = f"{name} is {entry.usage}, which has no picture"
        _LOG.warning("%s", entry.token.error(problem, f"Its picture {picture.text} has no effect"))
    if (
        picture
        and picture.category is PictureCategory.EDITED
        and "," in picture.text.partition(".")[2]
    ):
        text, after, point = (
            (picture.text.translate(_SWAPPED), "point", "comma")
            if picture.comma
            else (picture.text, "comma", "point")
        )
        problem = f"the picture {text} has a {after} after its decimal {point}"
        _LOG.warning("%s", entry.token.error(problem, SWAPPING))
    if entry.occurs and entry.level == 1 and entry.redefines:
        raise entry.token.error(f"the record {name} cannot occur and redefine")
