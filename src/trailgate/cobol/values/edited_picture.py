"""Pictures of printed numbers, position by position."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.layouts import Field
from trailgate.errors import DefinitionError, Where


class PositionKind(Enum):
    """What a position holds."""

    DIGIT = "digit"  # 9
    SUPPRESSED = "suppressed"  # Z and *: a digit, or the filler before the first one
    FLOATING = "floating"  # + - $ more than once: a digit, a blank, or the symbol itself
    FLOAT_BEGIN = "float begin"  # the first of them: no digit
    INSERTED = "inserted"  # , . B 0 /
    SIGN = "sign"  # a single + or -
    CURRENCY = "currency"  # a single $
    CREDIT = "credit"  # CR and DB, a position a letter


@dataclass(frozen=True, slots=True)
class Position:
    """One character of the printed number; ``symbol`` is the picture's, B shown as a blank."""

    kind: PositionKind
    symbol: str


_PART: Final = re.compile(r"(CR|DB|.)(?:\((\d+)\))?")
_FIXED: Final = {"+": PositionKind.SIGN, "-": PositionKind.SIGN, "$": PositionKind.CURRENCY}
# V, S and P print nothing.
_PLAIN: Final[Mapping[str, tuple[tuple[PositionKind, str], ...]]] = MappingProxyType(
    {
        "9": ((PositionKind.DIGIT, "9"),),
        "Z": ((PositionKind.SUPPRESSED, " "),),
        "*": ((PositionKind.SUPPRESSED, "*"),),
        "B": ((PositionKind.INSERTED, " "),),
        "CR": ((PositionKind.CREDIT, "C"), (PositionKind.CREDIT, "R")),
        "DB": ((PositionKind.CREDIT, "D"), (PositionKind.CREDIT, "B")),
        **{symbol: ((PositionKind.INSERTED, symbol),) for symbol in ",.0/"},
    }
)


def positions(field: Field) -> tuple[Position, ...]:
    """Return the positions of an edited field; raises DefinitionError if they are not its bytes."""
    symbols = []
    for symbol, count in _PART.findall(field.picture.upper()):
        symbols += [symbol] * int(count or 1)
    floating = {s for s in _FIXED if symbols.count(s) > 1}
    begun: set[str] = set()
    found: list[Position] = []
    for symbol in symbols:
        found += _positions(symbol, floating, begun)
    if len(found) != field.size:
        problem = f"the picture {field.picture} does not print {field.size} characters"
        raise DefinitionError(problem, where=Where(field=field.name))
    return tuple(found)


def _positions(symbol: str, floating: set[str], begun: set[str]) -> list[Position]:
    if symbol in floating:
        kind = PositionKind.FLOATING if symbol in begun else PositionKind.FLOAT_BEGIN
        begun.add(symbol)
        return [Position(kind, symbol)]
    if symbol in _FIXED:
        return [Position(_FIXED[symbol], symbol)]
    return [Position(kind, shown) for kind, shown in _PLAIN.get(symbol, ())]


def printed_zero(found: tuple[Position, ...]) -> str | None:
    """Return how zero is printed where every digit is suppressed: blank, or stars and the point."""
    if any(position.kind is PositionKind.DIGIT for position in found):
        return None
    stars = any(position.symbol == "*" for position in found)
    return "".join("." if stars and p.symbol == "." else "*" if stars else " " for p in found)
