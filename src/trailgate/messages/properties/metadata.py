"""Where an operation's metadata comes from: what the options of all parsers have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from trailgate.columnar.datetime_formats import DateFormat
from trailgate.messages.properties.reader import PropertyReader
from trailgate.messages.properties.rows import SourceKind
from trailgate.messages.properties.values import Lookup, ValueSource
from trailgate.model.tables import Definitions

OP_TYPES: Final = (("insert", "I"), ("update", "U"), ("delete", "D"), ("truncate", "T"))
TX_INDICATORS: Final = (("begin", "B"), ("middle", "M"), ("end", "E"), ("whole", "W"))
TIME: Final = "time"  # a jms.id that is generated: the position of the message
NUMBERED_INDICATORS: Final = ((b"0", "B"), (b"1", "M"), (b"2", "E"), (b"3", "W"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataOptions:
    """How the metadata of operations is read; capture properties §4.

    The table is named by ``schemaandtable``, or by the sources of ``table`` put together, with the
    schema before it. ``learns``: no tables are defined, and messages may describe them; ``undefined_hint`` is what to try for one that
    nothing defines, empty: the names of those that are.
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
    txind: ValueSource | None
    txind_values: Lookup[bytes, str]
    message_id: str | None
    learns: bool = False
    undefined_hint: str = ""

    def with_tables(self, definitions: Definitions) -> MetadataOptions:  # noqa: ARG002  for parsers that look at them
        """Return the options with the tables that were learnt."""
        return replace(self, learns=False)

    @property
    def notes(self) -> frozenset[str]:
        """Return what a run notes once about its definitions."""
        return frozenset()

    @property
    def by_id(self) -> bool:
        """Return whether transactions are known by their ids alone, see ``messages/transactions/by_id.py``."""
        return False

    @property
    def names_operations(self) -> bool:
        """Return whether properties name the values of operation types and indicators."""
        return True

    @property
    def operation_ids(self) -> bool:
        """Return whether, with ``by_id``, transactions are known by transaction ids, and each operation has a sequence id of its own."""
        return False

    @property
    def spans_messages(self) -> bool:
        """Return whether a transaction may span messages: operations have an indicator, or transactions ids alone."""
        return self.txind is not None or self.by_id

    @property
    def message_id_values(self) -> frozenset[str]:
        """Return the names of the values that are ``$jmsid``."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        sources = {name: one for name, one in values.items() if isinstance(one, ValueSource)}
        return frozenset(n for n, one in sources.items() if one.kind is SourceKind.MESSAGE_ID)

    @property
    def needs_message_ids(self) -> bool:
        """Return whether ids have to come with the messages: ``jms.id`` selects them, or a value is ``$jmsid``."""
        given = self.message_id is not None or bool(self.message_id_values)
        return given and self.message_id != TIME

    @property
    def compares_message_ids(self) -> bool:
        """Return whether the ids of messages are compared: ``jms.id`` selects them, or they are the sequence ids."""
        given = self.message_id is not None or "seqid" in self.message_id_values
        return given and self.message_id != TIME

    @property
    def gives_ids(self) -> bool:
        """Return whether sequence ids come from the messages; others are generated."""
        by_message = self.seqid.kind is SourceKind.MESSAGE_ID and self.message_id != TIME
        return by_message or self.seqid.kind in (SourceKind.FIELD, SourceKind.HEADER)


def metadata(read: PropertyReader, code: Callable[[str], bytes] | None = None) -> dict[str, Any]:
    """Return the options that all parsers take alike; what names the table is left to each.

    ``code`` takes an operation code or indicator value, where a parser reads them otherwise.
    """
    return {
        "seqid": read.needed_source("seqid"),
        "timestamp": read.needed_source("timestamp"),
        "timestamp_format": read.date_format("timestamp.format"),
        "txid": read.needed_source("txid"),
        "txowner": read.source("txowner"),
        "txname": read.source("txname"),
        "optype": read.needed_source("optype"),
        "optype_values": read.values("optype", OP_TYPES, code),
        "txind": read.source("txind"),
        "txind_values": _indicators(read, code),
        "message_id": read.message_id(),
    }


def _indicators(read: PropertyReader, code: Callable[[str], bytes] | None) -> Lookup[bytes, str]:
    """Return the values of ``txind``; where no property gives one, letters and numbers are known.

    capture properties §11: one manual has the defaults B, M, E and W, the other 0, 1, 2 and 3.
    """
    found = read.values("txind", TX_INDICATORS, code)
    if any(read.entry(f"txind.{word}val") for word, _ in TX_INDICATORS):
        return found
    return Lookup((*found.pairs, *NUMBERED_INDICATORS))
