"""The ``event_publishing.*`` properties: ours, since the adapter has no parser of publications."""

from __future__ import annotations

from typing import Final

from trailgate.messages.properties.rows import (
    PropertyRow,
    ValueKind,
    switch_row,
    userdefs_rows,
)

NAME: Final = "event_publishing"
_OWN: Final = "our own"
_DELIMITERS: Final = "IBM, delimited message format: Specifying delimiters"


def _delimiter(name: str, doc: str, default: str) -> PropertyRow:
    return PropertyRow(f"{NAME}.{name}", ValueKind.BYTES, doc, _DELIMITERS, default)


def _choice(name: str, doc: str, *choices: str) -> PropertyRow:
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
    _choice(
        "undecodable",
        "bytes of a value that are not characters of the code page: an error, or the column is missing in this record, "
        "or U+FFFD for each byte",
        "error",
        "missing",
        "replace",
    ),
    switch_row(f"{NAME}.takeflagged", "records with an error flag are captured too", _OWN),
    _choice(
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
