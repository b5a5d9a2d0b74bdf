"""Names of tables: their parts, the one form in which they are kept, and GoldenGate's wildcards, as in ``HR.*, SALES.ORD?``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from trailgate.errors import OptionError, did_you_mean

_WILDCARDS: Final = {"*": ".*", "?": "."}  # within one part of a name
NAME_PART: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+')  # of a table's name
NAMED: Final = 8  # tables that a sentence names
EVERY: Final = "*"  # alone: every table, however many parts its name has


def name_parts(name: str) -> list[str]:
    """Return the parts of a table's name as they are written; none where it is not a name of parts with points between them."""
    parts = NAME_PART.findall(name)
    return parts if ".".join(parts) == name and all(map(unquote, parts)) else []


def table_name(name: str) -> str:
    """Return a table's name in the one form in which names are compared and kept: only a part that has a point or a quote is quoted.

    Trails, definitions files and users write ``S."A B"`` and ``S.A B`` for the same table.
    """
    if '"' not in name:
        return name
    return ".".join(map(_part, name_parts(name))) or name


def _part(written: str) -> str:
    plain = unquote(written)
    return written if "." in plain or '"' in plain else plain


def joined_name(parts: Iterable[str]) -> str:
    """Return a table's name of parts without quotes, of which only one that has a point or a quote is quoted."""
    return ".".join(
        '"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part
        for part in parts
    )


def unquote(written: str) -> str:
    """Return a name without its quotes."""
    if len(written) >= 2 and written[0] == written[-1] == '"':
        return written[1:-1].replace('""', '"')
    return written


def no_table(place: str, pattern: str, known: Sequence[str], of: str) -> str:
    """Return a sentence on a pattern that no table of ``of`` fits, with the tables that there are and the nearest; ``place`` is what states it."""
    near = did_you_mean(pattern, known)
    parts = len(name_parts(pattern))
    if not near and all(len(name_parts(one)) != parts for one in known):
        near = f"A pattern has the parts of the table's name, and {pattern} has {parts}."
    shown = ", ".join(known[:NAMED]) + (", ..." if len(known) > NAMED else "")
    verb = "is" if len(known) == 1 else "are"
    return f"{place} {pattern}: no table of {of} fits; there {verb} {shown}. {near}".strip()


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
        """Return whether a pattern has the parts of a table's name."""
        return any(_fits(pattern, name, whole=True) for pattern in self.patterns)

    def fits_end(self, name: str) -> bool:
        """Return whether a pattern has the last parts of a name: it may leave out the catalog."""
        return any(_fits(pattern, name, whole=False) for pattern in self.patterns)


def _fits(pattern: str, name: str, *, whole: bool) -> bool:
    if pattern == EVERY:
        return True
    wanted, parts = _compile(pattern), list(map(unquote, NAME_PART.findall(name)))
    if len(wanted) > len(parts) or (whole and len(wanted) < len(parts)):
        return False
    compared = zip(wanted, parts[len(parts) - len(wanted) :], strict=True)
    return all(expression.fullmatch(part) for expression, part in compared)


@cache
def _compile(pattern: str) -> tuple[re.Pattern[str], ...]:
    parts = map(unquote, NAME_PART.findall(pattern))
    wholes = ("".join(_WILDCARDS.get(c, re.escape(c)) for c in part) for part in parts)
    return tuple(re.compile(whole, re.IGNORECASE | re.DOTALL) for whole in wholes)
