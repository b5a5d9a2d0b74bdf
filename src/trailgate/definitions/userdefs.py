"""Read tables that are defined in the properties themselves (``delim.userdefs.*``).

capture properties §5.3 documents them for fixed-width messages; that they also apply to delimited
messages is inferred. For example::

    delim.userdefs.tables=GG.ORDERS
    delim.userdefs.GG.ORDERS.columns=ID,NAME
    delim.userdefs.GG.ORDERS.ID=vchar 10 key
    delim.userdefs.GG.ORDERS.NAME=vchar 40
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from trailgate.definitions.defgen import CONTROL
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import OptionError, Where, did_you_mean
from trailgate.model.tables import Column, Table

USERDEFS: Final = "delim.userdefs."
_TABLES: Final = "tables"
_COLUMNS: Final = "columns"
_TEXT: Final = 64  # the type code of text of varying length
_MOST_TEXT: Final = 65535  # the maximum of the two length bytes of such a column
# HR."My Table" has the parts HR and "My Table". A table has two or three of them.
_PART: Final = re.compile(r'"[^"]+"|[^."<>\s]+')
_TABLE_NAME: Final = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern})){{1,2}}")
# vchar 80, or vchar 10 key
_VCHAR: Final = re.compile(r"vchar[ \t]+([0-9]{1,9})([ \t]+key)?", re.IGNORECASE)

Parts = tuple[str, ...]


class PropertyLine(Protocol):
    """A property in a properties file: its name as written, its value, and its line number."""

    @property
    def written(self) -> str:
        """The property's name as written."""

    @property
    def value(self) -> str:
        """The property's value."""

    @property
    def line(self) -> int:
        """The property's line number, from 1."""


@dataclass(slots=True)
class _Layout:
    """A table defined in properties, while its properties are collected.

    ``columns`` is the property that lists its columns, and ``types`` has the property of each
    column's type, by the column's name in lower case.
    """

    name: str
    columns: PropertyLine | None
    types: dict[str, PropertyLine]


def read_userdefs(properties: Iterable[PropertyLine], prefix: str = USERDEFS) -> tuple[Table, ...]:
    """Read the tables that a properties file defines itself, in the order of their list.

    Other properties are ignored. The word ``key`` after a column's type marks it as a key; this is
    an extension, because no property for it is documented. Raises OptionError with line and
    property.
    """
    entries = [entry for entry in properties if entry.written.startswith(prefix)]
    listing = next((entry for entry in entries if entry.written == prefix + _TABLES), None)
    layouts = {} if listing is None else _list(listing)
    for entry in entries:
        if entry is not listing:
            _sort_in(entry, layouts, prefix)
    tables = []
    for layout in layouts.values():
        if layout.columns is None:
            problem = f"{prefix}{layout.name}.{_COLUMNS} is required"
            raise _error(problem, listing)
        tables.append(_table(layout, layout.columns))
    return tuple(tables)


def _list(listing: PropertyLine) -> dict[Parts, _Layout]:
    """Parse the property ``userdefs.tables``, the list of tables.

    Returns for each table a layout without columns, by the parts of its name in lower case.
    """
    layouts: dict[Parts, _Layout] = {}
    for name in _names(listing):
        if not _TABLE_NAME.fullmatch(name) or CONTROL.search(name):
            raise _error(f"expected a table name such as SCHEMA.TABLE, found {name!r}", listing)
        parts = _parts(name)
        if _fold(parts) in layouts:
            raise _error(f"{name} is named twice", listing)
        layouts[_fold(parts)] = _Layout(_join(parts), None, {})
    return layouts


def _sort_in(entry: PropertyLine, layouts: Mapping[Parts, _Layout], prefix: str) -> None:
    """Add a userdefs property to the layout of its table.

    After the prefix, its name is that of the table, then a column or the word ``columns``: in
    ``GG.ORDERS.ID`` the column is ID. Raises OptionError if the table is not listed.
    """
    written = _PART.findall(entry.written[len(prefix) :])
    parts = _parts(entry.written[len(prefix) :])
    layout = layouts.get(_fold(parts[:-1]))
    if layout is None:
        table, known = _join(parts[:-1]), [layout.name for layout in layouts.values()]
        hint = did_you_mean(table, known) or f"Name it in {prefix}{_TABLES}"
        raise _error(f"table {table} is not listed in {prefix}{_TABLES}", entry, hint)
    # In quotes, "columns" is a column of that name.
    if written[-1].casefold() == _COLUMNS:
        layout.columns = entry
        return
    column = parts[-1].casefold()
    if column in layout.types:
        raise _error(f"{layout.name}.{parts[-1]} has a type already", entry)
    layout.types[column] = entry


def _table(layout: _Layout, listing: PropertyLine) -> Table:
    """Build a table that a properties file defines itself.

    Raises OptionError if a column has no type, or is not listed.
    """
    columns: dict[str, Column] = {}
    for written in _names(listing):
        if not _PART.fullmatch(written) or CONTROL.search(written):
            problem = f"expected a column name, found {written!r}"
            raise _error(problem, listing, "Put a name with dots or blanks in double quotes")
        name = written.strip('"')
        if name.casefold() in columns:
            raise _error(f"{name} is named twice", listing)
        entry = layout.types.get(name.casefold())
        if entry is None:
            typed = [_parts(entry.written)[-1] for entry in layout.types.values()]
            hint = (
                did_you_mean(name, typed)
                or f"Add {listing.written.rpartition('.')[0]}.{written}=vchar N"
            )
            raise _error(f"column {name} of {layout.name} has no type", listing, hint)
        columns[name.casefold()] = _column(name, entry)
    for folded, entry in layout.types.items():
        if folded not in columns:
            name = _parts(entry.written)[-1]
            hint = did_you_mean(name, [column.name for column in columns.values()])
            raise _error(f"column {name} is not listed in {listing.written}", entry, hint)
    return complete_table(Table(layout.name, tuple(columns.values())))


def _column(name: str, entry: PropertyLine) -> Column:
    match = _VCHAR.fullmatch(entry.value)
    if match is None:
        hint = (
            "Only vchar N is documented for columns in properties; vchar N key marks a key column"
        )
        raise _error(f"expected the type vchar N, found {entry.value!r}", entry, hint)
    length = int(match.group(1))
    if not 1 <= length <= _MOST_TEXT:
        raise _error(f"expected a length of 1 to {_MOST_TEXT}, found {length}", entry)
    return Column(name, _TEXT, length, key=match.group(2) is not None)


def _names(entry: PropertyLine) -> list[str]:
    names = [name.strip() for name in entry.value.split(",")]
    if not all(names):
        raise _error("a name is empty", entry)
    return names


def _parts(name: str) -> Parts:
    return tuple(part.strip('"') for part in _PART.findall(name))


def _fold(parts: Parts) -> Parts:
    return tuple(part.casefold() for part in parts)


def _join(parts: Parts) -> str:
    return ".".join(f'"{part}"' if "." in part else part for part in parts)


def _error(problem: str, entry: PropertyLine | None, hint: str = "") -> OptionError:
    where = Where() if entry is None else Where(line=entry.line, field=entry.written)
    return OptionError(problem, where=where, hint=hint)
