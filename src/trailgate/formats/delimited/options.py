"""The options of the delimited parser: the `delim.*` properties, typed and checked against each other."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from trailgate.columnar.temporal import DateFormat
from trailgate.messages.metadata_options import MetadataOptions, read_metadata_options
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import (
    DefinitionFiles,
    HeaderFields,
    Lookup,
    PropertyReader,
    bytes_for_error,
    configured_format,
    parse_names,
)
from trailgate.messages.property_rows import SourceKind
from trailgate.model.tables import Definitions, Table

_DATE_FORMAT: Final = "delim.dateformat"
# Like the parts of a table name: HR."My.Table" has HR and "My.Table".
_PART: Final = re.compile(r'"[^"]+"|[^."]+')


@dataclass(frozen=True, slots=True, kw_only=True)
class DelimitedOptions(MetadataOptions):
    """How delimited messages are read. `docs/properties.md` describes each property."""

    sourcedefs: str
    header: tuple[str, ...]
    fielddelim: bytes
    linedelim: bytes
    quote: bytes | None
    nullindicator: bytes | None
    fielddelim_escaped: bytes | None
    linedelim_escaped: bytes | None
    quote_escaped: bytes | None
    nullindicator_escaped: bytes | None
    hasbefores: bool
    hasnames: bool
    afterfirst: bool
    isgrouped: bool
    date_format: DateFormat | None
    table_date_formats: Lookup[str, DateFormat]
    column_date_formats: Lookup[tuple[str, str], DateFormat]
    userdefs: tuple[Table, ...] = ()

    @property
    def repeated_fields(self) -> tuple[int, ...]:
        """The positions of the header fields of which many records have the same value: type, table, indicator and time."""
        tables = (self.schemaandtable, self.schema, *self.table)
        sources = (self.optype, self.txind, *tables, self.timestamp)
        names = (one.name for one in sources if one and one.kind is SourceKind.FIELD)
        return tuple(map(self.header.index, names))


def delimited_options(properties: Properties) -> DelimitedOptions:
    """Read the options of the delimited parser. Raises OptionError that names line and property."""
    read = PropertyReader(properties, "delim")
    names = read.required("header", parse_names)
    # From here on, metadata properties may name the header's fields.
    read = replace(read, header=HeaderFields(names, "delim.header"))
    rest: dict[str, Any] = {**read_metadata_options(read), **_tokens(read), **_switches(read)}
    table = read.source("table")
    of_tables, of_columns = _date_formats(properties)
    options = DelimitedOptions(
        sourcedefs=_sourcedefs(read),
        header=names,
        schemaandtable=read.source("schemaandtable"),
        schema=read.source("schema"),
        table=() if table is None else (table,),
        date_format=read.date_format("dateformat"),
        table_date_formats=of_tables,
        column_date_formats=of_columns,
        userdefs=read.userdefs(),
        **rest,
    )
    _check_table(read, options)
    _check_delimiters(properties, options)
    return options


def delimited_setup(
    properties: Properties, files: DefinitionFiles
) -> tuple[DelimitedOptions, Definitions]:
    """Read the `delim.*` properties: the options of delimited messages, and the tables that they or the definitions file define."""
    options = delimited_options(properties)
    return options, PropertyReader(properties, "delim").definitions(files, needed=False)


def _tokens(read: PropertyReader) -> dict[str, bytes | None]:
    names = ("fielddelim", "linedelim", "quote", "nullindicator")
    escapes = {f"{name}_escaped": read.byte_string(f"{name}.escaped") for name in names}
    return {name: read.byte_string(name) for name in names} | escapes


def _switches(read: PropertyReader) -> dict[str, bool]:
    names = ("hasbefores", "hasnames", "afterfirst", "isgrouped")
    return {name: read.text(name).casefold() == "true" for name in names}


def _sourcedefs(read: PropertyReader) -> str:
    entry = read.entry("sourcedefs")
    if entry is not None:
        return entry.value
    # One of the two must define the tables.
    if read.entry("userdefs.tables") is None:
        hint = "Or define the tables here: delim.userdefs.tables"
        raise read.error("delim.sourcedefs is required", "sourcedefs", hint)
    return ""


def _check_table(read: PropertyReader, options: DelimitedOptions) -> None:
    if options.schemaandtable is None and not options.table:
        raise read.properties.error("delim.schemaandtable or delim.table is required")
    if options.schemaandtable is not None and options.table:
        problem = "delim.table and delim.schemaandtable both name the table"
        raise read.error(problem, "table", "Omit one of them")


def _check_delimiters(properties: Properties, options: DelimitedOptions) -> None:
    named: dict[bytes, str] = {}
    for name in ("fielddelim", "linedelim", "quote", "nullindicator"):
        value = getattr(options, name)
        if value is None:
            continue
        if value in named:
            problem = f"delim.{name} and delim.{named[value]} are both {bytes_for_error(value)}"
            entry = properties.get(f"delim.{name}") or properties.get(f"delim.{named[value]}")
            raise properties.error(problem, entry)
        named[value] = name


def _date_formats(
    properties: Properties,
) -> tuple[Lookup[str, DateFormat], Lookup[tuple[str, str], DateFormat]]:
    """Read `delim.dateformat.SCHEMA.TABLE` and `delim.dateformat.SCHEMA.TABLE.COLUMN`.

    Returns the date formats by table, and those by (table, column).
    """
    prefix = _DATE_FORMAT + "."
    tables, columns = [], []
    for entry in properties.entries:
        if entry.name.startswith(prefix):
            # SCHEMA.TABLE or SCHEMA.TABLE.COLUMN; names may be quoted.
            parts = [part.strip('"') for part in _PART.findall(entry.name[len(prefix) :])]
            form, table = configured_format(properties, entry), ".".join(parts[:2])
            if len(parts) == 2:
                tables.append((table, form))
            elif len(parts) == 3:
                columns.append(((table, parts[2]), form))
    return Lookup(tuple(tables)), Lookup(tuple(columns))
