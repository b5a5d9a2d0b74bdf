"""The ``delim.*`` properties (capture properties §6)."""

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
    switch_row,
)

_ORIGIN: Final = "capture properties §6.2"
_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"


def _source(
    name: str, doc: str, sources: tuple[SourceKind, ...], default: str | None = None
) -> PropertyRow:
    aliases = ("delim.id",) if name == "delim.seqid" else ()
    return PropertyRow(name, ValueKind.SOURCE, doc, _ORIGIN, default, sources, aliases=aliases)


def _bytes(
    name: str, doc: str, default: str | None = None, aliases: tuple[str, ...] = ()
) -> PropertyRow:
    return PropertyRow(name, ValueKind.BYTES, doc, _ORIGIN, default, aliases=aliases)


DELIMITED: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        "delim.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables; required unless `delim.userdefs.tables` is given",
        _ORIGIN,
    ),
    PropertyRow(
        "delim.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE; in addition to `delim.sourcedefs` or instead of it",
        _INFERRED,
    ),
    PropertyRow(
        "delim.userdefs.<SCHEMA.TABLE>.columns",
        ValueKind.NAMES,
        "columns of such a table, in order",
        _INFERRED,
    ),
    PropertyRow(
        "delim.userdefs.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.TEXT,
        "type of such a column: `vchar N`, text of length N; `vchar N key`: a column of the key (our own)",
        _INFERRED,
    ),
    PropertyRow(
        "delim.header",
        ValueKind.NAMES,
        "names of the leading metadata columns, in order; required",
        _ORIGIN,
    ),
    _source(
        "delim.seqid",
        "sequence id of a record; must increase",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _source("delim.timestamp", "commit timestamp", (*FIELD_OR_HEADER, SourceKind.TIMESTAMP), "*ts"),
    PropertyRow(
        "delim.timestamp.format",
        ValueKind.FORMAT,
        "format of the commit timestamp; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        "capture properties §4.1",
    ),
    _source("delim.txid", "transaction id", (*FIELD_OR_HEADER, SourceKind.TX_ID), "*txid"),
    _source("delim.txowner", "user name of the transaction", OR_LITERAL),
    _source("delim.txname", "free text of the transaction", OR_LITERAL),
    _source("delim.optype", "operation code; required", FIELD_OR_HEADER),
    *operation_rows("delim", _ORIGIN),
    _source("delim.schemaandtable", "table name as SCHEMA.TABLE", FIELD_OR_HEADER),
    _source("delim.schema", "schema name, with `delim.table`", OR_LITERAL),
    _source("delim.table", "table name", FIELD_OR_HEADER),
    _source("delim.txind", "transaction indicator", FIELD_OR_HEADER),
    *indicator_rows("delim", _ORIGIN),
    _bytes("delim.fielddelim", "between fields; the default is ours", ","),
    _bytes(
        "delim.linedelim",
        "between records; a `\\x0d` before `\\x0a` is not data; the default is ours",
        r"\x0a",
        ("delim.recorddelim",),
    ),
    _bytes("delim.quote", "around quoted values; without it nothing is quoted"),
    _bytes(
        "delim.nullindicator",
        "an unquoted value that means NULL; without it an empty unquoted value does",
    ),
    _bytes(
        "delim.fielddelim.escaped",
        "stands for the field delimiter in a quoted value; in any value without `delim.quote`",
    ),
    _bytes(
        "delim.linedelim.escaped",
        "stands for the record delimiter in a quoted value; in any value without `delim.quote`",
    ),
    _bytes("delim.quote.escaped", "stands for the quote in a quoted value"),
    _bytes(
        "delim.nullindicator.escaped",
        "a quoted value that is the null indicator's text; any such value without `delim.quote`",
    ),
    switch_row("delim.hasbefores", "every record has before and after values", _ORIGIN),
    switch_row("delim.hasnames", "every record has column names", _ORIGIN),
    switch_row("delim.afterfirst", "after values come before the before values", _ORIGIN),
    switch_row("delim.isgrouped", "names, before and after values are in blocks", _ORIGIN),
    PropertyRow(
        "delim.dateformat",
        ValueKind.FORMAT,
        "format of all date columns; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        _ORIGIN,
        aliases=("delim.dateformat.default",),
    ),
    PropertyRow(
        "delim.dateformat.<SCHEMA.TABLE>",
        ValueKind.FORMAT,
        "format of a table's date columns",
        _ORIGIN,
    ),
    PropertyRow(
        "delim.dateformat.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.FORMAT,
        "format of one date column; takes precedence over the table's and the global one",
        _ORIGIN,
    ),
)
