"""The table of all capture properties, one row each: type, default, meaning.

`docs/properties.md` is generated from these rows. Each row cites its origin: the adapter's manual
for common properties and `delim.*`, `fixed.*` and `xml.*` (capture properties §5 to §7), GoldenGate
for Big Data's JSON formatter for `json.*`, and Debezium's documentation for `debezium.*`. The
`event_publishing.*` properties are our own, because the adapter cannot read publications.
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
    OWN,
    ParserRows,
    PropertyEffect,
    PropertyRow,
    PropertyType,
    SourceKind,
    idle_row,
)

BYTES, CHOICE, FORMAT = PropertyType.BYTES, PropertyType.CHOICE, PropertyType.FORMAT
NAMES, PATH, TEXT = PropertyType.NAMES, PropertyType.PATH, PropertyType.TEXT

_JVM: Final = "no Java runs here"
_JNDI: Final = "messages come from files or a broker, not over JNDI"
_LOGGING: Final = "the run's own logging applies"
_BROKER: Final = "a capture from a broker uses it, where --from names none"
_REPORT: Final = "a capture from a broker obeys it; of files the run prints its own summary"

CONNECTION: Final[tuple[PropertyRow, ...]] = (
    idle_row("gg.log", "logging implementation", _LOGGING),
    idle_row("gg.log.level", "logging level", _LOGGING),
    idle_row("gg.log.file", "log file", _LOGGING, PATH),
    idle_row("gg.log.classpath", "the folders of the logging JARs", _LOGGING),
    idle_row("gg.log.*", "any other logging property", _LOGGING),
    idle_row("jvm.bootoptions", "options of the embedded JVM", _JVM),
    idle_row("jvm.*", "any other JVM property", _JVM),
    idle_row("jms.report.output", "the destination of the JMS report: report, log, both", _REPORT),
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
        TEXT,
        "what `$jmsid` is: `ogg`, `time`, `wmq`, `activemq`, or the name of a message header; such ids are compared",
        "capture properties §2.1",
    ),
    PropertyRow(
        "parser.type",
        CHOICE,
        "which parser reads the messages",
        "capture properties §3",
        choices=("fixed", "delim", "xml", "event_publishing", "json", "debezium"),
    ),
)

_INFERRED: Final = "inferred from `fixed.userdefs`, capture properties §5.3"
_TABLES: Final = "source definitions file of the tables"

_DELIMITED: Final = ParserRows("delim", "capture properties §6.2")
DELIMITED: Final[tuple[PropertyRow, ...]] = (
    _DELIMITED.row(
        "sourcedefs", PATH, f"{_TABLES}; required unless `delim.userdefs.tables` is given"
    ),
    *_DELIMITED.userdefs(_INFERRED),
    _DELIMITED.row("header", NAMES, "names of the leading metadata columns, in order; required"),
    _DELIMITED.source("seqid", aliases=("delim.id",)),
    _DELIMITED.source("timestamp"),
    _DELIMITED.row(
        "timestamp.format",
        FORMAT,
        "format of the commit timestamp; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        origin="capture properties §4.1",
    ),
    *map(_DELIMITED.source, ("txid", "txowner", "txname", "optype")),
    *_DELIMITED.operations(),
    _DELIMITED.source("schemaandtable", doc="table name as SCHEMA.TABLE", sources=FIELD_OR_HEADER),
    _DELIMITED.source("schema", doc="schema name, with `delim.table`", sources=OR_LITERAL),
    _DELIMITED.source("table", doc="table name", sources=FIELD_OR_HEADER),
    _DELIMITED.source("txind"),
    *_DELIMITED.indicators(),
    _DELIMITED.row("fielddelim", BYTES, "between fields; the default is ours", ","),
    _DELIMITED.row(
        "linedelim",
        BYTES,
        "between records; a `\\x0d` before `\\x0a` is not data; the default is ours",
        r"\x0a",
        aliases=("delim.recorddelim",),
    ),
    _DELIMITED.row("quote", BYTES, "around quoted values; without it nothing is quoted"),
    _DELIMITED.row(
        "nullindicator",
        BYTES,
        "an unquoted value that means NULL; without it an empty unquoted value does",
    ),
    *(
        _DELIMITED.row(
            f"{name}.escaped",
            BYTES,
            f"stands for the {what} delimiter in a quoted value; in any value without `delim.quote`",
        )
        for name, what in (("fielddelim", "field"), ("linedelim", "record"))
    ),
    _DELIMITED.row("quote.escaped", BYTES, "stands for the quote in a quoted value"),
    _DELIMITED.row(
        "nullindicator.escaped",
        BYTES,
        "a quoted value that is the null indicator's text; any such value without `delim.quote`",
    ),
    _DELIMITED.switch("hasbefores", "every record has before and after values"),
    _DELIMITED.switch("hasnames", "every record has column names"),
    _DELIMITED.switch("afterfirst", "after values come before the before values"),
    _DELIMITED.switch("isgrouped", "names, before and after values are in blocks"),
    _DELIMITED.row(
        "dateformat",
        FORMAT,
        "format of all date columns; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        aliases=("delim.dateformat.default",),
    ),
    _DELIMITED.row("dateformat.<SCHEMA.TABLE>", FORMAT, "format of a table's date columns"),
    _DELIMITED.row(
        "dateformat.<SCHEMA.TABLE>.<COLUMN>",
        FORMAT,
        "format of one date column; takes precedence over the table's and the global one",
    ),
)

_FIXED: Final = ParserRows("fixed", "capture properties §5")
FIXED: Final[tuple[PropertyRow, ...]] = (
    _FIXED.row(
        "schematype",
        CHOICE,
        "the kind of definitions to use; optional if only one kind is named",
        choices=("sourcedefs", "copybook"),
    ),
    _FIXED.row("sourcedefs", PATH, "source definitions file; for `fixed.schematype=sourcedefs`"),
    _FIXED.row(
        "copybook",
        PATH,
        "copybook; its COPY members are searched in its folder; for `fixed.schematype=copybook`",
    ),
    _FIXED.row(
        "userdefs.tables", NAMES, "tables defined here, as SCHEMA.TABLE; one may be the header"
    ),
    _FIXED.row(
        "userdefs.<SCHEMA.TABLE>.columns",
        NAMES,
        "columns of such a table, in order, without gaps",
    ),
    _FIXED.row(
        "userdefs.<SCHEMA.TABLE>.<COLUMN>",
        TEXT,
        "type of such a column: `vchar N`, N characters",
    ),
    _FIXED.row(
        "header",
        TEXT,
        "01 record of the copybook, or table of the definitions, that every record begins with; required",
    ),
    *map(_FIXED.source, ("seqid", "timestamp")),
    _FIXED.row(
        "timestamp.format",
        FORMAT,
        "format of the commit timestamp; default that of the field's DATEFORMAT comment, else `YYYY-MM-DD:HH:MI:SS.FFF`",
    ),
    *map(_FIXED.source, ("txid", "txowner", "txname")),
    _FIXED.source("optype", aliases=("fixed.header.optype",)),
    *_FIXED.operations(),
    _FIXED.source(
        "table",
        doc="name of the record's definition; several fields, comma-separated, are concatenated; required",
        sources=FIELD_OR_HEADER,
        aliases=("fixed.schemaandtable",),
    ),
    _FIXED.row("schema", TEXT, "schema of the table's name; quotes around it do not count"),
    _FIXED.source("txind"),
    *_FIXED.indicators(),
    _FIXED.row(
        "records",
        CHOICE,
        "how a message's records are separated: a line each, `fixed.recordlength` each, or one a "
        "message; default `length` if that length is set, else `line`",
        origin=OWN,
        choices=("line", "length", "message"),
    ),
    _FIXED.row(
        "linedelim",
        BYTES,
        "after a record; default `\\x0a`, with or without `\\x0d` before it",
        origin=OWN,
    ),
    _FIXED.row("recordlength", TEXT, "length of all records, with header", origin=OWN),
    _FIXED.row(
        "codepage",
        TEXT,
        "code page of the messages, such as `cp037`; in UTF-8 positions and lengths count characters",
        "utf-8",
        origin=OWN,
    ),
    _FIXED.choice("copybook.format", "which columns of a line hold text", "auto", "fixed", "free"),
    _FIXED.row(
        "constants",
        TEXT,
        "constants of conditional text in copybooks: `NAME=VALUE, NAME=OFF`",
        origin=OWN,
    ),
    _FIXED.choice(
        "binarysizes",
        "bytes of binary numbers: 2, 4 or 8, or as few as hold them",
        "ibm",
        "smallest",
    ),
    _FIXED.choice("binary", "byte order of COMP and COMP-4", "big", "little"),
    _FIXED.choice("native", "byte order of COMP-5, and of IEEE floats", "big", "little"),
    _FIXED.choice("floats", "form of COMP-1 and COMP-2", "ibm", "ieee"),
    _FIXED.choice("signs", "which sign nibbles and overpunches are accepted", "lenient", "strict"),
    _FIXED.choice("blank", "the value of a number or date of only blanks", "error", "null"),
    _FIXED.row(
        "textbytes",
        CHOICE,
        "the maximum number of bytes of a character of a copybook's text in the trail, which is UTF-8; default 1 "
        "for messages in UTF-8, else the maximum of the code page",
        origin=OWN,
        choices=("1", "2", "3", "4"),
    ),
    _FIXED.choice(
        "depending",
        "where an OCCURS DEPENDING ON may be: only last in its record, or anywhere, with the items after it "
        "at their offsets for the maximum number of elements",
        "last",
        "most",
    ),
    _FIXED.choice("redefines", "whether redefining fields are columns too", "skip", "include"),
)

_XML: Final = ParserRows("xml", OWN)
XML: Final[tuple[PropertyRow, ...]] = (
    _XML.row("sourcedefs", PATH, _TABLES, origin="capture properties §7.1"),
    *_XML.userdefs(_INFERRED),
    _XML.row(
        "rules",
        NAMES,
        "names of the top rules; the properties of a rule begin with its name",
        origin="capture properties §7.1",
        aliases=("xmlparser.rules",),
    ),
    _XML.row(
        "namespaces.*",
        TEXT,
        "namespace of a prefix that paths have; paths without prefixes match any namespace",
    ),
    _XML.row(
        "encoding",
        TEXT,
        "encoding of all messages without a byte-order mark, such as `utf-8`, even if they declare another one; `auto`: the declared one",
        "auto",
    ),
    _XML.row("maxdepth", TEXT, "the most elements within each other", "256"),
    _XML.row("maxattributes", TEXT, "the most attributes of an element", "10000"),
)

_JSON: Final = ParserRows("json", "GoldenGate for Big Data, JSON formatter")
_OWN_JSON: Final = ParserRows("json", OWN)
JSON: Final[tuple[PropertyRow, ...]] = (
    _OWN_JSON.row("sourcedefs", PATH, _TABLES),
    *_JSON.userdefs(_INFERRED),
    _JSON.choice(
        "model",
        "where columns are: `op`, in the members `before` and `after`; `row`, in the message itself; `flat`, in members such as `after.ID`",
        "op",
        "row",
        "flat",
        origin=_JSON.origin,
    ),
    _JSON.row("before", TEXT, "member with the before image, or the path to it", "before"),
    _JSON.row("after", TEXT, "member with the after image, or the path to it", "after"),
    _OWN_JSON.row(
        "row",
        TEXT,
        "with `model=row`: path to the object that has the columns; without it the message itself",
    ),
    _JSON.row(
        "delimiter",
        TEXT,
        "with `model=flat`: the text between `after` and a column's name (flattenDelimiter)",
        ".",
    ),
    _JSON.row("tokens", TEXT, "member with the tokens, or the path to it", "tokens"),
    _OWN_JSON.row(
        "binary",
        CHOICE,
        "how bytes are written; required if a table has columns of bytes",
        choices=("hex", "base64"),
    ),
    _JSON.source(
        "schemaandtable",
        doc="member with the table's name, SCHEMA.TABLE",
        sources=OR_LITERAL,
        default="table",
    ),
    _JSON.source("optype", doc="member with the operation's type", default="op_type"),
    *_JSON.operations(),
    _JSON.source("timestamp", doc="member with the commit time", default="op_ts"),
    _OWN_JSON.row("timestamp.format", FORMAT, "format of the commit time"),
    _OWN_JSON.source(
        "seqid",
        doc="sequence id of a record; must increase. `pos` skips messages that were sent twice",
    ),
    _OWN_JSON.source("txid", sources=(*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.TX_ID)),
    *map(_OWN_JSON.source, ("txowner", "txname", "txind")),
    *_OWN_JSON.indicators(),
)

_DEBEZIUM: Final = ParserRows("debezium", "Debezium, change events")
_CONNECTOR: Final = ParserRows("debezium", "Debezium, connector properties")
_OWN_DEBEZIUM: Final = ParserRows("debezium", OWN)
DEBEZIUM: Final[tuple[PropertyRow, ...]] = (
    _OWN_DEBEZIUM.row(
        "sourcedefs", PATH, f"{_TABLES}; not needed for files of events with schemas"
    ),
    *_DEBEZIUM.userdefs(_INFERRED),
    _DEBEZIUM.source(
        "schema",
        doc="member with the schema's name; of several, with `|` between them, the first that there is",
        sources=OR_LITERAL,
        default="source.schema|source.db",
    ),
    _DEBEZIUM.source(
        "table", doc="member with the table's name", sources=OR_LITERAL, default="source.table"
    ),
    _DEBEZIUM.source(
        "timestamp",
        doc="member with the commit time; for `source.ts_ms`, `source.ts_us` is used instead if it exists",
        default="source.ts_ms",
    ),
    _DEBEZIUM.source(
        "txid",
        doc="transaction id; events that follow one another and have the same one are a transaction. `*txid`: each message is one",
        default="transaction.id|source.txId|source.gtid",
    ),
    *map(_OWN_DEBEZIUM.source, ("seqid", "txowner", "txname")),
    _OWN_DEBEZIUM.choice(
        "model",
        "`event`: whole change events; `row`: rows that the transformation ExtractNewRecordState has made of them. Its metadata are the members `__op`, `__table` and so on, "
        "which are the defaults of the properties above then",
        "event",
        "row",
        origin=_OWN_DEBEZIUM.origin,
    ),
    PropertyRow(
        "debezium.add.fields.prefix",
        TEXT,
        "with `model=row`: the prefix of members that are not columns",
        "Debezium, new record state extraction",
        "__",
    ),
    _CONNECTOR.row(
        "time.precision.mode",
        CHOICE,
        "the unit of numbers in date time columns, if messages have no schema",
        choices=(
            "adaptive",
            "adaptive_time_microseconds",
            "connect",
            "isostring",
            "microseconds",
            "nanoseconds",
        ),
    ),
    _CONNECTOR.row(
        "decimal.handling.mode",
        CHOICE,
        "the form of text in columns of numbers, if messages have no schema",
        choices=("precise", "double", "string"),
    ),
    _CONNECTOR.row(
        "binary.handling.mode",
        CHOICE,
        "the form of text in columns of bytes; `bytes` and `base64` are the same in JSON",
        choices=("bytes", "base64", "base64-url-safe", "hex"),
    ),
    _CONNECTOR.row(
        "unavailable.value.placeholder",
        TEXT,
        "the value of a column that was not logged: it is missing",
        "__debezium_unavailable_value",
    ),
)

NAME: Final = "event_publishing"
_PUBLICATIONS: Final = ParserRows(NAME, OWN)
_DELIMITERS: Final = ParserRows(NAME, "IBM, delimited message format: Specifying delimiters")
_IBM: Final = "IBM, delimited message format"
EVENT_PUBLISHING: Final[tuple[PropertyRow, ...]] = (
    _PUBLICATIONS.row(
        "sourcedefs", PATH, f"{_TABLES}; without it and `userdefs` columns are numbered"
    ),
    *_PUBLICATIONS.userdefs(OWN),
    _DELIMITERS.row(
        "fielddelim",
        BYTES,
        "between columns: a character, or its byte as `\\xHH` or `X'HH'`",
        ",",
    ),
    _DELIMITERS.row("recorddelim", BYTES, "after each change record; also `LF` or `NEL`", "LF"),
    _DELIMITERS.row("quote", BYTES, "around texts", '"'),
    _DELIMITERS.row("decimalpoint", BYTES, "in numbers", "."),
    _PUBLICATIONS.row(
        "codepage",
        TEXT,
        "code page of the messages (MESSAGE_CODEPAGE), as `1208`, `37`, `1047`",
        "1208",
        origin=f"{_IBM}: Specifying code pages for messages",
    ),
    _PUBLICATIONS.choice(
        "undecodable",
        "bytes of a value that are not characters of the code page: an error, or the column is missing in this record, "
        "or U+FFFD for each byte; always an error in a key",
        "error",
        "missing",
        "replace",
    ),
    _PUBLICATIONS.switch("takeflagged", "records with an error flag are captured too"),
    _PUBLICATIONS.choice(
        "content",
        "the content of a message, if it cannot be recognized: a transaction (T), or one row (R) of maybe several",
        "auto",
        "transaction",
        "row",
    ),
    *(
        _PUBLICATIONS.row(f"optype.{word}val", BYTES, doc, default, origin=origin)
        for word, doc, default, origin in (
            ("insert", "operation of an insert", "ISRT", _IBM),
            ("update", "operation of an update", "REPL", _IBM),
            ("delete", "operation of a delete", "DLET", "inferred from the word of DL/I"),
        )
    ),
)

__all__ = [
    "PROPERTIES",
    "PropertyEffect",
    "PropertyRow",
    "PropertyType",
    "SourceKind",
    "find_property",
    "nearest_property",
]

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


def find_property(name: str) -> PropertyRow | None:
    """Return the row of the property table for a name or alias of a capture property, or None."""
    if name in _ROWS and "<" not in name and "*" not in name:
        return _ROWS[name]
    return next((row for pattern, row in _PATTERNS if pattern.fullmatch(name)), None)


def nearest_property(name: str) -> str:
    """Return a hint with the capture property whose name is most similar, or ""."""
    return did_you_mean(name, _ROWS, cutoff=0.5)
