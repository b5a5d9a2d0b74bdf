"""The options of fixed-width messages: the `fixed.*` properties, and the layouts that they name.

Layouts are read first (`layouts.py`), because metadata properties refer to fields of the header.
Header fields that are not used as metadata are *carried*: they become the first columns of every
record's table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeVar

import numpy as np

from trailgate.cobol.copybook.conditional_text import read_constants
from trailgate.cobol.copybook.layouts import (
    BinarySizes,
    CobolDialect,
    Endian,
    FloatFormat,
    SignRules,
    SourceFormat,
)
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.values.codec import BlankPolicy, RawRepresentation, ValueOptions
from trailgate.columnar.code_pages import code_page
from trailgate.columnar.temporal import DateFormat, compile_format
from trailgate.errors import OptionError, TrailgateError
from trailgate.formats.fixed_width.layouts import (
    ColumnSlot,
    FixedWidthSchema,
    RecordLayout,
    placement_note,
    read_layouts,
)
from trailgate.formats.fixed_width.values import field_reader
from trailgate.messages.metadata_options import MetadataOptions, read_metadata_options
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import (
    DefinitionFiles,
    HeaderFields,
    PropertyReader,
    ValueSource,
    parse_names,
    parse_source,
)
from trailgate.messages.property_rows import SourceKind
from trailgate.model.tables import Definitions, Table

E = TypeVar("E", bound=Enum)
_MOST_LENGTH: Final = 1 << 31  # more bytes than a batch of messages can have


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedWidthOptions(MetadataOptions):
    """How fixed-width messages are read. `docs/properties.md` describes each property.

    `carried` are the header fields that are not metadata; they are the first columns of every
    record. Without a `framing` each message is one record.
    """

    header: RecordLayout
    carried: tuple[ColumnSlot, ...]
    records: tuple[RecordLayout, ...]
    framing: Framing | None
    values: ValueOptions

    @property
    def notes(self) -> frozenset[str]:
        """Warnings about definitions files whose column offsets are not those that Defgen would write."""
        return frozenset(note for layout in self.records if (note := placement_note(layout)))


def fixed_width_setup(
    properties: Properties, files: DefinitionFiles
) -> tuple[FixedWidthOptions, Definitions]:
    """Read the options of fixed-width messages with their layouts, and the tables of the records."""
    read = PropertyReader(properties, "fixed")
    values = _values(read)
    schema = read_layouts(read, files, values.dialect)
    # Fail for an unreadable field before the first message, not at it.
    for layout in (schema.header, *schema.records):
        _check_readable(layout, values)
    options = _options(read, schema, values)
    tables = (_table_of(record, options.carried, schema.header.name) for record in schema.records)
    return options, Definitions(tuple(tables), schema.database)


def _options(
    read: PropertyReader, schema: FixedWidthSchema, values: ValueOptions
) -> FixedWidthOptions:
    header = schema.header
    names = tuple(slot.column.name for slot in header.slots)
    fields = HeaderFields(names, f"the header {header.name}")
    # Metadata properties name fields of the header, or bind to them by name.
    read = replace(read, header=fields, binding=schema.binds)
    options = read_metadata_options(read, lambda name: _code(read, name, values.dialect.code_page))
    options |= {"schemaandtable": None, "table": _table(read), "schema": _schema(read)}
    options["timestamp_format"] = _timestamp_format(options, header)
    return FixedWidthOptions(
        header=header,
        carried=_carry(header, _metadata_fields(options.values())),
        records=schema.records,
        framing=_framing(read),
        values=values,
        **options,
    )


def _check_readable(layout: RecordLayout, values: ValueOptions) -> None:
    """Check that every field of a fixed-width layout can be read, before any message is read.

    Raises the field's error.
    """
    for slot in layout.slots:
        try:
            field_reader(slot, values)
        except TrailgateError as error:
            raise error.with_place(table=layout.name, field=slot.column.name) from None


def _values(read: PropertyReader) -> ValueOptions:
    page = read.text("codepage")
    try:
        code_page(page)
    except OptionError as error:
        raise read.error(error.problem, "codepage", error.hint) from None
    dialect = CobolDialect(
        source_format=_choice(read, "copybook.format", SourceFormat),
        code_page=page,
        binary=_choice(read, "binary", Endian),
        native=_choice(read, "native", Endian),
        binary_sizes=_choice(read, "binarysizes", BinarySizes),
        floats=_choice(read, "floats", FloatFormat),
        signs=_choice(read, "signs", SignRules),
        constants=_constants(read),
    )
    return ValueOptions(
        dialect, blank=_choice(read, "blank", BlankPolicy), raw=RawRepresentation.HEX
    )


def _constants(read: PropertyReader) -> tuple[tuple[str, str], ...]:
    try:
        return read_constants(read.text("constants"))
    except ValueError:
        raise read.error("expected NAME=VALUE or NAME=OFF", "constants") from None


def _choice(read: PropertyReader, name: str, kind: type[E]) -> E:
    return kind(read.text(name).casefold())


def _framing(read: PropertyReader) -> Framing | None:
    """Return how fixed-width messages are cut into records, or None if each message is one record.

    Raises OptionError if properties contradict each other.
    """
    entry = read.entry("recordlength")
    length = 0 if entry is None else read.parse(entry, _length)
    kind = read.text("records").casefold() or ("length" if length else "line")
    # Exactly one of both is set.
    if (kind == "length") != bool(length):
        problem = "fixed.recordlength and fixed.records=length must be set together"
        raise read.error(problem, "records")
    delimiter = read.byte_string("linedelim")
    if delimiter is not None and kind != "line":
        raise read.error("fixed.linedelim needs fixed.records=line", "linedelim")
    if kind == "message":
        return None
    if kind == "length":
        return Framing(FrameKind.FIXED, length)
    return Framing(FrameKind.LINE, delimiter=delimiter or b"\n", returns=delimiter is None)


def _length(value: str) -> int:
    if not value.isascii() or not value.isdecimal() or not 0 < int(value) < _MOST_LENGTH:
        raise OptionError(f"expected a length, found {value!r}")
    return int(value)


def _code(read: PropertyReader, name: str, page: str) -> bytes:
    r"""Return the operation code or transaction indicator that a `fixed.*` property states, as UTF-8.

    `\xHH` in the property is a byte of the code page `page`. Surrounding blanks are removed.
    """
    value, entry = read.required_bytes(name), read.entry(name)
    # Literal text is compared in UTF-8, but \xHH is in the code page of the messages.
    if entry is not None and "\\x" in entry.value:
        row = np.frombuffer(value, np.uint8)[None, :]
        text = code_page(page).decode(row).values[0].as_py()
        value = value if text is None else text.encode()
    return value.strip(b" ")


def _table(read: PropertyReader) -> tuple[ValueSource, ...]:
    """Return the sources whose strings, joined, are the name of a fixed-width record's table."""
    entry = read.entry("table")
    if entry is None:
        return (read.required_source("table", "schemaandtable"),)
    allowed = (SourceKind.FIELD, SourceKind.HEADER)
    return read.parse(
        entry,
        lambda value: tuple(parse_source(v, allowed, read.header) for v in parse_names(value)),
    )


