"""The ``fixed.*`` properties (capture properties §5), and our own beside them."""

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

_ORIGIN: Final = "capture properties §5"
_OWN: Final = "our own"


def _source(
    name: str,
    doc: str,
    sources: tuple[SourceKind, ...],
    default: str | None = None,
    aliases: tuple[str, ...] = (),
) -> PropertyRow:
    return PropertyRow(name, ValueKind.SOURCE, doc, _ORIGIN, default, sources, aliases=aliases)


def _choice(name: str, doc: str, *choices: str) -> PropertyRow:
    """Return the row of a choice of ours; the first one is the default."""
    return PropertyRow(name, ValueKind.CHOICE, doc, _OWN, choices[0], choices=choices)


_DEFINITIONS: Final = (
    PropertyRow(
        "fixed.schematype",
        ValueKind.CHOICE,
        "which kind of definitions are used; may be left out where only one kind is named",
        _ORIGIN,
        choices=("sourcedefs", "copybook"),
    ),
    PropertyRow(
        "fixed.sourcedefs",
        ValueKind.PATH,
        "source definitions file; for `fixed.schematype=sourcedefs`",
        _ORIGIN,
    ),
    PropertyRow(
        "fixed.copybook",
        ValueKind.PATH,
        "copybook; its COPY members are searched in its folder; for `fixed.schematype=copybook`",
        _ORIGIN,
    ),
    PropertyRow(
        "fixed.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE; one may be the header",
        _ORIGIN,
    ),
    PropertyRow(
        "fixed.userdefs.<SCHEMA.TABLE>.columns",
        ValueKind.NAMES,
        "columns of such a table, in order, without gaps",
        _ORIGIN,
    ),
    PropertyRow(
        "fixed.userdefs.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.TEXT,
        "type of such a column: `vchar N`, N characters",
        _ORIGIN,
    ),
    PropertyRow(
        "fixed.header",
        ValueKind.TEXT,
        "01 record of the copybook, or table of the definitions, that every record begins with; "
        "required",
        _ORIGIN,
    ),
)

_METADATA: Final = (
    _source(
        "fixed.seqid",
        "sequence id of a record; must increase",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _source("fixed.timestamp", "commit timestamp", (*FIELD_OR_HEADER, SourceKind.TIMESTAMP), "*ts"),
    PropertyRow(
        "fixed.timestamp.format",
        ValueKind.FORMAT,
        "format of the commit timestamp; default that of the field's DATEFORMAT comment, else "
        "`YYYY-MM-DD:HH:MI:SS.FFF`",
        _ORIGIN,
    ),
    _source("fixed.txid", "transaction id", (*FIELD_OR_HEADER, SourceKind.TX_ID), "*txid"),
    _source("fixed.txowner", "user name of the transaction", OR_LITERAL),
    _source("fixed.txname", "free text of the transaction", OR_LITERAL),
    _source(
        "fixed.optype",
        "operation code; required",
        FIELD_OR_HEADER,
        aliases=("fixed.header.optype",),
    ),
    *operation_rows("fixed", _ORIGIN),
    PropertyRow(
        "fixed.table",
        ValueKind.SOURCE,
        "name of the record's definition; several fields, comma-separated, are concatenated; "
        "required",
        _ORIGIN,
        sources=FIELD_OR_HEADER,
        aliases=("fixed.schemaandtable",),
    ),
    PropertyRow(
        "fixed.schema",
        ValueKind.TEXT,
        "schema of the table's name; quotes around it do not count",
        _ORIGIN,
    ),
    _source("fixed.txind", "transaction indicator", FIELD_OR_HEADER),
    *indicator_rows("fixed", _ORIGIN),
)

_RECORDS: Final = (
    PropertyRow(
        "fixed.records",
        ValueKind.CHOICE,
        "how a message's records are separated: a line each, `fixed.recordlength` each, or one a "
        "message; default `length` where that length is given, else `line`",
        _OWN,
        choices=("line", "length", "message"),
    ),
    PropertyRow(
        "fixed.linedelim",
        ValueKind.BYTES,
        "after a record; default `\\x0a`, with or without `\\x0d` before it",
        _OWN,
    ),
    PropertyRow("fixed.recordlength", ValueKind.TEXT, "length of all records, with header", _OWN),
)

_VALUES: Final = (
    PropertyRow(
        "fixed.codepage",
        ValueKind.TEXT,
        "code page of the messages, such as `cp037`; in UTF-8 positions and lengths count "
        "characters",
        _OWN,
        "utf-8",
    ),
    _choice("fixed.copybook.format", "which columns of a line hold text", "auto", "fixed", "free"),
    _choice(
        "fixed.binarysizes",
        "bytes of binary numbers: 2, 4 or 8, or as few as hold them",
        "ibm",
        "smallest",
    ),
    _choice("fixed.binary", "byte order of COMP and COMP-4", "big", "little"),
    _choice("fixed.native", "byte order of COMP-5, and of IEEE floats", "big", "little"),
    _choice("fixed.floats", "form of COMP-1 and COMP-2", "ibm", "ieee"),
    _choice("fixed.signs", "which sign nibbles and overpunches are accepted", "lenient", "strict"),
    _choice("fixed.blank", "what a number or date of only blanks is", "error", "null"),
    PropertyRow(
        "fixed.textbytes",
        ValueKind.CHOICE,
        "the most bytes that a character of a copybook's text takes in the trail, which is UTF-8; default 1 for "
        "messages in UTF-8, else what the code page needs",
        _OWN,
        choices=("1", "2", "3", "4"),
    ),
    _choice(
        "fixed.depending",
        "where an OCCURS DEPENDING ON may be: only last in its record, or anywhere, with the items after it "
        "at their places for the most elements",
        "last",
        "most",
    ),
    _choice("fixed.redefines", "whether redefining fields are columns too", "skip", "include"),
)

FIXED: Final[tuple[PropertyRow, ...]] = (*_DEFINITIONS, *_METADATA, *_RECORDS, *_VALUES)
