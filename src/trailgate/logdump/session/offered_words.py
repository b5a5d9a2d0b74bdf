"""Words that may follow what is typed: keywords, table names and record types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trailgate.errors import TrailgateError
from trailgate.logdump.filters.options import OPTIONS as FILTER_OPTIONS
from trailgate.logdump.session.session import Command, Session
from trailgate.trail.format.record_types import ROWS as TYPE_ROWS

TYPES: Final = tuple(row.name for row in TYPE_ROWS)
NAMED: Final = frozenset(("SCANFORTIME", "SCANFORRBA", "SCANFORMETADATA"))  # a table may follow
_OF_TYPES: Final = frozenset(
    name for row in FILTER_OPTIONS if row.arguments.startswith("type") for name in row.names
)
_OF_TABLES: Final = frozenset(
    name for row in FILTER_OPTIONS if row.arguments.startswith("name, ") for name in row.names
)


def offered_words(session: Session, command: Command, rest: str) -> Iterator[str]:
    """Yield the words that may follow a command's name and the rest that is typed, whatever its last word begins with."""
    name = command.names[0]
    earlier = rest.upper().replace(",", " , ").split()
    if rest and not rest[-1].isspace():
        earlier = earlier[:-1]
    if name == "HELP":
        yield from session.commands
    if name == "SCANFORTYPE":
        yield from table_names(session) if "," in earlier else TYPES
    elif name in NAMED and earlier:
        yield from table_names(session)
    elif name == "COUNT" and earlier[-1:] == ["FILE"]:
        yield from table_names(session)
        return
    elif name == "FILTER":
        option = next((word for word in reversed(earlier) if word in _OF_TYPES | _OF_TABLES), "")
        if option:
            yield from TYPES if option in _OF_TYPES else table_names(session)
            return
    yield from command.keywords


def table_names(session: Session) -> list[str]:
    """Return the table names in the open file: those of its metadata, and of its first records."""
    if not session.is_open:
        return []
    trail = session.trail
    names: set[str] = set()
    try:
        names |= {table.name for table in trail.tables(trail.header_length).tables.values()}
        for portion in trail.forward(trail.header_length):
            names |= {portion.names.texts[code] for code in portion.names.used}
            break
    except (TrailgateError, OSError):
        pass  # the damage is reported where the records are read
    return sorted(name for name in names if name)
