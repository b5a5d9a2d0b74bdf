"""The parsers by the name that ``parser.type`` gives: one row each."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final, NamedTuple

from trailgate.messages.parsing.cutting import MessageCutter
from trailgate.messages.parsing.learning import TableLearner
from trailgate.messages.parsing.parser import MessageFormat
from trailgate.messages.properties.definition_files import DefinitionFiles
from trailgate.messages.properties.file import Properties
from trailgate.messages.properties.metadata import MetadataOptions
from trailgate.model.tables import Definitions


class ParserType(NamedTuple):
    """One parser: its options, what makes these of properties and the files they name, and its format.

    Each is ``module:name`` below this package, so that only the parser in use is imported. ``tables_at`` gives the definitions
    alone, where they do not need the other properties. ``cutter_at`` gives what cuts messages that are too long for memory,
    ``learner_at`` what learns the tables of messages that describe them.
    """

    name: str
    options_at: str
    setup_at: str
    format_at: str
    tables_at: str = ""
    cutter_at: str = ""
    learner_at: str = ""

    def setup(
        self, properties: Properties, files: DefinitionFiles
    ) -> tuple[MetadataOptions, Definitions]:
        """Return the options and the definitions that properties state; raises OptionError."""
        options, definitions = imported(self.setup_at)(properties, files)
        return options, definitions

    def tables(self, properties: Properties, files: DefinitionFiles) -> Definitions:
        """Return the definitions alone; raises OptionError."""
        if not self.tables_at:
            return self.setup(properties, files)[1]
        found: Definitions = imported(self.tables_at)(properties, files)
        return found

    def format(self, options: MetadataOptions) -> MessageFormat[Any]:
        """Return what reads messages by these options."""
        found: MessageFormat[Any] = imported(self.format_at)(options)
        return found

    def cutter(self, options: MetadataOptions) -> MessageCutter | None:
        """Return what cuts messages that are too long for memory, None where there are none such."""
        found: MessageCutter | None = imported(self.cutter_at)(options) if self.cutter_at else None
        return found

    def learner(self, options: MetadataOptions) -> TableLearner:
        """Return what learns the tables of messages, for options that say so."""
        found: TableLearner = imported(self.learner_at)(options)
        return found


def imported(place: str) -> Any:
    """Return what ``module:name`` below this package means."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"trailgate.messages.{module}"), name)


PARSERS: Final = (
    ParserType(
        "fixed",
        "fixed_width.options:FixedWidthOptions",
        "fixed_width.options:fixed_width_setup",
        "fixed_width.format:FixedWidthFormat",
    ),
    ParserType(
        "delim",
        "delimited.options:DelimitedOptions",
        "delimited.options:delimited_setup",
        "delimited.format:DelimitedFormat",
    ),
    ParserType(
        "xml",
        "xml.options:XmlOptions",
        "xml.options:xml_setup",
        "xml.format:XmlFormat",
        "xml.tables:xml_definitions",
        "xml.cutting.cutter:XmlCutter",
    ),
    ParserType(
        "json",
        "json_operations.options:JsonOptions",
        "json_operations.options:json_setup",
        "json_operations.format:JsonFormat",
        "json_operations.options:json_tables",
    ),
    ParserType(
        "debezium",
        "debezium.options:DebeziumOptions",
        "debezium.options:debezium_setup",
        "debezium.format:DebeziumFormat",
        "debezium.options:debezium_tables",
        learner_at="debezium.learning:LearntTables",
    ),
    ParserType(
        "event_publishing",
        "event_publishing.options:EventPublishingOptions",
        "event_publishing.options:event_publishing_setup",
        "event_publishing.format:EventPublishingFormat",
        learner_at="event_publishing.learning:LearntTables",
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
    return parser_of(properties).tables(properties, files)


def format_for(options: MetadataOptions) -> MessageFormat[Any]:
    """Return the format that reads messages by these options."""
    return row_of(options).format(options)


def cutter_for(options: MetadataOptions) -> MessageCutter | None:
    """Return what cuts messages that are too long for memory, None where there are none such."""
    return row_of(options).cutter(options)


def row_of(options: MetadataOptions) -> ParserType:
    """Return the parser whose options these are."""
    place = f"{type(options).__module__}:{type(options).__qualname__}"
    return next(row for row in PARSERS if f"trailgate.messages.{row.options_at}" == place)
