"""Table names: their parts, their normal form, and GoldenGate's wildcards such as ``HR.*, SALES.ORD?``.

A name has parts separated by points: ``CATALOG.SCHEMA.TABLE``, ``SCHEMA.TABLE`` or ``TABLE``. A part
that contains a point or a quote is quoted, as in ``HR."A.B"``. A wildcard matches within one part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from trailgate.errors import OptionError, did_you_mean

NAME_PART: Final = re.compile(r'"(?:[^"]|"")*"|[^."]+')  # one part of a table name
NAMED: Final = 8  # tables listed in a message
EVERY: Final = "*"  # alone, it matches every table, however many parts its name has


def split_table_name(name: str) -> list[str]:
    """Return the parts of a table name as written, or [] if it is not a name of parts separated by points."""
    parts = NAME_PART.findall(name)
    return parts if ".".join(parts) == name and all(map(unquote, parts)) else []


def normalize_table_name(name: str) -> str:
    """Return the normal form of a table name, in which names are stored and compared.

    Only a part that contains a point or a quote is quoted, because trails, definitions files and
    users write both ``S."A B"`` and ``S.A B`` for the same table.
    """
    if '"' not in name:
        return name
    return ".".join(map(_part, split_table_name(name))) or name


def _part(written: str) -> str:
    plain = unquote(written)
    return written if "." in plain or '"' in plain else plain


def join_table_name(parts: Iterable[str]) -> str:
    """Join the unquoted parts of a table name. Only a part that contains a point or a quote is quoted."""
    return ".".join(
        '"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part
        for part in parts
    )


def split_owner(name: str) -> tuple[str, str]:
    """Split a table name into the part before the last name ("" if there is none), and the last name without quotes.

    ``HR.JOBS`` becomes ``HR`` and ``JOBS``, ``HR."A.B"`` becomes ``HR`` and ``A.B``.
    """
    parts = list(map(unquote, split_table_name(name)))
    if not parts:
        owner, _, own = name.rpartition(".")
        return owner, own
    return join_table_name(parts[:-1]), parts[-1]


def join_owner(owner: str, name: str) -> str:
    """Join an owner and a table name to one name: the reverse of ``split_owner``.

    A point in ``name`` is part of the name.
    """
    return f"{owner}.{join_table_name((name,))}"


def unquote(written: str) -> str:
    """Return a table or column name without its quotes."""
    if len(written) >= 2 and written[0] == written[-1] == '"':
        return written[1:-1].replace('""', '"')
    return written


def describe_no_match(where: str, pattern: str, known: Sequence[str], of: str) -> str:
    """Return a sentence for a table pattern that matches no table.

    It lists the existing tables (``known``) and the most similar name.

    ``where`` names the option in which the user stated the pattern, and ``of`` the source of the
    tables, such as a trail.
    """
    near = did_you_mean(pattern, known)
    parts = len(split_table_name(pattern))
    if not near and all(len(split_table_name(one)) != parts for one in known):
        near = f"A pattern must have as many parts as the table's name, but {pattern} has {parts}."
    shown = ", ".join(known[:NAMED]) + (", ..." if len(known) > NAMED else "")
    verb = "is" if len(known) == 1 else "are"
    return f"{where} {pattern}: no table of {of} fits; there {verb} {shown}. {near}".strip()


@dataclass(frozen=True, slots=True)
class TablePatterns:
    """Patterns of table names, or one literal name (``name``), compared ignoring case."""

    patterns: tuple[str, ...]
    name: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a list of table patterns separated by commas. Raises OptionError if a pattern is empty."""
        patterns = tuple(part.strip() for part in text.split(","))
        if not all(patterns):
            raise OptionError(
                f"{text!r} is not a list of tables", hint="As in HR.*,SALES.ORD? or SALES.ORDERS"
            )
        return cls(patterns)

    @classmethod
    def exactly(cls, name: str) -> Self:
        """Return a pattern that matches only one table, even if its name contains wildcards or commas."""
        return cls((), name)

    @classmethod
    def of(cls, tables: str | Iterable[str]) -> Self:
        """Parse a list of table patterns separated by commas, or several such lists. Raises OptionError."""
        return cls.read(tables if isinstance(tables, str) else ",".join(tables))

    def fits(self, name: str) -> bool:
        """Return whether a table pattern matches all parts of a table name."""
        if self.name is not None:
            return name.casefold() == self.name.casefold()
        return any(_fits(pattern, name, all_parts=True) for pattern in self.patterns)

    def fits_end(self, name: str) -> bool:
        """Return whether a table pattern matches a name's last parts, as ``HR.*`` does ``CAT.HR.JOBS``.

        So a pattern may omit the catalog. A literal name must match the whole name.
        """
        if self.name is not None:
            return self.fits(name)
        return any(_fits(pattern, name, all_parts=False) for pattern in self.patterns)


def _fits(pattern: str, name: str, *, all_parts: bool) -> bool:
    if pattern == EVERY:
        return True
    wanted, parts = _compile(pattern), list(map(unquote, NAME_PART.findall(name)))
    if len(wanted) > len(parts) or (all_parts and len(wanted) < len(parts)):
        return False
    compared = zip(wanted, parts[len(parts) - len(wanted) :], strict=True)
    return all(expression.fullmatch(part) for expression, part in compared)


@cache
def _compile(pattern: str) -> tuple[re.Pattern[str], ...]:
    parts = map(unquote, NAME_PART.findall(pattern))
    return tuple(re.compile(_expression(part), re.IGNORECASE | re.DOTALL) for part in parts)


def _expression(part: str) -> str:
    """Return the regular expression for one part of a table pattern; ``*`` and ``?`` are wildcards."""
    begin, *others = (".".join(map(re.escape, text.split("?"))) for text in part.split("*"))
    if not others:
        return begin
    # The first place of a text between two wildcards is as good as any later one. Atomic groups
    # try no other, so that a pattern of many wildcards is fast on a long name.
    between = "".join(f"(?>.*?{text})" for text in others[:-1])
    return f"{begin}{between}.*{others[-1]}"


def add_catalog(catalog: str, pattern: str) -> str:
    """Return a pattern of table names with a catalog: its own, or else ``catalog``, which SOURCECATALOG names."""
    has_catalog = len(split_table_name(pattern)) != 2
    return pattern if has_catalog or not catalog else f"{catalog}.{pattern}"
