"""The header and the records that ``fixed.*`` properties name: from a copybook, a definitions file, or themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.cobol.copybook.dialect import Dialect
from trailgate.cobol.copybook.layouts import Layout
from trailgate.columnar.code_pages.registry import code_page
from trailgate.errors import DefinitionError, Where, did_you_mean
from trailgate.messages.fixed_width.layouts import RecordLayout, from_copybook, from_table, in_a_row
from trailgate.messages.properties.definition_files import DefinitionFiles, with_userdefs
from trailgate.messages.properties.reader import PropertyReader
from trailgate.model.tables import Database, Table

_SCHEMA_TYPE: Final = "schematype"
_WIDEST: Final = 3  # of characters beyond single bytes, as in Shift-JIS or UTF-16
_NO_DATABASE: Final = Database()


@dataclass(frozen=True, slots=True)
class Schema:
    """What records look like: the header that each begins with, and what may follow.

    ``binds`` means that a header field with the name of a metadata item is that item.
    """

    header: RecordLayout
    records: tuple[RecordLayout, ...]
    database: Database = _NO_DATABASE
    binds: bool = False


def read_schema(read: PropertyReader, files: DefinitionFiles, dialect: Dialect) -> Schema:
    """Return the layouts of header and records; raises OptionError or DefinitionError."""
    return _SCHEMAS[_kind(read)](read, files, dialect)


def _kind(read: PropertyReader) -> str:
    """Return the schema type: the one given, or the one whose file alone is named."""
    given = read.text(_SCHEMA_TYPE).casefold()
    if given:
        return given
    named = [kind for kind in _SCHEMAS if read.entry(kind) is not None]
    if not named and read.entry("userdefs.tables") is not None:
        return "sourcedefs"
    if len(named) == 1:
        return named[0]
    raise read.required(_SCHEMA_TYPE)


def _of_copybook(read: PropertyReader, files: DefinitionFiles, dialect: Dialect) -> Schema:
    entry = read.entry("copybook")
    if entry is None:
        raise read.required("copybook")
    found = _by_name(files.copybook(entry.value, dialect), entry.value)
    own = {table.name: table for table in read.userdefs()}
    name = _header(read, [*found, *own])
    width = _text_bytes(read, dialect.code_page)
    if name in own:
        header = in_a_row(own[name])
    else:
        header = _from_copybook(read, found.pop(name), name, width)
    if not found:
        raise read.error(f"{entry.value} has no record beside the header", "copybook")
    schema = read.text("schema").strip('"')
    prefix = f"{schema}." if schema else ""
    records = (_from_copybook(read, found[name], prefix + name, width) for name in found)
    return Schema(header, tuple(records), binds=name in own)


def _by_name(layouts: Iterable[Layout], source: str) -> dict[str, Layout]:
    found: dict[str, Layout] = {}
    for layout in layouts:
        if found.setdefault(layout.name, layout) is not layout:
            where = Where(source=source)
            raise DefinitionError(f"two records are named {layout.name}", where=where)
    return found


def _from_copybook(
    read: PropertyReader, layout: Layout, name: str, text_bytes: int
) -> RecordLayout:
    if read.text("depending").casefold() == "last":
        _check_depending(layout)
    redefines = read.text("redefines").casefold() == "include"
    return from_copybook(layout, name, redefines=redefines, text_bytes=text_bytes)


def _text_bytes(read: PropertyReader, name: str) -> int:
    """Return how many bytes of UTF-8 a character may need: as given, or what the page's widest needs.

    Messages in UTF-8 are taken for ASCII here, so that CHAR(n) stays n bytes.
    """
    given, page = read.text("textbytes"), code_page(name)
    if given:
        return int(given)
    if page.name == "utf-8":
        return 1
    characters = page.decode(np.arange(256, dtype=np.uint8)[:, None]).values
    widest: int | None = pc.max(pc.binary_length(characters)).as_py()
    return widest or _WIDEST


def _check_depending(layout: Layout) -> None:
    """Refuse fields after a varying one, since compilers differ in whether they move with it."""
    for field in layout.root.walk():
        varies = field.occurs is not None and field.occurs.counter is not None
        if varies and field.offset + field.extent < layout.size:
            problem = f"{field.name} occurs depending on a field and is not last in its record"
            where = Where(table=layout.name, field=field.name)
            hint = "If what follows it does not move, set fixed.depending=most"
            raise DefinitionError(problem, where=where, hint=hint)


def _of_sourcedefs(read: PropertyReader, files: DefinitionFiles, _: Dialect) -> Schema:
    userdefs = read.userdefs()
    entry = read.entry("sourcedefs")
    if entry is None and not userdefs:
        raise read.required("sourcedefs")
    found = with_userdefs(read, files, "" if entry is None else entry.value, userdefs)
    name = _header(read, [table.name for table in found])
    header = in_a_row(found.table(name))
    rest = [table for table in found if table.name != name]
    if not rest:
        raise read.error("no table is defined beside the header", "header")
    try:
        records = tuple(_records(rest, userdefs))
    except DefinitionError as error:
        raise error.located(source=files.chosen("" if entry is None else entry.value)) from None
    return Schema(header, records, found.database, binds=True)


def _records(tables: Iterable[Table], userdefs: tuple[Table, ...]) -> Iterable[RecordLayout]:
    own = {table.name for table in userdefs}
    return (in_a_row(table) if table.name in own else from_table(table) for table in tables)


def _header(read: PropertyReader, names: list[str]) -> str:
    """Return the name of the header among those of all records."""
    wanted = read.given("header", str)
    folded = {name.casefold(): name for name in names}
    if wanted.casefold() in folded:
        return folded[wanted.casefold()]
    hint = did_you_mean(wanted, names) or f"There are {', '.join(names) or 'none'}"
    raise read.error(f"no record or table {wanted} is defined", "header", hint)


_SCHEMAS: Final[Mapping[str, Callable[[PropertyReader, DefinitionFiles, Dialect], Schema]]] = (
    MappingProxyType({"copybook": _of_copybook, "sourcedefs": _of_sourcedefs})
)
