"""The capture properties: one row each, with what its value may be and what it does.

Sources name sections of the capture reference (``docs/properties.md`` lists the same rows).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple


class ValueKind(Enum):
    """What a property's value is."""

    TEXT = "text"
    PATH = "file"
    NAMES = "names, comma-separated"
    SOURCE = "value source"
    BYTES = "text or \\xHH"
    BOOLEAN = "true or false"
    FORMAT = "date format"
    CHOICE = "one of"


class SourceKind(Enum):
    """Where a metadata value comes from, as it is written (capture reference 1.1)."""

    FIELD = "a name from delim.header"
    HEADER = "$name"
    MESSAGE_ID = "$jmsid"
    TIMESTAMP = "*ts"
    TX_ID = "*txid"
    SEQ_ID = "*seqid"
    LITERAL = '"value"'


class Effect(Enum):
    """Whether a property does something here."""

    USED = "used"
    NONE = "without effect"


class PropertyRow(NamedTuple):
    """One property; ``<...>`` in a name stands for a user's own words, ``*`` for any rest."""

    name: str
    kind: ValueKind
    doc: str
    origin: str
    default: str | None = None
    sources: tuple[SourceKind, ...] = ()
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    effect: Effect = Effect.USED
    reason: str = ""


_JVM: Final = "no Java runs here"
_JNDI: Final = "messages come from Spark, a journal or files, not over JNDI"
_LOGGING: Final = "the run's own logging applies"
_REPORT: Final = "the run prints its own summary"

_INFERRED: Final = "inferred from `fixed.userdefs` of section 5.3"

_FIELD_OR_HEADER: Final = (SourceKind.FIELD, SourceKind.HEADER)
_OR_LITERAL: Final = (*_FIELD_OR_HEADER, SourceKind.LITERAL)


def _idle(name: str, doc: str, reason: str, kind: ValueKind = ValueKind.TEXT) -> PropertyRow:
    return PropertyRow(name, kind, doc, "section 2", effect=Effect.NONE, reason=reason)


def _source(
    name: str, doc: str, sources: tuple[SourceKind, ...], default: str | None = None
) -> PropertyRow:
    origin = "section 6.2"
    aliases = ("delim.id",) if name == "delim.seqid" else ()
    return PropertyRow(name, ValueKind.SOURCE, doc, origin, default, sources, aliases=aliases)


def _bytes(
    name: str, doc: str, default: str | None = None, aliases: tuple[str, ...] = ()
) -> PropertyRow:
    return PropertyRow(name, ValueKind.BYTES, doc, "section 6.2", default, aliases=aliases)


def _switch(name: str, doc: str) -> PropertyRow:
    return PropertyRow(
        name, ValueKind.BOOLEAN, doc, "section 6.2", "false", choices=("true", "false")
    )


_CONNECTION: Final = (
    _idle("gg.log", "logging implementation", _LOGGING),
    _idle("gg.log.level", "logging level", _LOGGING),
    _idle("gg.log.file", "log file", _LOGGING, ValueKind.PATH),
    _idle("gg.log.classpath", "where the logging JARs are", _LOGGING),
    _idle("gg.log.*", "any other logging property", _LOGGING),
    _idle("jvm.bootoptions", "options of the embedded JVM", _JVM),
    _idle("jvm.*", "any other JVM property", _JVM),
    _idle("jms.report.output", "where the JMS report goes: report, log, both", _REPORT),
    _idle("jms.report.time", "report every interval, as in 30sec", _REPORT),
    _idle("jms.report.records", "report every n records", _REPORT),
    _idle("jms.destination", "JNDI name of the queue or topic", _JNDI),
    _idle("jms.connectionFactory", "JNDI name of the connection factory", _JNDI),
    _idle("jms.user", "user of the JMS connection", _JNDI),
    _idle("jms.password", "password of the JMS connection", _JNDI),
    _idle("java.naming.provider.url", "URL of the JNDI provider", _JNDI),
    _idle("java.naming.factory.initial", "class of the JNDI context factory", _JNDI),
    _idle("java.naming.security.principal", "JNDI user", _JNDI),
    _idle("java.naming.security.credentials", "JNDI password", _JNDI),
    _idle("java.naming.*", "any other JNDI property", _JNDI),
    PropertyRow(
        "jms.id",
        ValueKind.TEXT,
        "what `$jmsid` is: `ogg`, `time`, `wmq`, `activemq`, or the name of a message header",
        "section 2.1",
    ),
    PropertyRow(
        "parser.type",
        ValueKind.CHOICE,
        "which parser reads the messages; this version has `delim`",
        "section 3",
        choices=("fixed", "delim", "xml"),
    ),
)

