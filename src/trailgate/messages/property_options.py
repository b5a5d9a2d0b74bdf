"""What the delimited parser is told: the ``delim.*`` properties, typed and checked together."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from trailgate.definitions.userdefs import userdefs
from trailgate.errors import OptionError
from trailgate.messages.property_file import Entry, Properties
from trailgate.messages.property_table import row_of
from trailgate.messages.property_values import (
    Lookup,
    Source,
    parse_bytes,
    parse_names,
    parse_source,
)
from trailgate.model.tables import Table

T = TypeVar("T")

_OP_TYPES: Final = (("insert", "I"), ("update", "U"), ("delete", "D"), ("truncate", "T"))
_TX_INDICATORS: Final = (("begin", "B"), ("middle", "M"), ("end", "E"), ("whole", "W"))
_DATE_FORMAT: Final = "delim.dateformat"
_PART: Final = re.compile(r'"[^"]+"|[^."]+')
_JAVA_CLASS: Final = re.compile(r"[a-z_][\w$]*(\.[\w$]+)*\.[A-Z][\w$]*")


@dataclass(frozen=True, slots=True)
class DelimitedOptions:
    """How delimited messages are read; see ``docs/properties.md`` for each property."""

    sourcedefs: str
    header: tuple[str, ...]
    seqid: Source
    timestamp: Source
    timestamp_format: str | None
    txid: Source
    txowner: Source | None
    txname: Source | None
    optype: Source
    optype_values: Lookup[bytes, str]
    schemaandtable: Source | None
    schema: Source | None
    table: Source | None
    txind: Source | None
    txind_values: Lookup[bytes, str]
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
    date_format: str | None
    table_date_formats: Lookup[str, str]
    column_date_formats: Lookup[tuple[str, str], str]
    message_id: str | None
    userdefs: tuple[Table, ...] = ()


def delimited_options(properties: Properties) -> DelimitedOptions:
    """Return the options of the delimited parser; raises OptionError that names line and property."""
    _check_parser(properties)
    read = _Reader(properties)
    header = read.given("delim.header", parse_names)
    optional = {
        name: read.source(name, header)
        for name in ("txowner", "txname", "schemaandtable", "schema", "table", "txind")
    }
    delimiters = {name: read.token(f"delim.{name}") for name in ("quote", "nullindicator")}
    escapes = {
        f"{name}_escaped": read.token(f"delim.{name}.escaped")
        for name in ("fielddelim", "linedelim", "quote", "nullindicator")
    }
    switches = {
        name: read.text(f"delim.{name}", "false").casefold() == "true"
        for name in ("hasbefores", "hasnames", "afterfirst", "isgrouped")
    }
    rest: dict[str, Any] = {**optional, **delimiters, **escapes, **switches}
    options = DelimitedOptions(
        sourcedefs=_sourcedefs(properties),
        header=header,
        seqid=read.needed_source("seqid", header),
        timestamp=read.needed_source("timestamp", header),
        timestamp_format=read.text("delim.timestamp.format") or None,
        txid=read.needed_source("txid", header),
        optype=read.needed_source("optype", header),
        optype_values=read.values("delim.optype", _OP_TYPES),
        txind_values=read.values("delim.txind", _TX_INDICATORS),
        fielddelim=read.needed_bytes("delim.fielddelim"),
        linedelim=read.needed_bytes("delim.linedelim"),
        date_format=read.text(_DATE_FORMAT) or None,
        table_date_formats=Lookup(tuple(_table_formats(properties))),
        column_date_formats=Lookup(tuple(_column_formats(properties))),
        message_id=_message_id(properties),
        userdefs=_userdefs(properties),
        **rest,
    )
    _check_table(properties, options)
    _check_delimiters(properties, options)
    return options


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes properties by name and type, and places errors at them."""

    properties: Properties

    def given(self, name: str, parse: Callable[[str], T]) -> T:
        entry = self.properties.get(name)
        if entry is None:
            raise self.properties.error(f"{name} is required")
        return self._parsed(entry, parse)

    def text(self, name: str, default: str = "") -> str:
        entry = self.properties.get(name)
        return default if entry is None else entry.value

    def source(self, name: str, header: tuple[str, ...]) -> Source | None:
        row = row_of(f"delim.{name}")
        assert row is not None
        entry = self.properties.get(row.name)
        if entry is None:
            return parse_source(row.default, row.sources, header) if row.default else None
        return self._parsed(entry, lambda value: parse_source(value, row.sources, header))

    def needed_source(self, name: str, header: tuple[str, ...]) -> Source:
        source = self.source(name, header)
        if source is None:
            raise self.properties.error(f"delim.{name} is required")
        return source

    def token(self, name: str) -> bytes | None:
        row = row_of(name)
        assert row is not None
        entry = self.properties.get(name)
        if entry is None:
            return parse_bytes(row.default) if row.default else None
        return self._parsed(entry, parse_bytes)

    def needed_bytes(self, name: str) -> bytes:
        value = self.token(name)
        assert value is not None  # its row has a default
        return value

    def values(self, prefix: str, kinds: tuple[tuple[str, str], ...]) -> Lookup[bytes, str]:
        """Return the codes of a metadata value; two equal ones are an error."""
        found: dict[bytes, str] = {}
        for word, meaning in kinds:
            name = f"{prefix}.{word}val"
            value = self.needed_bytes(name)
            if value in found:
                problem = f"{name} is {_text(value)}, and so is another value of {prefix}"
                raise self.properties.error(problem, self.properties.get(name))
            found[value] = meaning
        return Lookup(tuple(found.items()))

    def _parsed(self, entry: Entry, parse: Callable[[str], T]) -> T:
        try:
            return parse(entry.value)
        except OptionError as error:
            source = self.properties.source or None
            raise error.located(source=source, line=entry.line, field=entry.written) from None


