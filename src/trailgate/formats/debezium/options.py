"""The options of Debezium change events: `debezium.*` properties for reading, and options for publishing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

from trailgate.errors import OptionError
from trailgate.formats.json.options import MemberPaths
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.properties import Properties
from trailgate.messages.property_reader import DefinitionFiles, Lookup, PropertyReader, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.publishing import ROW, PublishOptions
from trailgate.model.tables import Definitions

PARSER: Final = "debezium"
# Debezium, change events: "r" (read) is a row of a snapshot.
OPERATIONS: Final = Lookup(((b"c", "I"), (b"r", "I"), (b"u", "U"), (b"d", "D"), (b"t", "T")))

_UNDEFINED: Final = (
    "Give definitions (debezium.sourcedefs or debezium.userdefs.tables). A capture of files into a trail needs none if events are "
    "written with their schemas (value.converter.schemas.enable=true)"
)

ALTERNATIVES: Final = "|"
# Debezium, new record state extraction: add.fields=op,table,source.ts_ms adds __op, __table and __source_ts_ms.
ROW_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "schema": ("schema", "source_schema", "db", "source_db"),
        "table": ("table", "source_table"),
        "timestamp": ("source_ts_ms", "ts_ms"),
        "txid": ("transaction_id", "txId", "source_txId", "gtid", "source_gtid"),
    }
)


# Debezium, connector properties: a placeholder that begins with "hex:" is written in hex digits.
_HEX: Final = "hex:"
PLACEHOLDER: Final = "placeholder"
UNAVAILABLE: Final = "__debezium_unavailable_value"
ERROR: Final = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumOptions(MetadataOptions):
    """How change events are read. `docs/properties.md` describes each property.

    `times`, `decimals` and `binary` state how the connector writes times, decimals and bytes. They
    are its settings `time.precision.mode`, `decimal.handling.mode` and `binary.handling.mode`, or
    "" if unknown. Times and decimals matter only for messages without a schema. `placeholder` is
    the value that the connector writes for columns that were not logged. With `rows`, messages are
    flattened rows from the transformation ExtractNewRecordState. Members whose names begin with
    `prefix` are then metadata, not columns.
    """

    times: str
    decimals: str
    binary: str
    placeholder: bytes
    rows: bool
    prefix: str

    @property
    def by_id(self) -> bool:
        """Whether consecutive change events with the same transaction id form one transaction.

        This is the case unless ids are generated.
        """
        return self.txid.kind is not SourceKind.TX_ID

    @property
    def has_tombstones(self) -> bool:
        """Always true: a Debezium message without a body is the tombstone that Kafka needs after a delete."""
        return True

    @property
    def names_operations(self) -> bool:
        """Always false: the codes of operation types (`c`, `u`, `d`, ...) are fixed by Debezium, so properties cannot define them."""
        return False

    @property
    def operation_ids(self) -> bool:
        """Always true: every change event gets a sequence id, even if several come from one message."""
        return True


def debezium_setup(
    properties: Properties, files: DefinitionFiles
) -> tuple[DebeziumOptions, Definitions]:
    """Read the `debezium.*` properties: the options of Debezium messages, and their tables.

    If events may describe their tables, none need to be defined.
    """
    definitions = PropertyReader(properties, PARSER).definitions(files, needed=False)
    options = debezium_options(properties)
    if not len(definitions):
        options = replace(options, infers=True, undefined_hint=_UNDEFINED)
    return options, definitions


def debezium_tables(properties: Properties, files: DefinitionFiles) -> Definitions:
    """Read the tables of the Debezium parser. Raises OptionError if none are defined."""
    return PropertyReader(properties, PARSER).definitions(files, hint=_UNDEFINED)


def debezium_options(properties: Properties) -> DebeziumOptions:
    """Read the options of the Debezium parser. Raises OptionError that names line and property."""
    read = PropertyReader(properties, PARSER, MemberPaths(place="the event's members"))
    rows, prefix = read.text("model").casefold() == "row", read.text("add.fields.prefix")

    def source(name: str) -> ValueSource | None:
        """Return the source of a metadata value of change events.

        With model=row, the default source is the member that Debezium's transformation adds.
        """
        if rows and read.entry(name) is None and name in ROW_MEMBERS:
            members = (f"{prefix}{member}" for member in ROW_MEMBERS[name])
            return ValueSource(SourceKind.FIELD, ALTERNATIVES.join(members))
        return read.source(name)

    def needed(name: str) -> ValueSource:
        value_source = source(name)
        assert value_source is not None, "its row has a default"
        return value_source

    return DebeziumOptions(
        seqid=read.required_source("seqid"),
        timestamp=needed("timestamp"),
        timestamp_format=None,
        txid=needed("txid"),
        txowner=read.source("txowner"),
        txname=read.source("txname"),
        optype=ValueSource(SourceKind.FIELD, f"{prefix}op" if rows else "op"),
        optype_values=OPERATIONS,
        schemaandtable=None,
        schema=source("schema"),
        table=(needed("table"),),
        txind=None,
        txind_values=Lookup(),
        message_id=read.message_id(),
        times=read.text("time.precision.mode").casefold(),
        decimals=read.text("decimal.handling.mode").casefold(),
        binary=read.text("binary.handling.mode").casefold(),
        placeholder=_placeholder(read),
        rows=rows,
        prefix=prefix,
    )


def _placeholder(read: PropertyReader) -> bytes:
    """Read the bytes of Debezium's placeholder for columns that were not logged."""
    text = read.text("unavailable.value.placeholder")
    if not text.casefold().startswith(_HEX):
        return text.encode()
    try:
        return bytes.fromhex(text[len(_HEX) :])
    except ValueError:
        name = "unavailable.value.placeholder"
        raise read.error(f"debezium.{name} is {text}, which is not hexadecimal", name) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumPublishOptions(PublishOptions):
    """How operations are published as Debezium change events, one event per operation."""

    content: Annotated[Literal["row"], "an event holds one operation"] = ROW
    prefix: Annotated[str, "the name of the source, with which topics begin"] = "trailgate"
    schemas: Annotated[bool, "write each event as the payload beside its schema"] = False
    transactions: Annotated[
        bool, "add each event's place in its transaction, and write BEGIN and END events"
    ] = True
    missing: Annotated[
        Literal["error", "omit", "placeholder"],
        "a missing column: an error, omitted from the image, or written as the placeholder",
    ] = ERROR
    placeholder: Annotated[str, "the value of missing columns with missing=placeholder"] = (
        UNAVAILABLE
    )
    key_updates: Annotated[
        Literal["error", "update"], "a change of a key: an error, or an event with both images"
    ] = ERROR

    def __post_init__(self) -> None:
        """Raise OptionError if options for publishing change events contradict each other."""
        PublishOptions.__post_init__(self)  # super() does not work in classes with slots
        if self.placeholder != UNAVAILABLE and self.missing != PLACEHOLDER:
            problem = f"placeholder is set to {self.placeholder!r}, but missing is {self.missing}"
            raise OptionError(problem, hint="Set missing=placeholder too")
