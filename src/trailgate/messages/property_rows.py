"""What a row of the property table is: a property's name, value, default, and where that is known from.

Parsers share most properties of metadata, of tables that properties define, and of the values of codes: ``ParserRows`` makes these rows for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple


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


OWN: Final = "our own"
FIELD_OR_HEADER: Final = (SourceKind.FIELD, SourceKind.HEADER)
OR_LITERAL: Final = (*FIELD_OR_HEADER, SourceKind.LITERAL)

# The sources of metadata: where each may come from, and from where it does without a property.
_METADATA: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "seqid": {
            "doc": "sequence id of a record; must increase",
            "sources": (*FIELD_OR_HEADER, SourceKind.MESSAGE_ID, SourceKind.SEQ_ID),
            "default": "*seqid",
        },
        "timestamp": {
            "doc": "commit timestamp",
            "sources": (*FIELD_OR_HEADER, SourceKind.TIMESTAMP),
            "default": "*ts",
        },
        "txid": {
            "doc": "transaction id",
            "sources": (*FIELD_OR_HEADER, SourceKind.TX_ID),
            "default": "*txid",
        },
        "txowner": {"doc": "user name of the transaction", "sources": OR_LITERAL},
        "txname": {"doc": "free text of the transaction", "sources": OR_LITERAL},
        "optype": {"doc": "operation code; required", "sources": FIELD_OR_HEADER},
        "txind": {"doc": "transaction indicator", "sources": FIELD_OR_HEADER},
    }
)
_OPERATIONS: Final = (
    ("insert", "value of an insert", "I"),
    ("update", "value of an update", "U"),
    ("delete", "value of a delete", "D"),
    ("truncate", "value of a truncate", "T"),
)
_INDICATORS: Final = (
    ("begin", "value of the first operation; without any `txind` value also `0`", "B"),
    ("middle", "value of an operation between; also `1`", "M"),
    ("end", "value of the last operation; also `2`", "E"),
    ("whole", "value of a transaction's only operation; also `3`", "W"),
)


@dataclass(frozen=True, slots=True)
class ParserRows:
    """Makes the rows of a parser, whose names are given without its prefix; ``origin`` is that of rows that name none."""

    parser: str
    origin: str

    def row(
        self, name: str, kind: ValueKind, doc: str, default: str | None = None, **more: Any
    ) -> PropertyRow:
        """Return the row of any property; ``more`` are further members of the row."""
        more.setdefault("origin", self.origin)
        return PropertyRow(f"{self.parser}.{name}", kind, doc, default=default, **more)

    def choice(self, name: str, doc: str, *choices: str, origin: str = OWN) -> PropertyRow:
        """Return the row of a choice; the first one is the default."""
        return self.row(name, ValueKind.CHOICE, doc, choices[0], origin=origin, choices=choices)

    def switch(self, name: str, doc: str, **more: Any) -> PropertyRow:
        """Return the row of a property that is true or false; it is false where it is not given."""
        return self.row(name, ValueKind.BOOLEAN, doc, "false", choices=("true", "false"), **more)

    def source(self, name: str, **changes: Any) -> PropertyRow:
        """Return the row of where metadata comes from, as all parsers have it but for the ``changes``."""
        members: dict[str, Any] = {**_METADATA.get(name, {}), **changes}
        return self.row(name, ValueKind.SOURCE, **members)

    def indicators(self) -> tuple[PropertyRow, ...]:
        """Return the rows of indicator values."""
        return tuple(
            self.row(f"txind.{word}val", ValueKind.BYTES, doc, default)
            for word, doc, default in _INDICATORS
        )

    def operations(self) -> tuple[PropertyRow, ...]:
        """Return the rows of operation codes; that of a truncate is ours."""
        own = "our own: the adapter's is not documented"
        return tuple(
            self.row(
                f"optype.{word}val",
                ValueKind.BYTES,
                doc,
                default,
                origin=own if word == "truncate" else self.origin,
                aliases=(f"{self.parser}.optype.{word}",),
            )
            for word, doc, default in _OPERATIONS
        )

    def userdefs(self, origin: str) -> tuple[PropertyRow, ...]:
        """Return the rows of the tables that properties define themselves."""
        return tuple(
            self.row(f"userdefs.{name}", kind, doc, origin=origin)
            for name, kind, doc in (
                (
                    "tables",
                    ValueKind.NAMES,
                    "tables defined here, as SCHEMA.TABLE; in addition to `sourcedefs` or instead of it",
                ),
                (
                    "<SCHEMA.TABLE>.columns",
                    ValueKind.NAMES,
                    "columns of such a table, in order",
                ),
                (
                    "<SCHEMA.TABLE>.<COLUMN>",
                    ValueKind.TEXT,
                    "type of such a column: `vchar N`, text of length N; `vchar N key`: a column of the key (our own)",
                ),
            )
        )


def idle_row(name: str, doc: str, reason: str, kind: ValueKind = ValueKind.TEXT) -> PropertyRow:
    """Return the row of a property that does nothing here."""
    return PropertyRow(name, kind, doc, "capture properties §2", effect=Effect.NONE, reason=reason)
