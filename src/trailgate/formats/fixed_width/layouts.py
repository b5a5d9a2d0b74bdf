"""The layouts of fixed-width records: columns with offsets, from any kind of definition.

The header and the records are defined by a copybook, a definitions file, or the properties. A
copybook's columns follow the rules of `definitions/copybook_tables.py`. A definitions file places columns at
their Fetch Offset, with their External Length (capture properties §5.3). The columns of a header,
and of a table defined in the properties, follow each other without gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.cobol.copybook.flat_columns import FlatColumn, flat_columns
from trailgate.cobol.copybook.layouts import CobolDialect, CopybookField, CopybookLayout, Usage
from trailgate.cobol.values.decimals import INT64_DIGITS
from trailgate.columnar.code_pages import code_page
from trailgate.definitions.copybook_tables import column_of
from trailgate.definitions.defgen_layout import complete_table, find_layout_fault
from trailgate.errors import DefinitionError, Where, did_you_mean
from trailgate.messages.property_reader import DefinitionFiles, PropertyReader
from trailgate.model.tables import Column, DatabaseLines, Table
from trailgate.model.types import TypeFamily

_PLACES: Final = (
    "A column starts at its fetch offset (attribute 4) and has its external length (attribute 3); "
    "the record has the record length"
)


_SCHEMA_TYPE: Final = "schematype"
# UTF-8 bytes of a character in multi-byte code pages, such as Shift-JIS or UTF-16.
_WIDEST: Final = 3
_NO_DATABASE: Final = DatabaseLines()


@dataclass(frozen=True, slots=True)
class ColumnSlot:
    """The field of a fixed-width record that contains a column's value.

    It starts at `offset` in the record.
    """

    column: Column
    field: CopybookField
    offset: int

    @property
    def end(self) -> int:
        """The offset after the fixed-width field."""
        return self.offset + self.field.size

    def move(self, by: int) -> ColumnSlot:
        """Return the fixed-width field moved by a number of units (bytes or characters)."""
        return replace(self, offset=self.offset + by)


@dataclass(frozen=True, slots=True)
class ElementCounter:
    """The counter of an OCCURS DEPENDING ON in a fixed-width record.

    `column` is the index of the counter among the columns, and `array` the name of the array. The
    array has at most `most` elements: element i begins at `offset` + i * `stride`.
    """

    column: int
    array: str
    offset: int
    stride: int
    most: int


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The layout of a fixed-width record: its columns and size.

    `defined` is the table definition that the layout was made from, or None if it comes from a
    copybook. `counters` are the counters of OCCURS DEPENDING ON arrays that are not inside another
    array.
    """

    name: str
    slots: tuple[ColumnSlot, ...]
    size: int
    defined: Table | None = None
    counters: tuple[ElementCounter, ...] = ()

    def slot(self, name: str) -> ColumnSlot:
        """Return the fixed-width field of a column. The name must be spelled as in the layout."""
        return next(slot for slot in self.slots if slot.column.name == name)

    def table(self, carried: Iterable[ColumnSlot] = ()) -> Table:
        """Return the fixed-width record's table: `carried` header fields, then its own fields."""
        leading = tuple(slot.column for slot in carried)
        if self.defined is not None and not leading:
            return self.defined
        return complete_table(Table(self.name, (*leading, *(slot.column for slot in self.slots))))


def copybook_layout(
    layout: CopybookLayout, name: str, *, redefines: bool, text_bytes: int
) -> RecordLayout:
    """Create the fixed-width layout of a copybook's record.

    Redefining fields become columns only with `redefines`. In the trail, a text of n characters has
    room for n times `text_bytes` bytes.
    """
    # Removing a field does not move others: offsets are already computed.
    root = layout.root if redefines else _without_redefinitions(layout.root)
    flat = flat_columns(replace(layout, root=root))
    slots = tuple(
        ColumnSlot(_column(column, text_bytes), column.field, column.offset) for column in flat
    )
    return RecordLayout(name, slots, layout.size, counters=tuple(_counters(root, slots)))


def _counters(group: CopybookField, slots: Sequence[ColumnSlot]) -> Iterator[ElementCounter]:
    """Yield the counters of a copybook group's OCCURS DEPENDING ON arrays, except of nested arrays.

    A counter is skipped if it is not an integer of 64 bits, or if several columns have its name.
    """
    for field in group.children:
        occurs = field.occurs
        if occurs is None:
            yield from _counters(field, slots)
        elif occurs.counter is not None:
            name = occurs.counter.upper()
            at = [i for i, slot in enumerate(slots) if slot.field.name.upper() == name]
            if len(at) == 1 and _is_count(slots[at[0]].field):
                stride = field.extent // occurs.most
                yield ElementCounter(at[0], field.name, field.offset, stride, occurs.most)


