"""The capture properties: one row each, with what its value may be and what it does.

Origins cite sections of the reference (``docs/properties.md`` lists the same rows): the adapter's for those that all parsers share and for ``delim.*``, ``fixed.*`` and
``xml.*`` (capture properties §5 to §7), GoldenGate for Big Data's JSON formatter for ``json.*``, Debezium's documentation for ``debezium.*``. The
``event_publishing.*`` properties are ours, since the adapter has no parser of publications.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from trailgate.errors import did_you_mean
from trailgate.messages.property_rows import (
    FIELD_OR_HEADER,
    OR_LITERAL,
    Effect,
    PropertyRow,
    SourceKind,
    ValueKind,
    idle_row,
    indicator_rows,
    operation_rows,
    switch_row,
    userdefs_rows,
)

_JVM: Final = "no Java runs here"
_JNDI: Final = "messages come from files or a broker, not over JNDI"
_LOGGING: Final = "the run's own logging applies"
_BROKER: Final = "a capture from a broker uses it, where --from names none"
_REPORT: Final = "a capture from a broker obeys it; of files the run prints its own summary"

CONNECTION: Final[tuple[PropertyRow, ...]] = (
    idle_row("gg.log", "logging implementation", _LOGGING),
    idle_row("gg.log.level", "logging level", _LOGGING),
    idle_row("gg.log.file", "log file", _LOGGING, ValueKind.PATH),
    idle_row("gg.log.classpath", "where the logging JARs are", _LOGGING),
    idle_row("gg.log.*", "any other logging property", _LOGGING),
    idle_row("jvm.bootoptions", "options of the embedded JVM", _JVM),
    idle_row("jvm.*", "any other JVM property", _JVM),
    idle_row("jms.report.output", "where the JMS report goes: report, log, both", _REPORT),
    idle_row("jms.report.time", "report every interval, as in 30sec", _REPORT),
    idle_row("jms.report.records", "report every n records", _REPORT),
    idle_row("jms.destination", "JNDI name of the queue or topic", _BROKER),
    idle_row("jms.connectionFactory", "JNDI name of the connection factory", _JNDI),
    idle_row("jms.user", "user of the JMS connection", _BROKER),
    idle_row("jms.password", "password of the JMS connection", _BROKER),
    idle_row("java.naming.provider.url", "URL of the JNDI provider", _BROKER),
    idle_row("java.naming.factory.initial", "class of the JNDI context factory", _JNDI),
    idle_row("java.naming.security.principal", "JNDI user", _JNDI),
    idle_row("java.naming.security.credentials", "JNDI password", _JNDI),
    idle_row("java.naming.*", "any other JNDI property", _JNDI),
    PropertyRow(
        "jms.id",
        ValueKind.TEXT,
        "what `$jmsid` is: `ogg`, `time`, `wmq`, `activemq`, or the name of a message header; such ids are compared",
        "capture properties §2.1",
    ),
    PropertyRow(
        "parser.type",
        ValueKind.CHOICE,
        "which parser reads the messages",
        "capture properties §3",
        choices=("fixed", "delim", "xml", "event_publishing", "json", "debezium"),
    ),
)


_DELIMITED: Final = "capture properties §6.2"
_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"


def _delimited_source(
    name: str, doc: str, sources: tuple[SourceKind, ...], default: str | None = None
) -> PropertyRow:
    aliases = ("delim.id",) if name == "delim.seqid" else ()
    return PropertyRow(name, ValueKind.SOURCE, doc, _DELIMITED, default, sources, aliases=aliases)


def _bytes(
    name: str, doc: str, default: str | None = None, aliases: tuple[str, ...] = ()
) -> PropertyRow:
    return PropertyRow(name, ValueKind.BYTES, doc, _DELIMITED, default, aliases=aliases)


DELIMITED: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        "delim.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables; required unless `delim.userdefs.tables` is given",
        _DELIMITED,
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
        _DELIMITED,
    ),
    _delimited_source(
        "delim.seqid",
        "sequence id of a record; must increase",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _delimited_source(
        "delim.timestamp", "commit timestamp", (*FIELD_OR_HEADER, SourceKind.TIMESTAMP), "*ts"
    ),
    PropertyRow(
        "delim.timestamp.format",
        ValueKind.FORMAT,
        "format of the commit timestamp; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        "capture properties §4.1",
    ),
    _delimited_source(
        "delim.txid", "transaction id", (*FIELD_OR_HEADER, SourceKind.TX_ID), "*txid"
    ),
    _delimited_source("delim.txowner", "user name of the transaction", OR_LITERAL),
    _delimited_source("delim.txname", "free text of the transaction", OR_LITERAL),
    _delimited_source("delim.optype", "operation code; required", FIELD_OR_HEADER),
    *operation_rows("delim", _DELIMITED),
    _delimited_source("delim.schemaandtable", "table name as SCHEMA.TABLE", FIELD_OR_HEADER),
    _delimited_source("delim.schema", "schema name, with `delim.table`", OR_LITERAL),
    _delimited_source("delim.table", "table name", FIELD_OR_HEADER),
    _delimited_source("delim.txind", "transaction indicator", FIELD_OR_HEADER),
    *indicator_rows("delim", _DELIMITED),
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
    switch_row("delim.hasbefores", "every record has before and after values", _DELIMITED),
    switch_row("delim.hasnames", "every record has column names", _DELIMITED),
    switch_row("delim.afterfirst", "after values come before the before values", _DELIMITED),
    switch_row("delim.isgrouped", "names, before and after values are in blocks", _DELIMITED),
    PropertyRow(
        "delim.dateformat",
        ValueKind.FORMAT,
        "format of all date columns; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        _DELIMITED,
        aliases=("delim.dateformat.default",),
    ),
    PropertyRow(
        "delim.dateformat.<SCHEMA.TABLE>",
        ValueKind.FORMAT,
        "format of a table's date columns",
        _DELIMITED,
    ),
    PropertyRow(
        "delim.dateformat.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.FORMAT,
        "format of one date column; takes precedence over the table's and the global one",
        _DELIMITED,
    ),
)


_FIXED: Final = "capture properties §5"
_OWN: Final = "our own"


def _fixed_source(
    name: str,
    doc: str,
    sources: tuple[SourceKind, ...],
    default: str | None = None,
    aliases: tuple[str, ...] = (),
) -> PropertyRow:
    return PropertyRow(name, ValueKind.SOURCE, doc, _FIXED, default, sources, aliases=aliases)


def _fixed_choice(name: str, doc: str, *choices: str) -> PropertyRow:
    """Return the row of a choice of ours; the first one is the default."""
    return PropertyRow(name, ValueKind.CHOICE, doc, _OWN, choices[0], choices=choices)


_DEFINITIONS: Final = (
    PropertyRow(
        "fixed.schematype",
        ValueKind.CHOICE,
        "which kind of definitions are used; may be left out where only one kind is named",
        _FIXED,
        choices=("sourcedefs", "copybook"),
    ),
    PropertyRow(
        "fixed.sourcedefs",
        ValueKind.PATH,
        "source definitions file; for `fixed.schematype=sourcedefs`",
        _FIXED,
    ),
    PropertyRow(
        "fixed.copybook",
        ValueKind.PATH,
        "copybook; its COPY members are searched in its folder; for `fixed.schematype=copybook`",
        _FIXED,
    ),
    PropertyRow(
        "fixed.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE; one may be the header",
        _FIXED,
    ),
    PropertyRow(
        "fixed.userdefs.<SCHEMA.TABLE>.columns",
        ValueKind.NAMES,
        "columns of such a table, in order, without gaps",
        _FIXED,
    ),
    PropertyRow(
        "fixed.userdefs.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.TEXT,
        "type of such a column: `vchar N`, N characters",
        _FIXED,
    ),
    PropertyRow(
        "fixed.header",
        ValueKind.TEXT,
        "01 record of the copybook, or table of the definitions, that every record begins with; "
        "required",
        _FIXED,
    ),
)

_METADATA: Final = (
    _fixed_source(
        "fixed.seqid",
        "sequence id of a record; must increase",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _fixed_source(
        "fixed.timestamp", "commit timestamp", (*FIELD_OR_HEADER, SourceKind.TIMESTAMP), "*ts"
    ),
    PropertyRow(
        "fixed.timestamp.format",
        ValueKind.FORMAT,
        "format of the commit timestamp; default that of the field's DATEFORMAT comment, else "
        "`YYYY-MM-DD:HH:MI:SS.FFF`",
        _FIXED,
    ),
    _fixed_source("fixed.txid", "transaction id", (*FIELD_OR_HEADER, SourceKind.TX_ID), "*txid"),
    _fixed_source("fixed.txowner", "user name of the transaction", OR_LITERAL),
    _fixed_source("fixed.txname", "free text of the transaction", OR_LITERAL),
    _fixed_source(
        "fixed.optype",
        "operation code; required",
        FIELD_OR_HEADER,
        aliases=("fixed.header.optype",),
    ),
    *operation_rows("fixed", _FIXED),
    PropertyRow(
        "fixed.table",
        ValueKind.SOURCE,
        "name of the record's definition; several fields, comma-separated, are concatenated; "
        "required",
        _FIXED,
        sources=FIELD_OR_HEADER,
        aliases=("fixed.schemaandtable",),
    ),
    PropertyRow(
        "fixed.schema",
        ValueKind.TEXT,
        "schema of the table's name; quotes around it do not count",
        _FIXED,
    ),
    _fixed_source("fixed.txind", "transaction indicator", FIELD_OR_HEADER),
    *indicator_rows("fixed", _FIXED),
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
    _fixed_choice(
        "fixed.copybook.format", "which columns of a line hold text", "auto", "fixed", "free"
    ),
    _fixed_choice(
        "fixed.binarysizes",
        "bytes of binary numbers: 2, 4 or 8, or as few as hold them",
        "ibm",
        "smallest",
    ),
    _fixed_choice("fixed.binary", "byte order of COMP and COMP-4", "big", "little"),
    _fixed_choice("fixed.native", "byte order of COMP-5, and of IEEE floats", "big", "little"),
    _fixed_choice("fixed.floats", "form of COMP-1 and COMP-2", "ibm", "ieee"),
    _fixed_choice(
        "fixed.signs", "which sign nibbles and overpunches are accepted", "lenient", "strict"
    ),
    _fixed_choice("fixed.blank", "what a number or date of only blanks is", "error", "null"),
    PropertyRow(
        "fixed.textbytes",
        ValueKind.CHOICE,
        "the most bytes that a character of a copybook's text takes in the trail, which is UTF-8; default 1 for "
        "messages in UTF-8, else what the code page needs",
        _OWN,
        choices=("1", "2", "3", "4"),
    ),
    _fixed_choice(
        "fixed.depending",
        "where an OCCURS DEPENDING ON may be: only last in its record, or anywhere, with the items after it "
        "at their places for the most elements",
        "last",
        "most",
    ),
    _fixed_choice(
        "fixed.redefines", "whether redefining fields are columns too", "skip", "include"
    ),
)

FIXED: Final[tuple[PropertyRow, ...]] = (*_DEFINITIONS, *_METADATA, *_RECORDS, *_VALUES)


_XML: Final = "capture properties §7.1"

XML: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        "xml.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables",
        _XML,
    ),
    *userdefs_rows("xml", _INFERRED),
    PropertyRow(
        "xml.rules",
        ValueKind.NAMES,
        "names of the top rules; the properties of a rule begin with its name",
        _XML,
        aliases=("xmlparser.rules",),
    ),
    PropertyRow(
        "xml.namespaces.*",
        ValueKind.TEXT,
        "namespace of a prefix that paths have; paths without prefixes match any namespace",
        _OWN,
    ),
    PropertyRow(
        "xml.encoding",
        ValueKind.TEXT,
        "encoding of all messages without a byte-order mark, whatever they declare, as `utf-8`; `auto`: the declared one",
        _OWN,
        "auto",
    ),
    PropertyRow("xml.maxdepth", ValueKind.TEXT, "the most elements within each other", _OWN, "256"),
    PropertyRow(
        "xml.maxattributes", ValueKind.TEXT, "the most attributes of an element", _OWN, "10000"
    ),
)


_FORMATTER: Final = "GoldenGate for Big Data, JSON formatter"


def _json_source(
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
    _json_source(
        "json.schemaandtable", "member with the table's name, SCHEMA.TABLE", OR_LITERAL, "table"
    ),
    _json_source("json.optype", "member with the operation's type", FIELD_OR_HEADER, "op_type"),
    *operation_rows("json", _FORMATTER),
    _json_source(
        "json.timestamp",
        "member with the commit time",
        (*FIELD_OR_HEADER, SourceKind.TIMESTAMP),
        "op_ts",
    ),
    PropertyRow("json.timestamp.format", ValueKind.FORMAT, "format of the commit time", _OWN),
    _json_source(
        "json.seqid",
        "sequence id of a record; must increase. `pos` leaves out messages that were sent twice",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _json_source(
        "json.txid",
        "transaction id",
        (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.TX_ID),
        "*txid",
    ),
    _json_source("json.txowner", "user of the transaction", OR_LITERAL),
    _json_source("json.txname", "name of the transaction", OR_LITERAL),
    _json_source("json.txind", "transaction indicator", FIELD_OR_HEADER),
    *indicator_rows("json", _OWN),
)


_EVENTS: Final = "Debezium, change events"
_CONNECTOR: Final = "Debezium, connector properties"

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


NAME: Final = "event_publishing"
_DELIMITERS: Final = "IBM, delimited message format: Specifying delimiters"


def _delimiter(name: str, doc: str, default: str) -> PropertyRow:
    return PropertyRow(f"{NAME}.{name}", ValueKind.BYTES, doc, _DELIMITERS, default)


def _publication_choice(name: str, doc: str, *choices: str) -> PropertyRow:
    """Return the row of a choice; the first one is the default."""
    return PropertyRow(f"{NAME}.{name}", ValueKind.CHOICE, doc, _OWN, choices[0], choices=choices)


EVENT_PUBLISHING: Final[tuple[PropertyRow, ...]] = (
    PropertyRow(
        f"{NAME}.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables; without it and `userdefs` columns are numbered",
        _OWN,
    ),
    *userdefs_rows(NAME, _OWN),
    _delimiter(
        "fielddelim", "between columns: a character, or its byte as `\\xHH` or `X'HH'`", ","
    ),
    _delimiter("recorddelim", "after each change record; also `LF` or `NEL`", "LF"),
    _delimiter("quote", "around texts", '"'),
    _delimiter("decimalpoint", "in numbers", "."),
    PropertyRow(
        f"{NAME}.codepage",
        ValueKind.TEXT,
        "code page of the messages (MESSAGE_CODEPAGE), as `1208`, `37`, `1047`",
        "IBM, delimited message format: Specifying code pages for messages",
        "1208",
    ),
    _publication_choice(
        "undecodable",
        "bytes of a value that are not characters of the code page: an error, or the column is missing in this record, "
        "or U+FFFD for each byte",
        "error",
        "missing",
        "replace",
    ),
    switch_row(f"{NAME}.takeflagged", "records with an error flag are captured too", _OWN),
    _publication_choice(
        "content",
        "what a message holds, where it cannot be seen: a transaction (T), or one row (R) of maybe several",
        "auto",
        "transaction",
        "row",
    ),
    *(
        PropertyRow(f"{NAME}.optype.{word}val", ValueKind.BYTES, doc, origin, default)
        for word, doc, origin, default in (
            ("insert", "operation of an insert", "IBM, delimited message format", "ISRT"),
            ("update", "operation of an update", "IBM, delimited message format", "REPL"),
            ("delete", "operation of a delete", "inferred from the word of DL/I", "DLET"),
        )
    ),
)


__all__ = ["PROPERTIES", "Effect", "PropertyRow", "SourceKind", "ValueKind", "nearest", "row_of"]

PROPERTIES: Final[tuple[PropertyRow, ...]] = (
    *CONNECTION,
    *DEBEZIUM,
    *DELIMITED,
    *EVENT_PUBLISHING,
    *FIXED,
    *JSON,
    *XML,
)

_ROWS: Final[Mapping[str, PropertyRow]] = MappingProxyType(
    {name: row for row in PROPERTIES for name in (row.name, *row.aliases)}
)
_PART: Final = r'(?:"[^"]+"|[^."<>\s]+)'
_TWO_PARTS: Final = rf"{_PART}\.{_PART}"


def _pattern(name: str) -> re.Pattern[str]:
    # A table's own properties end in one more part, so its name may begin with a catalog.
    catalog = rf"(?:{_PART}\.)?" if ".userdefs." in name else ""
    return re.compile(
        re.escape(name)
        .replace("<SCHEMA\\.TABLE>", catalog + _TWO_PARTS)
        .replace("<COLUMN>", _PART)
        .replace("\\*", ".+")
    )


_PATTERNS: Final = tuple(
    (_pattern(row.name), row) for row in PROPERTIES if "<" in row.name or "*" in row.name
)


def row_of(name: str) -> PropertyRow | None:
    """Return the row of a property's name or alias, or None."""
    if name in _ROWS and "<" not in name and "*" not in name:
        return _ROWS[name]
    return next((row for pattern, row in _PATTERNS if pattern.fullmatch(name)), None)


def nearest(name: str) -> str:
    """Return a hint that names the nearest known property, or an empty text."""
    return did_you_mean(name, _ROWS, cutoff=0.5)