def _check_parser(properties: Properties) -> None:
    entry = properties.get("parser.type")
    if entry is None:
        raise properties.error("parser.type is required", hint="This version parses delim")
    if entry.value.casefold() != "delim":
        problem = f"parser.type is {entry.value}; this version parses delim"
        raise properties.error(problem, entry)


def _sourcedefs(properties: Properties) -> str:
    entry = properties.get("delim.sourcedefs")
    if entry is not None:
        return entry.value
    if properties.get("delim.userdefs.tables") is None:
        hint = "Or define the tables here: delim.userdefs.tables"
        raise properties.error("delim.sourcedefs is required", hint=hint)
    return ""


def _userdefs(properties: Properties) -> tuple[Table, ...]:
    try:
        return userdefs(properties.entries)
    except OptionError as error:
        raise error.located(source=properties.source or None) from None


def _message_id(properties: Properties) -> str | None:
    entry = properties.get("jms.id")
    if entry is None:
        return None
    if _JAVA_CLASS.fullmatch(entry.value):
        hint = "Take ogg, time, wmq, activemq or the name of a message header"
        raise properties.error("jms.id names a Java class, and no Java runs here", entry, hint)
    return entry.value


def _check_table(properties: Properties, options: DelimitedOptions) -> None:
    if options.schemaandtable is None and options.table is None:
        raise properties.error("delim.schemaandtable or delim.table is required")
    if options.schemaandtable is not None and options.table is not None:
        problem = "delim.table and delim.schemaandtable both name the table"
        raise properties.error(problem, properties.get("delim.table"), "Leave one of them out")


def _check_delimiters(properties: Properties, options: DelimitedOptions) -> None:
    named: dict[bytes, str] = {}
    for name in ("fielddelim", "linedelim", "quote", "nullindicator"):
        value = getattr(options, name)
        if value is None:
            continue
        if value in named:
            problem = f"delim.{name} and delim.{named[value]} are both {_text(value)}"
            entry = properties.get(f"delim.{name}") or properties.get(f"delim.{named[value]}")
            raise properties.error(problem, entry)
        named[value] = name


def _formats(properties: Properties) -> list[tuple[list[str], str]]:
    prefix = _DATE_FORMAT + "."
    return [
        ([part.strip('"') for part in _PART.findall(entry.name[len(prefix) :])], entry.value)
        for entry in properties.entries
        if entry.name.startswith(prefix)
    ]


def _table_formats(properties: Properties) -> list[tuple[str, str]]:
    return [(".".join(parts), value) for parts, value in _formats(properties) if len(parts) == 2]


def _column_formats(properties: Properties) -> list[tuple[tuple[str, str], str]]:
    return [
        ((".".join(parts[:-1]), parts[-1]), value)
        for parts, value in _formats(properties)
        if len(parts) == 3
    ]


def _text(value: bytes) -> str:
    return ascii(value)[1:]