def _is_count(field: CopybookField) -> bool:
    """Return True if a copybook field can count array elements: it has whole numbers of up to 64 bits."""
    number = field.number
    return number is not None and number.scale == 0 and number.digits <= INT64_DIGITS


def _column(flat: FlatColumn, text_bytes: int) -> Column:
    column = column_of(flat)
    if (
        flat.field.usage is not Usage.TEXT
        or column.family is not TypeFamily.TEXT
        or text_bytes == 1
    ):
        return column
    # Characters stay `external_length`, but need more bytes in the trail.
    return replace(column, internal_length=text_bytes * column.external_length)


def _without_redefinitions(field: CopybookField) -> CopybookField:
    kept = tuple(_without_redefinitions(c) for c in field.children if c.redefines is None)
    return replace(field, children=kept)


def table_layout(table: Table) -> RecordLayout:
    """Create the fixed-width layout of a table with the offsets of its definition.

    Raises DefinitionError if a column overlaps another one or extends past the record.
    """
    slots = tuple(_slot(column, column.fetch_offset) for column in table.columns)
    by_place = sorted(slots, key=lambda slot: slot.offset)
    # Each column must end before the next one begins; `after` is None for the last column.
    for slot, after in zip_longest(by_place, by_place[1:]):
        limit = table.record_length if after is None else after.offset
        if slot.end > limit:
            begins = "the record ends" if after is None else f"column {after.column.name} begins"
            problem = f"the column ends at {slot.end}, but {begins} at {limit}"
            where = Where(table=table.name, field=slot.column.name)
            raise DefinitionError(problem, where=where, hint=_PLACES)
    return RecordLayout(table.name, slots, table.record_length, table)


def placement_note(layout: RecordLayout) -> str | None:
    """Return a warning if a fixed-width layout has other offsets, from a definitions file, than Defgen would write, or None."""
    fault = None if layout.defined is None else find_layout_fault(layout.defined)
    if layout.defined is None or fault is None:
        return None
    what = "the record length"
    if fault.column is not None:
        what = f"the offset of {layout.defined.columns[fault.column].name}"
    return (
        f"{layout.name}: {what} is {fault.stated} in the definitions, but Defgen would have "
        f"{fault.computed}; columns are read where the definitions place them"
    )


def contiguous_layout(table: Table) -> RecordLayout:
    """Create the fixed-width layout of a table whose columns follow each other without gaps."""
    ends = list(accumulate((c.external_length for c in table.columns), initial=0))
    slots = tuple(_slot(c, at) for c, at in zip(table.columns, ends, strict=False))
    return RecordLayout(table.name, slots, ends[-1], table)


def _slot(column: Column, offset: int) -> ColumnSlot:
    field = CopybookField(column.name, Usage.TEXT, offset, column.external_length)
    return ColumnSlot(column, field, offset)


@dataclass(frozen=True, slots=True)
class FixedWidthSchema:
    """The layouts of a fixed-width capture: the header that every record begins with, and the possible records.

    With `binds`, a header field with the name of a metadata value is the source of that value.
    """

    header: RecordLayout
    records: tuple[RecordLayout, ...]
    database: DatabaseLines = _NO_DATABASE
    binds: bool = False


def read_layouts(
    read: PropertyReader, files: DefinitionFiles, dialect: CobolDialect
) -> FixedWidthSchema:
    """Read the layouts of fixed-width headers and records. Raises OptionError or DefinitionError."""
    return _SCHEMAS[_kind(read)](read, files, dialect)


def _kind(read: PropertyReader) -> str:
    """Return the type of a fixed-width schema, "copybook" or "sourcedefs".

    It is the value of `fixed.schematype` if that is set. Otherwise it is the only type whose file
    is set, or "sourcedefs" if tables are defined in the properties. Raises OptionError if this does
    not determine it.
    """
    given = read.text(_SCHEMA_TYPE).casefold()
    if given:
        return given
    named = [kind for kind in _SCHEMAS if read.entry(kind) is not None]
    if not named and read.entry("userdefs.tables") is not None:
        return "sourcedefs"
    if len(named) == 1:
        return named[0]
    raise read.missing_error(_SCHEMA_TYPE)


