"""The ``debezium.*`` properties (Debezium's documentation of change events and connector properties)."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import (
    FIELD_OR_HEADER,
    OR_LITERAL,
    PropertyRow,
    SourceKind,
    ValueKind,
)

_EVENTS: Final = "Debezium, change events"
_CONNECTOR: Final = "Debezium, connector properties"
_OWN: Final = "our own"
_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"

DEBEZIUM: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        "debezium.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables; not needed for files of events with schemas",
        _OWN,
    ),
    PropertyRow(
        "debezium.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE",
        _INFERRED,
    ),
    PropertyRow(
        "debezium.userdefs.<SCHEMA.TABLE>.columns",
        ValueKind.NAMES,
        "columns of such a table, in order",
        _INFERRED,
    ),
    PropertyRow(
        "debezium.userdefs.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.TEXT,
        "type of such a column: `vchar N`, text of length N; `vchar N key`: a column of the key (our own)",
        _INFERRED,
    ),
    PropertyRow(
        "debezium.schema",
        ValueKind.SOURCE,
        "member with the schema's name; of several, with `|` between them, the first that there is",
        _EVENTS,
        "source.schema|source.db",
        OR_LITERAL,
    ),
    PropertyRow(
        "debezium.table",
        ValueKind.SOURCE,
        "member with the table's name",
        _EVENTS,
        "source.table",
        OR_LITERAL,
    ),
    PropertyRow(
        "debezium.timestamp",
        ValueKind.SOURCE,
        "member with the commit time; beside `source.ts_ms`, `source.ts_us` is taken where it is there",
        _EVENTS,
        "source.ts_ms",
        (*FIELD_OR_HEADER, SourceKind.TIMESTAMP),
    ),
    PropertyRow(
        "debezium.txid",
        ValueKind.SOURCE,
        "transaction id; events that follow one another and have the same one are a transaction. `*txid`: each message is one",
        _EVENTS,
        "transaction.id|source.txId|source.gtid",
        (*FIELD_OR_HEADER, SourceKind.TX_ID),
    ),
    PropertyRow(
        "debezium.seqid",
        ValueKind.SOURCE,
        "sequence id of an event; must increase",
        _OWN,
        "*seqid",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
    ),
    PropertyRow(
        "debezium.txowner",
        ValueKind.SOURCE,
        "user of the transaction",
        _OWN,
        sources=OR_LITERAL,
    ),
    PropertyRow(
        "debezium.txname",
        ValueKind.SOURCE,
        "name of the transaction",
        _OWN,
        sources=OR_LITERAL,
    ),
    PropertyRow(
        "debezium.time.precision.mode",
        ValueKind.CHOICE,
        "what numbers in date time columns are, where messages have no schema",
        _CONNECTOR,
        choices=(
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ),
    ),
    PropertyRow(
        "debezium.decimal.handling.mode",
        ValueKind.CHOICE,
        "what texts in columns of numbers are, where messages have no schema",
        _CONNECTOR,
        choices=("precise", "double", "string"),
    ),
    PropertyRow(
        "debezium.binary.handling.mode",
        ValueKind.CHOICE,
        "what texts in columns of bytes are; `bytes` and `base64` are the same in JSON",
        _CONNECTOR,
        choices=("bytes", "base64", "base64-url-safe", "hex"),
    ),
    PropertyRow(
        "debezium.unavailable.value.placeholder",
        ValueKind.TEXT,
        "the value of a column that was not logged: it is missing",
        _CONNECTOR,
        "__debezium_unavailable_value",
    ),
)
