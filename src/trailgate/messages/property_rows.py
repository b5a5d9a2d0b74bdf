"""The facts that the property table records about each property: name, type, default, origin and effect.

Most properties of metadata, of user-defined tables and of operation codes are the same for all
parsers. `ParserRows` creates these rows for each parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

OWN: Final = "our own"
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


class PropertyType(Enum):
    """The type of a property's value."""

    TEXT = "text"
    PATH = "file"
    NAMES = "names, comma-separated"
    SOURCE = "value source"
    BYTES = "text or \\xHH"
    BOOLEAN = "true or false"
    FORMAT = "date format"
    CHOICE = "one of"


class SourceKind(Enum):
    """The kinds of sources that a metadata property may name.

    Each value is its notation (capture properties §1.1).
    """

    FIELD = "a field's name"
    HEADER = "$name"
    MESSAGE_ID = "$jmsid"
    TIMESTAMP = "*ts"
    TX_ID = "*txid"
    SEQ_ID = "*seqid"
    LITERAL = '"value"'


class PropertyEffect(Enum):
    """Whether a property changes what Trailgate reads, or is accepted without effect."""

    USED = "used"
    NONE = "without effect"


class PropertyRow(NamedTuple):
    """A row of the property table: the facts about one capture property.

    `kind` is the type of its value, `sources` the kinds of sources that it may name, and `choices`
    the values that it may have. `<...>` in a name stands for a name that the user chooses, and `*`
    for any text.

    `origin` cites where the property is documented. `reason` explains why a property has no effect.
    """

    name: str
    kind: PropertyType
    doc: str
    origin: str
    default: str | None = None
    sources: tuple[SourceKind, ...] = ()
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    effect: PropertyEffect = PropertyEffect.USED
    reason: str = ""


FIELD_OR_HEADER: Final = (SourceKind.FIELD, SourceKind.HEADER)
OR_LITERAL: Final = (*FIELD_OR_HEADER, SourceKind.LITERAL)

# The metadata values: which sources each may have, and its default source.
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


@dataclass(frozen=True, slots=True)
class ParserRows:
    """Creates the rows of the property table for one parser. Names are given without its prefix.

    `origin` is the `PropertyRow.origin` of rows that do not state another one.
    """

    parser: str
    origin: str

    def row(
        self, name: str, kind: PropertyType, doc: str, default: str | None = None, **more: Any
    ) -> PropertyRow:
        """Create the row of a parser's property. `more` are further fields of PropertyRow."""
        more.setdefault("origin", self.origin)
        return PropertyRow(f"{self.parser}.{name}", kind, doc, default=default, **more)

    def choice(self, name: str, doc: str, *choices: str, origin: str = OWN) -> PropertyRow:
        """Create the row of a parser's property with fixed choices, the default first."""
        return self.row(name, PropertyType.CHOICE, doc, choices[0], origin=origin, choices=choices)

    def switch(self, name: str, doc: str, **more: Any) -> PropertyRow:
        """Create the row of a parser's boolean property, which is false by default."""
        return self.row(name, PropertyType.BOOLEAN, doc, "false", choices=("true", "false"), **more)

    def source(self, name: str, **changes: Any) -> PropertyRow:
        """Create the row of a property that names the source of a metadata value, such as `timestamp`.

        The fields come from `_METADATA`, if it has this name; `changes` replace them.
        """
        members: dict[str, Any] = {**_METADATA.get(name, {}), **changes}
        return self.row(name, PropertyType.SOURCE, **members)

    def indicators(self) -> tuple[PropertyRow, ...]:
        """Create the rows of the properties for transaction indicator values."""
        return tuple(
            self.row(f"txind.{word}val", PropertyType.BYTES, doc, default)
            for word, doc, default in _INDICATORS
        )

    def operations(self) -> tuple[PropertyRow, ...]:
        """Create the rows of the properties for operation codes. The truncate code is our own addition."""
        # The adapter's manual documents no truncate.
        own = "our own: the adapter's is not documented"
        return tuple(
            self.row(
                f"optype.{word}val",
                PropertyType.BYTES,
                doc,
                default,
                origin=own if word == "truncate" else self.origin,
                aliases=(f"{self.parser}.optype.{word}",),
            )
            for word, doc, default in _OPERATIONS
        )

    def userdefs(self, origin: str) -> tuple[PropertyRow, ...]:
        """Create the rows of the properties that define tables."""
        return tuple(
            self.row(f"userdefs.{name}", kind, doc, origin=origin)
            for name, kind, doc in (
                (
                    "tables",
                    PropertyType.NAMES,
                    "tables defined here, as SCHEMA.TABLE; in addition to `sourcedefs` or instead of it",
                ),
                (
                    "<SCHEMA.TABLE>.columns",
                    PropertyType.NAMES,
                    "columns of such a table, in order",
                ),
                (
                    "<SCHEMA.TABLE>.<COLUMN>",
                    PropertyType.TEXT,
                    "type of such a column: `vchar N`, text of length N; `vchar N key`: a column of the key (our own)",
                ),
            )
        )


def idle_row(
    name: str, doc: str, reason: str, kind: PropertyType = PropertyType.TEXT
) -> PropertyRow:
    """Create the row of a property that has no effect in Trailgate."""
    return PropertyRow(
        name, kind, doc, "capture properties §2", effect=PropertyEffect.NONE, reason=reason
    )
