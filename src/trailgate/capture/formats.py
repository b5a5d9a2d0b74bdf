"""The registry of message formats.

`PARSERS` has one row for each value of `parser.type`, `PUBLICATIONS` one row for each format that
`publish` writes. Rows name their classes as `module:name` below `trailgate.formats`, so that only
the format in use is imported. A row of PUBLICATIONS also names the parser that reads its messages
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.inference import TableInference
from trailgate.messages.message_batch import MessageCutter
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.parser import MessageFormat
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import DefinitionFiles
from trailgate.messages.publishing import MessageWriter, PublishOptions
from trailgate.model.tables import Definitions
from trailgate.options import FieldOption, Options, field_options


class ParserType(NamedTuple):
    """One value of `parser.type`: where its options, its reader and its helpers are defined.

    Each `*_at` field is `module:name` below `trailgate.formats`. `setup_at` is a function from
    properties (and the files they name) to options and definitions. `tables_at` returns only the
    definitions, if they do not need the other properties. `cutter_at` cuts messages that are too
    large for memory. `inference_at` infers tables from messages that describe them.
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
        """Read the parser's options and definitions from the properties.

        Raises OptionError if a property is wrong.
        """
        found: tuple[MetadataOptions, Definitions] = import_name(self.setup_at)(properties, files)
        return found

    def tables(self, properties: Properties, files: DefinitionFiles) -> Definitions:
        """Read only the table definitions from the properties. Raises OptionError if a property is wrong."""
        if not self.tables_at:
            return self.setup(properties, files)[1]
        found: Definitions = import_name(self.tables_at)(properties, files)
        return found

    def format(self, options: MetadataOptions) -> MessageFormat[Any]:
        """Create the message reader of this parser for its options."""
        found: MessageFormat[Any] = import_name(self.format_at)(options)
        return found

    def cutter(self, options: MetadataOptions) -> MessageCutter | None:
        """Create the cutter for messages of this parser that are too large for memory.

        Returns None if the format has no cutter.
        """
        found: MessageCutter | None = (
            import_name(self.cutter_at)(options) if self.cutter_at else None
        )
        return found

    def inference(self, options: MetadataOptions) -> TableInference:
        """Create the object that infers table definitions from messages, for options that require inference."""
        found: TableInference = import_name(self.inference_at)(options)
        return found


def import_name(address: str) -> Any:
    """Import an object by its name below `trailgate.formats`, for example `json.reader:JsonFormat`."""
    # Imported on first use only.
    module, _, name = address.partition(":")
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
        name="xml",
        options_at="xml.options:XmlOptions",
        setup_at="xml.options:xml_setup",
        format_at="xml.reader:XmlFormat",
        tables_at="xml.options:xml_definitions",
        cutter_at="xml.splitter:XmlCutter",
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
        inference_at="debezium.reader:DebeziumTableInference",
    ),
    ParserType(
        "event_publishing",
        "publications.options:EventPublishingOptions",
        "publications.options:event_publishing_setup",
        "publications.reader:EventPublishingFormat",
        inference_at="publications.reader:PublicationTableInference",
    ),
)
_NAMES: Final = ", ".join(row.name for row in PARSERS)


def find_parser_type(properties: Properties) -> ParserType:
    """Return the row of PARSERS that the property `parser.type` names.

    Raises OptionError if it is missing or unknown.
    """
    entry = properties.get("parser.type")
    if entry is None:
        raise properties.error("parser.type is required", hint=f"This version parses {_NAMES}")
    for row in PARSERS:
        if row.name == entry.value.casefold():
            return row
    raise properties.error(f"parser.type is {entry.value}; this version parses {_NAMES}", entry)


def parser_type_of(options: MetadataOptions) -> ParserType:
    """Return the row of PARSERS for an options object, for example the Debezium row for `DebeziumOptions`."""
    # The rows name classes as strings; compare the class's own address with them.
    address = f"{type(options).__module__}:{type(options).__qualname__}"
    return next(row for row in PARSERS if f"trailgate.formats.{row.options_at}" == address)


class PublicationFormat(NamedTuple):
    """One format in which operations are published as messages.

    `parser` is the `parser.type` that reads its messages back. `options_at` and `writer_at` are
    `module:name`, as in `ParserType`.
    """

    name: str
    parser: str
    options_at: str
    writer_at: str

    @property
    def options(self) -> Options:
        """The table of the publication format's options."""
        return Options(self.name, field_options(import_name(self.options_at), FieldOption))


PUBLICATIONS: Final = (
    PublicationFormat(
        "delimited",
        "event_publishing",
        "publications.delimited_writer:DelimitedPublishOptions",
        "publications.delimited_writer:DelimitedWriter",
    ),
    PublicationFormat(
        "xml",
        "event_publishing",
        "publications.xml_writer:XmlPublishOptions",
        "publications.xml_writer:XmlWriter",
    ),
    PublicationFormat("json", "json", "json.options:JsonPublishOptions", "json.writer:JsonWriter"),
    PublicationFormat(
        "debezium",
        "debezium",
        "debezium.options:DebeziumPublishOptions",
        "debezium.writer:DebeziumWriter",
    ),
)


def find_publication_format(name: str) -> PublicationFormat:
    """Look up a publication format by name. Raises OptionError if it is unknown."""
    word = str(name)  # callers of the library may pass None
    for row in PUBLICATIONS:
        if row.name == word.casefold():
            return row
    known = [row.name for row in PUBLICATIONS]
    hint = did_you_mean(word, known) or f"There are {', '.join(known)}"
    raise OptionError(f"no messages are published in the format {name!r}", hint=hint)


def publish_options(name: str, given: Mapping[str, Any]) -> PublishOptions:
    """Build the options of a publication format from values or strings.

    Raises OptionError for an unknown name or a bad value.
    """
    row = find_publication_format(name)
    options: PublishOptions = import_name(row.options_at)(**row.options.match_names(given))
    return options


def writer_for(name: str, options: PublishOptions) -> MessageWriter:
    """Create a writer of messages in the named publication format."""
    writer: MessageWriter = import_name(find_publication_format(name).writer_at)(options)
    return writer
