"""The options that all parsers have: the sources of an operation's ids, times, table and type.

`read_metadata_options` reads them from a parser's properties. `metadata` then reads the values of operations
by these options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from trailgate.columnar.temporal import DateFormat
from trailgate.messages.property_reader import Lookup, PropertyReader, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.model.tables import Definitions

OP_TYPES: Final = (("insert", "I"), ("update", "U"), ("delete", "D"), ("truncate", "T"))


TX_INDICATORS: Final = (("begin", "B"), ("middle", "M"), ("end", "E"), ("whole", "W"))


TIME: Final = "time"  # a generated jms.id: the position of the message


NUMBERED_INDICATORS: Final = ((b"0", "B"), (b"1", "M"), (b"2", "E"), (b"3", "W"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """The options by which the metadata of operations is read (capture properties §4).

    A `ValueSource` states where a value is read, None that it is not read. `optype_values` and
    `txind_values` map the codes in messages to letters, and `message_id` is the value of `jms.id`.
    The table is named by `schemaandtable`, or by the sources of `schema` and `table` together.
    `infers` is set if no tables are defined and messages may describe them. With `quotes_table`, a
    point in the table's source is part of the table's name and does not separate it from a schema.
    `undefined_hint` is the hint for a table without a definition; if empty, the hint lists the
    known tables.
    """

    seqid: ValueSource
    timestamp: ValueSource
    timestamp_format: DateFormat | None
    txid: ValueSource
    txowner: ValueSource | None
    txname: ValueSource | None
    optype: ValueSource
    optype_values: Lookup[bytes, str]
    schemaandtable: ValueSource | None
    schema: ValueSource | None
    table: tuple[ValueSource, ...]
    quotes_table: bool = False
    txind: ValueSource | None
    txind_values: Lookup[bytes, str]
    message_id: str | None
    infers: bool = False
    undefined_hint: str = ""

    def with_tables(self, definitions: Definitions) -> MetadataOptions:  # noqa: ARG002  for parsers that look at them
        """Return the parser's options for a capture whose tables were inferred from messages."""
        return replace(self, infers=False)

    @property
    def notes(self) -> frozenset[str]:
        """Warnings about the parser's definitions that a run reports once."""
        return frozenset()

    @property
    def by_id(self) -> bool:
        """Whether transactions are identified by their ids alone; see `messages/by_id.py`."""
        return False

    @property
    def has_tombstones(self) -> bool:
        """Whether a message without a body is a tombstone and is skipped.

        Otherwise it is an error.
        """
        return False

    @property
    def names_operations(self) -> bool:
        """Whether properties such as `optype.insertval` can define the codes of operation types."""
        return True

    @property
    def operation_ids(self) -> bool:
        """Whether sequence ids identify operations, and transaction ids transactions.

        Otherwise, if `by_id` is set, all operations of a transaction have the same sequence id.
        """
        return False

    @property
    def spans_messages(self) -> bool:
        """Whether a transaction may span messages. True if operations have an indicator, or if only transaction ids group them."""
        return self.txind is not None or self.by_id

    @property
    def message_id_values(self) -> frozenset[str]:
        """The names of the metadata values whose source is `$jmsid`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        sources = {name: one for name, one in values.items() if isinstance(one, ValueSource)}
        return frozenset(n for n, one in sources.items() if one.kind is SourceKind.MESSAGE_ID)

    @property
    def needs_message_ids(self) -> bool:
        """Whether messages must have ids: `jms.id` selects them, or a value is `$jmsid`."""
        given = self.message_id is not None or bool(self.message_id_values)
        return given and self.message_id != TIME

    @property
    def compares_message_ids(self) -> bool:
        """Whether message ids are compared: `jms.id` selects them, or they are the sequence ids."""
        given = self.message_id is not None or "seqid" in self.message_id_values
        return given and self.message_id != TIME

    @property
    def has_sequence_ids(self) -> bool:
        """Whether the messages provide sequence ids. Otherwise they are generated."""
        # With ``jms.id=time`` the ids are generated and do not come from the messages.
        by_message = self.seqid.kind is SourceKind.MESSAGE_ID and self.message_id != TIME
        return by_message or self.seqid.kind in (SourceKind.FIELD, SourceKind.HEADER)


def read_metadata_options(
    read: PropertyReader, code: Callable[[str], bytes] | None = None
) -> dict[str, Any]:
    """Read the metadata options that all parsers share from their properties, except those that name the table.

    `code(name)` reads the property of an operation code or indicator value, such as
    `optype.insertval`; by default it is read as bytes.
    """
    return {
        "seqid": read.required_source("seqid"),
        "timestamp": read.required_source("timestamp"),
        "timestamp_format": read.date_format("timestamp.format"),
        "txid": read.required_source("txid"),
        "txowner": read.source("txowner"),
        "txname": read.source("txname"),
        "optype": read.required_source("optype"),
        "optype_values": read.values("optype", OP_TYPES, code),
        "txind": read.source("txind"),
        "txind_values": _indicators(read, code),
        "message_id": read.message_id(),
    }


def _indicators(read: PropertyReader, code: Callable[[str], bytes] | None) -> Lookup[bytes, str]:
    """Return the mapping of `txind` codes to transaction indicators.

    If no property sets such a code, both letters and digits are accepted.

    capture properties §11: one manual gives the defaults B, M, E and W, the other 0, 1, 2 and 3.
    """
    values = read.values("txind", TX_INDICATORS, code)
    if any(read.entry(f"txind.{word}val") for word, _ in TX_INDICATORS):
        return values
    return Lookup((*values.pairs, *NUMBERED_INDICATORS))
