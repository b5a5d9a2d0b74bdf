"""The comparisons that filters take: ``>= 100``, ``100 GE``, ``100``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from trailgate.errors import OptionError

Compare = Callable[[Any, Any], Any]
OPERATORS: Final[Mapping[str, Compare]] = MappingProxyType(
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


def read_comparison(words: Sequence[str]) -> tuple[Compare, list[str]]:
    """Return the comparison among some words, equality where there is none, and the other words."""
    found: list[Compare] = []
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


def compare_texts(compare: Compare, left: bytes, right: bytes) -> bool:
    """Compare two values as numbers where both are digits, else as text; none matches nothing."""
    if not left:
        return False
    if left.isdigit() and right.isdigit():
        return bool(compare(_digits(left), _digits(right)))
    return bool(compare(left, right))


def _digits(text: bytes) -> tuple[int, bytes]:
    # Of digits without leading zeros the longer is the greater: no limit on their number.
    bare = text.lstrip(b"0")
    return len(bare), bare
