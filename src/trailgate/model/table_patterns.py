"""Names of tables with GoldenGate's wildcards, as in ``HR.*, SALES.ORD?``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from trailgate.errors import OptionError

# A wildcard stands for characters of one part of a name: it never takes a point.
_WILDCARDS: Final = {"*": "[^.]*", "?": "[^.]"}
EVERY: Final = "*"  # alone: every table, however many parts its name has


@dataclass(frozen=True, slots=True)
class TablePatterns:
    """Patterns of which a table's name must fit one, compared without case."""

    patterns: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the patterns of a list with commas; raises OptionError for an empty one."""
        patterns = tuple(part.strip() for part in text.split(","))
        if not all(patterns):
            raise OptionError(
                f"{text!r} is not a list of tables", hint="As in HR.*,SALES.ORD? or SALES.ORDERS"
            )
        return cls(patterns)

    def fits(self, name: str) -> bool:
        """Return whether a table is meant."""
        return EVERY in self.patterns or _compiled(self.patterns).fullmatch(name) is not None


@cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    wholes = ("".join(_WILDCARDS.get(c, re.escape(c)) for c in pattern) for pattern in patterns)
    return re.compile("|".join(f"(?:{whole})" for whole in wholes), re.IGNORECASE)
