"""What a row of the property table is: a property's name, value, default, and where that is known from."""

from __future__ import annotations

from enum import Enum
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
    """Where a metadata value comes from, as it is written (capture properties §1.1)."""

    FIELD = "a field's name"
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


FIELD_OR_HEADER: Final = (SourceKind.FIELD, SourceKind.HEADER)
OR_LITERAL: Final = (*FIELD_OR_HEADER, SourceKind.LITERAL)


def idle_row(name: str, doc: str, reason: str, kind: ValueKind = ValueKind.TEXT) -> PropertyRow:
    """Return the row of a property that does nothing here."""
    return PropertyRow(name, kind, doc, "capture properties §2", effect=Effect.NONE, reason=reason)


def switch_row(name: str, doc: str, origin: str) -> PropertyRow:
    """Return the row of a property that is true or false; it is false where it is not given."""
    return PropertyRow(name, ValueKind.BOOLEAN, doc, origin, "false", choices=("true", "false"))


def indicator_rows(parser: str, origin: str) -> tuple[PropertyRow, ...]:
    """Return the rows of a parser's indicator values, which all parsers have alike."""
    return tuple(
        PropertyRow(f"{parser}.txind.{word}val", ValueKind.BYTES, doc, origin, default)
        for word, doc, default in (
            ("begin", "value of the first operation; without any `txind` value also `0`", "B"),
            ("middle", "value of an operation between; also `1`", "M"),
            ("end", "value of the last operation; also `2`", "E"),
            ("whole", "value of a transaction's only operation; also `3`", "W"),
        )
    )


def userdefs_rows(parser: str, origin: str) -> tuple[PropertyRow, ...]:
    """Return the rows of the tables that a parser's properties define themselves."""
    return (
        PropertyRow(
            f"{parser}.userdefs.tables",
            ValueKind.NAMES,
            "tables defined here, as SCHEMA.TABLE",
            origin,
        ),
        PropertyRow(
            f"{parser}.userdefs.<SCHEMA.TABLE>.columns",
            ValueKind.NAMES,
            "columns of such a table, in order",
            origin,
        ),
        PropertyRow(
            f"{parser}.userdefs.<SCHEMA.TABLE>.<COLUMN>",
            ValueKind.TEXT,
            "type of such a column: `vchar N`, text of length N; `vchar N key`: a column of the key (our own)",
            origin,
        ),
    )


def operation_rows(parser: str, origin: str) -> tuple[PropertyRow, ...]:
    """Return the rows of a parser's operation codes; that of a truncate is ours."""
    own = "our own: the adapter's is not documented"
    return tuple(
        PropertyRow(
            f"{parser}.optype.{word}val",
            ValueKind.BYTES,
            f"value of {article} {word}",
            own if word == "truncate" else origin,
            default,
            aliases=(f"{parser}.optype.{word}",),
        )
        for word, article, default in (
            ("insert", "an", "I"),
            ("update", "an", "U"),
            ("delete", "a", "D"),
            ("truncate", "a", "T"),
        )
    )