_METADATA: Final = (
    PropertyRow(
        "delim.sourcedefs",
        ValueKind.PATH,
        "source definitions file of the tables; required unless `delim.userdefs.tables` is given",
        "section 6.2",
    ),
    PropertyRow(
        "delim.userdefs.tables",
        ValueKind.NAMES,
        "tables defined here, as SCHEMA.TABLE; beside `delim.sourcedefs` or instead of it",
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
        "type of such a column: `vchar N`, text of length N",
        _INFERRED,
    ),
    PropertyRow(
        "delim.header",
        ValueKind.NAMES,
        "names of the leading metadata columns, in order; required",
        "section 6.2",
    ),
    _source(
        "delim.seqid",
        "sequence id of a record; must increase",
        (*_FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
        "*seqid",
    ),
    _source(
        "delim.timestamp", "commit timestamp", (*_FIELD_OR_HEADER, SourceKind.TIMESTAMP), "*ts"
    ),
    PropertyRow(
        "delim.timestamp.format",
        ValueKind.FORMAT,
        "format of the commit timestamp; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        "section 4.1",
    ),
    _source("delim.txid", "transaction id", (*_FIELD_OR_HEADER, SourceKind.TX_ID), "*txid"),
    _source("delim.txowner", "user name of the transaction", _OR_LITERAL),
    _source("delim.txname", "free text of the transaction", _OR_LITERAL),
    _source("delim.optype", "operation code; required", _FIELD_OR_HEADER),
    _bytes("delim.optype.insertval", "value of an insert", "I", ("delim.optype.insert",)),
    _bytes("delim.optype.updateval", "value of an update", "U", ("delim.optype.update",)),
    _bytes("delim.optype.deleteval", "value of a delete", "D", ("delim.optype.delete",)),
    PropertyRow(
        "delim.optype.truncateval",
        ValueKind.BYTES,
        "value of a truncate",
        "our own: the adapter's is not documented",
        "T",
        aliases=("delim.optype.truncate",),
    ),
    _source("delim.schemaandtable", "table name as SCHEMA.TABLE", _FIELD_OR_HEADER),
    _source("delim.schema", "schema name, beside `delim.table`", _OR_LITERAL),
    _source("delim.table", "table name", _FIELD_OR_HEADER),
    _source("delim.txind", "transaction indicator", _FIELD_OR_HEADER),
    _bytes("delim.txind.beginval", "value of the first operation", "B"),
    _bytes("delim.txind.middleval", "value of an operation between", "M"),
    _bytes("delim.txind.endval", "value of the last operation", "E"),
    _bytes("delim.txind.wholeval", "value of a transaction's only operation", "W"),
)

_SHAPE: Final = (
    _bytes("delim.fielddelim", "between fields; the default is our choice", ","),
    _bytes(
        "delim.linedelim",
        "between records; the default is our choice",
        r"\x0a",
        ("delim.recorddelim",),
    ),
    _bytes("delim.quote", "around quoted values; without it nothing is quoted"),
    _bytes("delim.nullindicator", "an unquoted value that is NULL; without it none is"),
    _bytes("delim.fielddelim.escaped", "stands for the field delimiter in data"),
    _bytes("delim.linedelim.escaped", "stands for the record delimiter in data"),
    _bytes("delim.quote.escaped", "stands for the quote in a quoted value"),
    _bytes("delim.nullindicator.escaped", "stands for the null indicator's text as data"),
    _switch("delim.hasbefores", "every record has before and after values"),
    _switch("delim.hasnames", "every record has column names"),
    _switch("delim.afterfirst", "after values stand in front of before values"),
    _switch("delim.isgrouped", "names, before and after values stand in blocks"),
    PropertyRow(
        "delim.dateformat",
        ValueKind.FORMAT,
        "format of all date columns; default `YYYY-MM-DD:HH:MI:SS.FFF`",
        "section 6.2",
        aliases=("delim.dateformat.default",),
    ),
    PropertyRow(
        "delim.dateformat.<SCHEMA.TABLE>",
        ValueKind.FORMAT,
        "format of a table's date columns",
        "section 6.2",
    ),
    PropertyRow(
        "delim.dateformat.<SCHEMA.TABLE>.<COLUMN>",
        ValueKind.FORMAT,
        "format of one date column; goes before the table's and the global one",
        "section 6.2",
    ),
)

PROPERTIES: Final[tuple[PropertyRow, ...]] = (*_CONNECTION, *_METADATA, *_SHAPE)

_ROWS: Final[Mapping[str, PropertyRow]] = MappingProxyType(
    {name: row for row in PROPERTIES for name in (row.name, *row.aliases)}
)
_PART: Final = r'(?:"[^"]+"|[^."<>\s]+)'
_TWO_PARTS: Final = rf"{_PART}\.{_PART}"


def _pattern(name: str) -> re.Pattern[str]:
    # A table's own properties end in one more part, so its name may have a catalog in front.
    catalog = rf"(?:{_PART}\.)?" if name.startswith("delim.userdefs.") else ""
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
    known = {known.casefold(): known for known in _ROWS}
    found = get_close_matches(name.casefold(), known, 1, 0.5)
    return f"Did you mean {known[found[0]]}?" if found else ""
