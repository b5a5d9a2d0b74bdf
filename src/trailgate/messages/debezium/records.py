"""Change events as records: what the documents of messages are, and the metadata of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.numbers import parse_integers
from trailgate.columnar.positions import format_positions
from trailgate.errors import DecodeError
from trailgate.messages.debezium.options import DebeziumOptions
from trailgate.messages.json_text.kernels.layout import NULL, OBJECT
from trailgate.messages.json_text.kernels.members import NO_NODE
from trailgate.messages.json_text.records import JsonRecords
from trailgate.messages.properties.rows import SourceKind
from trailgate.model.operations_schema import YEAR_1, YEAR_10000

DEFAULT_TIME: Final = "source.ts_ms"
ALTERNATIVES: Final = "|"
TOMBSTONES: Final = (
    "tombstones, which delete a key in a topic, are not operations: they were passed over"
)
_MILLI: Final = 1000  # microseconds
_MONGODB: Final = "an event of a MongoDB collection: its rows are documents, which have no columns"
LOGICAL: Final = "messages of logical decoding (op m) change no table: they were passed over"
BOUNDARIES: Final = "BEGIN and END events are not operations: transactions are known by their ids"


@dataclass(frozen=True, slots=True)
class DebeziumRecords(JsonRecords):
    """Events as records. ``schema`` is the node of each one's schema, ``NO_NODE`` where a message has none."""

    options: DebeziumOptions | None = None
    schema: Longs | None = None
    passed_over: frozenset[str] = frozenset()

    @property
    def notes(self) -> frozenset[str]:
        """Return what was passed over."""
        return self.passed_over

    def _text(self, name: str) -> pa.Array:
        first, *others = name.split(ALTERNATIVES)
        values = JsonRecords._text(self, first)  # noqa: SLF001  super() does not work in classes with slots
        for other in others:
            if values.null_count:
                values = pc.coalesce(values, self.text(other))
        return self._transactions(values) if self._is_transaction(name) else values

    def _is_transaction(self, name: str) -> bool:
        assert self.options is not None
        source = self.options.txid
        return source.kind is SourceKind.FIELD and source.name == name

    def _transactions(self, ids: pa.Array) -> pa.Array:
        """Return transaction ids; rows of a snapshot, and events without an id, are each a transaction of their own."""
        snapshot = self.text("source.snapshot")
        alone = ids.is_null()
        if snapshot.null_count < len(snapshot):
            changed = pc.is_in(snapshot.fill_null("false"), pa.array(["false"]))
            alone = pc.or_(alone, pc.invert(changed))
        if not pc.any(alone, min_count=0).as_py():
            return ids
        batch = self.messages
        own = format_positions(batch.files[self.message], batch.offsets[self.message] + self.offset)
        return pc.if_else(alone, own, ids)

    def lacking(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem of an event without a member that is needed, and a hint."""
        if what == "table" and self.text("source.collection").null_count < len(self.message):
            return _MONGODB, "Capture a topic whose events are flattened to rows by the connector"
        return JsonRecords.lacking(self, name, what)

    def times(self) -> Longs | None:
        """Return each event's commit time in microseconds since 1970 UTC, or None where another member has it."""
        assert self.options is not None
        source = self.options.timestamp
        if source.kind is not SourceKind.FIELD or source.name != DEFAULT_TIME:
            return None
        exact, rough = self.text("source.ts_us"), self.text(DEFAULT_TIME)
        if len(exact) and not exact.null_count:
            return self._micros(exact, 1)
        if rough.null_count:  # an error, as of any value that is needed
            return None
        return np.where(
            np.asarray(exact.is_valid()),
            self._micros(exact.fill_null("0"), 1),
            self._micros(rough, _MILLI),
        ).astype(np.int64)

    def _micros(self, values: pa.Array, units: int) -> Longs:
        """Return times of which each is so many microseconds; 0 is the beginning of 1970. Raises BadMessagesError."""
        found = self._integers(values)
        bad = (found < YEAR_1 // units) | (found >= YEAR_10000 // units)
        if bad.any():

            def error(row: int) -> DecodeError:
                problem = f"{values[row].as_py()} is not a time in the years 1 to 9999"
                return self.error(row, problem, field="source")

            self.refuse(np.flatnonzero(bad), error)
        return found * units

    def _integers(self, values: pa.Array) -> Longs:
        """Return numbers of texts; raises BadMessagesError."""
        try:
            found: Longs = parse_integers(values, 0, 8, signed=True).to_numpy()
        except DecodeError as error:
            row = error.where.record or 0
            problem = f"{values[row].as_py()!r} is not a time in whole numbers since 1970"
            self.refuse(np.array([row]), lambda at: self.error(at, problem, field="source"))
        return found


def event_records(found: JsonRecords, options: DebeziumOptions) -> DebeziumRecords:
    """Return the change events among documents; raises BadMessagesError for documents that are neither these nor what goes with them."""
    nodes = found.nodes
    payload, schema = nodes.members(found.document, ["payload", "schema"])
    holder = np.where(payload >= 0, payload, found.document)
    kinds = nodes.kinds(holder)
    op, status, identifier = nodes.members(holder, ["op", "status", "id"])
    is_event = (kinds == OBJECT) & (op >= 0)
    boundary = ~is_event & (status >= 0) & (identifier >= 0)
    boundary &= np.asarray(pc.is_in(nodes.texts(status), pa.array(["BEGIN", "END"])))
    odd = ~is_event & ~boundary & (kinds != NULL)
    if odd.any():
        hint = (
            "An event has the member op; schema changes and heartbeats are in topics of their own"
        )
        found.refuse(
            np.flatnonzero(odd), lambda row: found.error(row, "this is not a change event", hint)
        )
    notes = {
        note for note, mask in ((TOMBSTONES, kinds == NULL), (BOUNDARIES, boundary)) if mask.any()
    }
    (message,) = nodes.members(holder, ["message"])
    logical = is_event & (message >= 0)
    logical &= np.asarray(pc.is_in(nodes.texts(op), pa.array(["m"])))
    if logical.any():
        notes.add(LOGICAL)
    rows = np.flatnonzero(is_event & ~logical)
    return DebeziumRecords(
        found.messages,
        found.message[rows],
        found.offset[rows],
        nodes,
        document=found.document[rows],
        holder=holder[rows],
        options=options,
        schema=np.where(payload >= 0, schema, NO_NODE)[rows],
        passed_over=frozenset(notes),
    )
