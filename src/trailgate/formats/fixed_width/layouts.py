"""Fixed-width records as columns with offsets, whichever notation defines them.

The header and the records that ``fixed.*`` properties name come from a copybook, a definitions file, or the properties themselves. A copybook's columns follow
the one rule of ``definitions/gendef.py``. Those of a definitions file lie at their Fetch Offset for their External Length (capture properties §5.3); those of a
header, and of a table that the properties define, follow each other without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.cobol.copybook.items import FlatColumn, flat_columns
from trailgate.cobol.copybook.layouts import Dialect, Field, Layout, Usage
from trailgate.columnar.code_pages import code_page
from trailgate.definitions.defgen import complete, layout_fault
from trailgate.definitions.gendef import column_of
from trailgate.errors import DefinitionError, Where, did_you_mean
from trailgate.messages.properties import DefinitionFiles, PropertyReader
from trailgate.model.tables import Column, Database, Table
from trailgate.model.types import Family

_PLACES: Final = (
    "A column is at its fetch offset (attribute 4) for its external length (attribute 3); "
    "the record has the record length"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One column, and the field that holds its value, from ``offset`` on."""

    column: Column
    field: Field
    offset: int

    @property
    def end(self) -> int:
        """Return where the field ends."""
        return self.offset + self.field.size

    def move(self, by: int) -> Slot:
        """Return the slot that many units further."""
        return replace(self, offset=self.offset + by)


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The columns of a record and its size; ``defined`` is the table of a definitions file."""

    name: str
    slots: tuple[Slot, ...]
    size: int
    defined: Table | None = None

    def slot(self, name: str) -> Slot:
        """Return the slot of a column, named as the layout names it."""
        return next(slot for slot in self.slots if slot.column.name == name)

    def table(self, carried: Iterable[Slot] = ()) -> Table:
        """Return the table that the record is, with the carried columns of a header first."""
        leading = tuple(slot.column for slot in carried)
        if self.defined is not None and not leading:
            return self.defined
        return complete(Table(self.name, (*leading, *(slot.column for slot in self.slots))))


def from_copybook(layout: Layout, name: str, *, redefines: bool, text_bytes: int) -> RecordLayout:
    """Return a copybook's record; fields that redefine others are columns only if asked for.

    A text of n characters has room for n times ``text_bytes`` in the trail.
    """
    root = layout.root if redefines else _without_redefinitions(layout.root)
    flat = flat_columns(replace(layout, root=root))
    slots = tuple(Slot(_column(column, text_bytes), column.field, column.offset) for column in flat)
    return RecordLayout(name, slots, layout.size)


def _column(flat: FlatColumn, text_bytes: int) -> Column:
    column = column_of(flat)
    if flat.field.usage is not Usage.TEXT or column.family is not Family.TEXT or text_bytes == 1:
        return column
    return replace(column, internal_length=text_bytes * column.external_length)


def _without_redefinitions(field: Field) -> Field:
    kept = tuple(_without_redefinitions(c) for c in field.children if c.redefines is None)
    return replace(field, children=kept)


def from_table(table: Table) -> RecordLayout:
    """Return a table's record as its definition places the columns.

    Raises DefinitionError for a column that overlaps another one or ends after the record.
    """
    slots = tuple(_slot(column, column.fetch_offset) for column in table.columns)
    by_place = sorted(slots, key=lambda slot: slot.offset)
    for slot, after in zip_longest(by_place, by_place[1:]):
        limit = table.record_length if after is None else after.offset
        if slot.end > limit:
            begins = "the record ends" if after is None else f"column {after.column.name} begins"
            problem = f"the column ends at {slot.end}, and {begins} at {limit}"
            where = Where(table=table.name, field=slot.column.name)
            raise DefinitionError(problem, where=where, hint=_PLACES)
    return RecordLayout(table.name, slots, table.record_length, table)


def placement_note(layout: RecordLayout) -> str | None:
    """Return where a definitions file places columns otherwise than Defgen does, or None."""
    fault = None if layout.defined is None else layout_fault(layout.defined)
    if layout.defined is None or fault is None:
        return None
    what = "the record length"
    if fault.column is not None:
        what = f"the offset of {layout.defined.columns[fault.column].name}"
    return (
        f"{layout.name}: {what} is {fault.stated} in the definitions, where Defgen would have "
        f"{fault.computed}; columns are taken where the definitions state them"
    )


def in_a_row(table: Table) -> RecordLayout:
    """Return a table's record whose columns follow each other without gaps."""
    ends = list(accumulate((c.external_length for c in table.columns), initial=0))
    slots = tuple(_slot(c, at) for c, at in zip(table.columns, ends, strict=False))
    return RecordLayout(table.name, slots, ends[-1], table)


def _slot(column: Column, offset: int) -> Slot:
    field = Field(column.name, Usage.TEXT, offset, column.external_length)
    return Slot(column, field, offset)


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
    raise read.missing_error(_SCHEMA_TYPE)


def _of_copybook(read: PropertyReader, files: DefinitionFiles, dialect: Dialect) -> Schema:
    entry = read.entry("copybook")
    if entry is None:
        raise read.missing_error("copybook")
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
        raise read.missing_error("sourcedefs")
    found = read.definitions(files)
    name = _header(read, [table.name for table in found])
    header = in_a_row(found.table(name))
    rest = [table for table in found if table.name != name]
    if not rest:
        raise read.error("no table is defined beside the header", "header")
    try:
        records = tuple(_records(rest, userdefs))
    except DefinitionError as error:
        raise error.with_place(source=files.chosen("" if entry is None else entry.value)) from None
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