def _schema(read: PropertyReader) -> ValueSource | None:
    name = read.text("schema").strip('"')
    return ValueSource(SourceKind.LITERAL, name) if name else None


def _timestamp_format(options: dict[str, object], header: RecordLayout) -> DateFormat | None:
    """Return the date format of commit times in fixed-width headers, or None if it is not set.

    It is that of the property, or else of the DATEFORMAT comment before the header field in the
    copybook.
    """
    given, source = options["timestamp_format"], options["timestamp"]
    assert given is None or isinstance(given, DateFormat)
    assert isinstance(source, ValueSource)
    if given or source.kind is not SourceKind.FIELD:
        return given
    # A DATEFORMAT comment in the copybook.
    commented = header.slot(source.name).field.date_format
    if not commented:
        return None
    origin = f"the comment before {source.name} in the copybook"
    return replace(compile_format(commented), origin=origin)


def _metadata_fields(values: Iterable[object]) -> set[str]:
    """Return the names of the fixed-width header fields that are sources of metadata.

    `values` are all options.
    """
    names = set()
    for value in values:
        for source in value if isinstance(value, tuple) else (value,):
            if isinstance(source, ValueSource) and source.kind is SourceKind.FIELD:
                names.add(source.name)
    return names


def _carry(header: RecordLayout, mapped: set[str]) -> tuple[ColumnSlot, ...]:
    return tuple(slot for slot in header.slots if slot.column.name not in mapped)


def _table_of(record: RecordLayout, carried: tuple[ColumnSlot, ...], header: str) -> Table:
    """Return the table of a fixed-width record: the carried header fields, then the record's fields.

    A carried header field with the name of a record field gets the header's name as prefix.
    """
    own = {slot.column.name.casefold() for slot in record.slots}

    def qualify(slot: ColumnSlot) -> ColumnSlot:
        if slot.column.name.casefold() not in own:
            return slot
        return replace(slot, column=replace(slot.column, name=f"{header}_{slot.column.name}"))

    return record.table(map(qualify, carried))
