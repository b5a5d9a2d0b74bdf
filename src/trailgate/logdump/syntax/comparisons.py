"""The comparisons of filters: ``>= 100``, ``100 GE``, ``100``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import OptionError

Comparison = Callable[[Any, Any], Any]
OPERATORS: Final[Mapping[str, Comparison]] = MappingProxyType(
    {
        **dict.fromkeys(("=", "==", "EQ"), operator.eq),
        **dict.fromkeys(("<>", "!=", "NE"), operator.ne),
        **dict.fromkeys(("<", "LT"), operator.lt),
        **dict.fromkeys(("<=", "LE"), operator.le),
        **dict.fromkeys((">", "GT"), operator.gt),
        **dict.fromkeys((">=", "GE"), operator.ge),
    }
)
SIGN: Final = re.compile(r"[<>=!]+|[^<>=!]+")


def read_comparison(words: Sequence[str]) -> tuple[Comparison, list[str]]:
    """Return the comparison among some words, equality if there is none, and the other words."""
    found: list[Comparison] = []
    rest = []
    for word in words:
        for piece in SIGN.findall(word):
            compare = OPERATORS.get(piece.upper())
            if compare is not None:
                found.append(compare)
            elif piece[0] in "<>=!":
                raise OptionError(f"{piece!r} is not a comparison")
            else:
                rest.append(piece)
    if len(found) > 1:
        raise OptionError("only one comparison is possible")
    return (found or [operator.eq])[0], rest


def compare_texts(compare: Comparison, left: bytes, right: bytes) -> bool:
    """Compare two values as numbers if both are digits, else as text; an empty left never matches."""
    if not left:
        return False
    if left.isdigit() and right.isdigit():
        return bool(compare(_digits(left), _digits(right)))
    return bool(compare(left, right))


def _digits(text: bytes) -> tuple[int, bytes]:
    # Of digits without leading zeros the longer is the greater: no limit on their number.
    bare = text.lstrip(b"0")
    return len(bare), bare