def _of_copybook(
    read: PropertyReader, files: DefinitionFiles, dialect: CobolDialect
) -> FixedWidthSchema:
    entry = read.entry("copybook")
    if entry is None:
        raise read.missing_error("copybook")
    layouts = _by_name(files.copybook(entry.value, dialect), entry.value)
    userdefs = {table.name: table for table in read.userdefs()}
    name = _header(read, [*layouts, *userdefs])
    width = _text_bytes(read, dialect.code_page)
    if name in userdefs:
        header = contiguous_layout(userdefs[name])
    else:
        header = _from_copybook(read, layouts.pop(name), name, width)
    if not layouts:
        raise read.error(f"{entry.value} has no record besides the header", "copybook")
    schema = read.text("schema").strip('"')
    # Tables are named SCHEMA.RECORD, the header only by its record.
    prefix = f"{schema}." if schema else ""
    records = (_from_copybook(read, layouts[name], prefix + name, width) for name in layouts)
    return FixedWidthSchema(header, tuple(records), binds=name in userdefs)


def _by_name(layouts: Iterable[CopybookLayout], source: str) -> dict[str, CopybookLayout]:
    by_name: dict[str, CopybookLayout] = {}
    for layout in layouts:
        if by_name.setdefault(layout.name, layout) is not layout:
            where = Where(source=source)
            raise DefinitionError(f"two records are named {layout.name}", where=where)
    return by_name


def _from_copybook(
    read: PropertyReader, layout: CopybookLayout, name: str, text_bytes: int
) -> RecordLayout:
    if read.text("depending").casefold() == "last":
        _check_depending(layout)
    redefines = read.text("redefines").casefold() == "include"
    return copybook_layout(layout, name, redefines=redefines, text_bytes=text_bytes)


def _text_bytes(read: PropertyReader, name: str) -> int:
    """Return the maximum number of UTF-8 bytes per character of a fixed-width text field.

    It depends on the code page `name`, but the property `fixed.textbytes` takes precedence. For
    messages in UTF-8 it is 1 by default, as if they were ASCII, so that CHAR(n) stays n bytes.
    """
    given, page = read.text("textbytes"), code_page(name)
    if given:
        return int(given)
    if page.name == "utf-8":
        return 1
    # Decode each of the 256 bytes by itself: the longest result decides. In multi-byte pages none
    # may be valid.
    characters = page.decode(np.arange(256, dtype=np.uint8)[:, None]).values
    widest: int | None = pc.max(pc.binary_length(characters)).as_py()
    return widest or _WIDEST


def _check_depending(layout: CopybookLayout) -> None:
    """Raise DefinitionError if a copybook record has fields after an OCCURS DEPENDING ON.

    Compilers disagree on whether such fields move.
    """
    for field in layout.root.walk():
        varies = field.occurs is not None and field.occurs.counter is not None
        if varies and field.offset + field.extent < layout.size:
            problem = f"{field.name} occurs depending on a field and is not last in its record"
            where = Where(table=layout.name, field=field.name)
            hint = "If what follows it does not move, set fixed.depending=most"
            raise DefinitionError(problem, where=where, hint=hint)


def _of_sourcedefs(
    read: PropertyReader, files: DefinitionFiles, _: CobolDialect
) -> FixedWidthSchema:
    userdefs = read.userdefs()
    entry = read.entry("sourcedefs")
    if entry is None and not userdefs:
        raise read.missing_error("sourcedefs")
    definitions = read.definitions(files)
    name = _header(read, [table.name for table in definitions])
    header = contiguous_layout(definitions.table(name))
    rest = [table for table in definitions if table.name != name]
    if not rest:
        raise read.error("no table is defined besides the header", "header")
    try:
        records = tuple(_records(rest, userdefs))
    except DefinitionError as error:
        raise error.with_place(source=files.chosen("" if entry is None else entry.value)) from None
    return FixedWidthSchema(header, records, definitions.database, binds=True)


def _records(tables: Iterable[Table], userdefs: tuple[Table, ...]) -> Iterable[RecordLayout]:
    names = {table.name for table in userdefs}
    return (
        contiguous_layout(table) if table.name in names else table_layout(table) for table in tables
    )


def _header(read: PropertyReader, names: list[str]) -> str:
    """Return the name of the record or table that is the fixed-width header (`fixed.header`).

    It is spelled as in `names`. Raises OptionError if it is not one of them.
    """
    wanted = read.required("header", str)
    folded = {name.casefold(): name for name in names}
    if wanted.casefold() in folded:
        return folded[wanted.casefold()]
    hint = did_you_mean(wanted, names) or f"There are {', '.join(names) or 'none'}"
    raise read.error(f"no record or table {wanted} is defined", "header", hint)


_SCHEMAS: Final[
    Mapping[str, Callable[[PropertyReader, DefinitionFiles, CobolDialect], FixedWidthSchema]]
] = MappingProxyType({"copybook": _of_copybook, "sourcedefs": _of_sourcedefs})
