"""The formats of messages: one row each for parsers, by the name that ``parser.type`` gives, and one for publications.

A row names what it needs as ``module:name`` below ``formats``, so that only the format in use is imported. The row of a publication
has the parser that reads it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.inference import TableInference
from trailgate.messages.messages import MessageCutter
from trailgate.messages.parser import MessageFormat
from trailgate.messages.properties import DefinitionFiles, MetadataOptions, Properties
from trailgate.messages.publishing import MessageWriter, PublishOptions
from trailgate.model.tables import Definitions
from trailgate.options import Field, Options, field_options


class ParserType(NamedTuple):
    """One parser: its options, what makes these of properties and the files they name, and its format.

    Each is ``module:name`` below this package, so that only the parser in use is imported. ``tables_at`` gives the definitions
    alone, where they do not need the other properties. ``cutter_at`` gives what cuts messages that are too long for memory,
    ``inference_at`` what infers the tables of messages that describe them.
    """

    name: str
    options_at: str
    setup_at: str
    format_at: str
    tables_at: str = ""
    cutter_at: str = ""
    inference_at: str = ""

    def setup(
        self, properties: Properties, files: DefinitionFiles
    ) -> tuple[MetadataOptions, Definitions]:
        """Return the options and the definitions that properties state; raises OptionError."""
        found: tuple[MetadataOptions, Definitions] = import_name(self.setup_at)(properties, files)
        return found

    def tables(self, properties: Properties, files: DefinitionFiles) -> Definitions:
        """Return the definitions alone; raises OptionError."""
        if not self.tables_at:
            return self.setup(properties, files)[1]
        found: Definitions = import_name(self.tables_at)(properties, files)
        return found

    def format(self, options: MetadataOptions) -> MessageFormat[Any]:
        """Return what reads messages by these options."""
        found: MessageFormat[Any] = import_name(self.format_at)(options)
        return found

    def cutter(self, options: MetadataOptions) -> MessageCutter | None:
        """Return what cuts messages that are too long for memory, None where there are none such."""
        found: MessageCutter | None = (
            import_name(self.cutter_at)(options) if self.cutter_at else None
        )
        return found

    def inference(self, options: MetadataOptions) -> TableInference:
        """Return what infers the tables of messages, for options that say so."""
        found: TableInference = import_name(self.inference_at)(options)
        return found


def import_name(place: str) -> Any:
    """Return what ``module:name`` below this package means."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"trailgate.formats.{module}"), name)


PARSERS: Final = (
    ParserType(
        "fixed",
        "fixed_width.options:FixedWidthOptions",
        "fixed_width.options:fixed_width_setup",
        "fixed_width.reader:FixedWidthFormat",
    ),
    ParserType(
        "delim",
        "delimited.options:DelimitedOptions",
        "delimited.options:delimited_setup",
        "delimited.reader:DelimitedFormat",
    ),
    ParserType(
        "xml",
        "xml.options:XmlOptions",
        "xml.options:xml_setup",
        "xml.reader:XmlFormat",
        "xml.options:xml_definitions",
        "xml.splitter:XmlCutter",
    ),
    ParserType(
        "json",
        "json.options:JsonOptions",
        "json.options:json_setup",
        "json.reader:JsonFormat",
        "json.options:json_tables",
    ),
    ParserType(
        "debezium",
        "debezium.options:DebeziumOptions",
        "debezium.options:debezium_setup",
        "debezium.reader:DebeziumFormat",
        "debezium.options:debezium_tables",
        inference_at="debezium.reader:InferredTables",
    ),
    ParserType(
        "event_publishing",
        "publications.options:EventPublishingOptions",
        "publications.options:event_publishing_setup",
        "publications.reader:EventPublishingFormat",
        inference_at="publications.reader:InferredTables",
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


def row_of(options: MetadataOptions) -> ParserType:
    """Return the parser whose options these are."""
    place = f"{type(options).__module__}:{type(options).__qualname__}"
    return next(row for row in PARSERS if f"trailgate.formats.{row.options_at}" == place)


class Publication(NamedTuple):
    """One format: the ``parser.type`` of what reads its messages, its options and its writer.

    The latter are ``module:name``, as for parsers, so that only the format in use is imported.
    """

    name: str
    parser: str
    options_at: str
    writer_at: str

    @property
    def options(self) -> Options:
        """Return the rows of the format's options."""
        return Options(self.name, field_options(import_name(self.options_at), Field))


PUBLICATIONS: Final = (
    Publication(
        "delimited",
        "event_publishing",
        "publications.delimited_writer:DelimitedPublishOptions",
        "publications.delimited_writer:DelimitedWriter",
    ),
    Publication(
        "xml",
        "event_publishing",
        "publications.xml_writer:XmlPublishOptions",
        "publications.xml_writer:XmlWriter",
    ),
    Publication("json", "json", "json.options:JsonPublishOptions", "json.writer:JsonWriter"),
    Publication(
        "debezium",
        "debezium",
        "debezium.options:DebeziumPublishOptions",
        "debezium.writer:DebeziumWriter",
    ),
)


def publication(name: str) -> Publication:
    """Return the row of a format; raises OptionError for one that is not known."""
    word = str(name)  # callers of the library may pass None
    for row in PUBLICATIONS:
        if row.name == word.casefold():
            return row
    known = [row.name for row in PUBLICATIONS]
    hint = did_you_mean(word, known) or f"There are {', '.join(known)}"
    raise OptionError(f"no messages are published in the format {name!r}", hint=hint)


def publish_options(name: str, given: Mapping[str, Any]) -> PublishOptions:
    """Return a format's options, of values or their strings; raises OptionError for one that it does not have."""
    row = publication(name)
    options: PublishOptions = import_name(row.options_at)(**row.options.match_names(given))
    return options


def writer_for(name: str, options: PublishOptions) -> MessageWriter:
    """Return a writer of a format's messages."""
    writer: MessageWriter = import_name(publication(name).writer_at)(options)
    return writer
