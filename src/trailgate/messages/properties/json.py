"""The ``json.*`` properties (GoldenGate for Big Data, JSON formatter)."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import (
    FIELD_OR_HEADER,
    OR_LITERAL,
    PropertyRow,
    SourceKind,
    ValueKind,
    indicator_rows,
    operation_rows,
)

_FORMATTER: Final = "GoldenGate for Big Data, JSON formatter"
_OWN: Final = "our own"
_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"


def _source(
    name: str, doc: str, sources: tuple[SourceKind, ...], default: str | None = None
) -> PropertyRow:
    origin = _FORMATTER if default and not default.startswith("*") else _OWN
    return PropertyRow(name, ValueKind.SOURCE, doc, origin, default, sources)


JSON: Final[tuple[PropertyRow, ...]] = (
    PropertyRow("json.sourcedefs", ValueKind.PATH, "source definitions file of the tables", _OWN),
    PropertyRow(
        "json.userdefs.tables", ValueKind.NAMES, "tables defined here, as SCHEMA.TABLE", _INFERRED
    ),
    PropertyRow(
        "json.userdefs.<SCHEMA.TABLE>.columns",
        ValueKind.NAMES,
        "columns of such a table, in order",
        _INFERRED,
    ),
    PropertyRow(
        "json.userdefs.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.TEXT,
        "type of such a column: `vchar N`, text of length N; `vchar N key`: a column of the key (our own)",
        _INFERRED,
    ),
    PropertyRow(
        "json.model",
        ValueKind.CHOICE,
        "whether columns are members of `before` and `after`, or of the message itself",
        _FORMATTER,
        "op",
        choices=("op", "row"),
    ),
    PropertyRow(
        "json.before", ValueKind.TEXT, "member with the before image", _FORMATTER, "before"
    ),
    PropertyRow("json.after", ValueKind.TEXT, "member with the after image", _FORMATTER, "after"),
    PropertyRow("json.tokens", ValueKind.TEXT, "member with the tokens", _FORMATTER, "tokens"),
    PropertyRow(
        "json.binary",
        ValueKind.CHOICE,
        "how bytes are written; required where a table has columns of bytes",
        _OWN,
        choices=("hex", "base64"),
    ),
    _source(
        "json.schemaandtable", "member with the table's name, SCHEMA.TABLE", OR_LITERAL, "table"
    ),
    _source("json.optype", "member with the operation's type", FIELD_OR_HEADER, "op_type"),
    *operation_rows("json", _FORMATTER),
    _source(
        "json.timestamp",
        "member with the commit time",
        (*FIELD_OR_HEADER, SourceKind.TIMESTAMP),
        "op_ts",
    ),
    PropertyRow("json.timestamp.format", ValueKind.FORMAT, "format of the commit time", _OWN),
    _source(
        "json.seqid",
        "sequence id of a record; must increase. `pos` leaves out messages that were sent twice",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _source(
        "json.txid",
        "transaction id",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.TX_ID),
        "*txid",
    ),
    _source("json.txowner", "user of the transaction", OR_LITERAL),
    _source("json.txname", "name of the transaction", OR_LITERAL),
    _source("json.txind", "transaction indicator", FIELD_OR_HEADER),
    *indicator_rows("json", _OWN),
)
