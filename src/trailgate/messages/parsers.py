"""The parsers by the name that ``parser.type`` gives: one row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from trailgate.messages.debezium.format import DebeziumFormat
from trailgate.messages.debezium.options import DebeziumOptions, debezium_setup, debezium_tables
from trailgate.messages.delimited.format import DelimitedFormat
from trailgate.messages.delimited.options import DelimitedOptions, delimited_setup
from trailgate.messages.event_publishing.format import EventPublishingFormat
from trailgate.messages.event_publishing.options import (
    EventPublishingOptions,
    event_publishing_setup,
)
from trailgate.messages.fixed_width.format import FixedWidthFormat
from trailgate.messages.fixed_width.options import FixedWidthOptions, fixed_width_setup
from trailgate.messages.json_operations.format import JsonFormat
from trailgate.messages.json_operations.options import JsonOptions, json_setup, json_tables
from trailgate.messages.parsing.cutting import MessageCutter
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.properties.definition_files import DefinitionFiles
from trailgate.messages.properties.file import Properties
from trailgate.messages.properties.metadata import MetadataOptions
from trailgate.messages.xml.cutting.cutter import XmlCutter
from trailgate.messages.xml.format import XmlFormat
from trailgate.messages.xml.options import XmlOptions, xml_setup
from trailgate.messages.xml.tables import xml_definitions
from trailgate.model.tables import Definitions

Setup = Callable[[Properties, DefinitionFiles], tuple[MetadataOptions, Definitions]]
Tables = Callable[[Properties, DefinitionFiles], Definitions]


class ParserType(NamedTuple):
    """One parser: its options, how properties and the files they name become these, its format.

    ``tables`` gives the definitions alone, where they do not need the other properties. ``cutter`` gives what cuts messages that are
    too long for memory.
    """

    name: str
    options: type[MetadataOptions]
    setup: Setup
    format: Callable[[Any], MessageFormat[Any]]
    tables: Tables | None = None
    cutter: Callable[[Any], MessageCutter] | None = None


PARSERS: Final = (
    ParserType("fixed", FixedWidthOptions, fixed_width_setup, FixedWidthFormat),
    ParserType("delim", DelimitedOptions, delimited_setup, DelimitedFormat),
    ParserType("xml", XmlOptions, xml_setup, XmlFormat, xml_definitions, XmlCutter),
    ParserType("json", JsonOptions, json_setup, JsonFormat, json_tables),
    ParserType("debezium", DebeziumOptions, debezium_setup, DebeziumFormat, debezium_tables),
    ParserType(
        "event_publishing", EventPublishingOptions, event_publishing_setup, EventPublishingFormat
    ),
)
_NAMES: Final = ", ".join(row.name for row in PARSERS)


def parser_of(properties: Properties) -> ParserType:
    """Return the parser that ``parser.type`` names; raises OptionError."""
    entry = properties.get("parser.type")
    if entry is None:
        raise properties.error("parser.type is required", hint=f"This version parses {_NAMES}")
    for row in PARSERS:
        if row.name == entry.value.casefold():
            return row
    raise properties.error(f"parser.type is {entry.value}; this version parses {_NAMES}", entry)


def defined_tables(properties: Properties, files: DefinitionFiles) -> Definitions:
    """Return the tables that properties define, by whatever parser; raises OptionError."""
    row = parser_of(properties)
    return row.setup(properties, files)[1] if row.tables is None else row.tables(properties, files)


def format_for(options: MetadataOptions) -> MessageFormat[Any]:
    """Return the format that reads messages by these options."""
    return next(row.format(options) for row in PARSERS if type(options) is row.options)


def cutter_for(options: MetadataOptions) -> MessageCutter | None:
    """Return what cuts messages that are too long for memory, None where there are none such."""
    row = next(row for row in PARSERS if type(options) is row.options)
    return None if row.cutter is None else row.cutter(options)
