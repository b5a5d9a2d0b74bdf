"""Read Debezium change events, a batch at a time.

An event is an object, either alone or as the payload beside its schema:

    {"before": {...}, "after": {...}, "source": {...}, "op": "u", "ts_ms": ..., "transaction": {...}}

Rows that the transformation ExtractNewRecordState made of events are read too: their columns are
members of the message, and metadata are members such as `__op`. `DebeziumTableInference` infers tables from
the schemas of events before anything is captured. Tombstones, BEGIN and END events, and messages of
logical decoding are skipped with a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.numbers import parse_integers
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import DecodeError
from trailgate.formats.debezium.column_types import converter_for, inferred_column
from trailgate.formats.debezium.options import ALTERNATIVES, DebeziumOptions
from trailgate.formats.debezium.schemas import Schema, parse_schema
from trailgate.formats.json.earlier_documents import documents_before
from trailgate.formats.json.images import ConvertValues, JsonImages
from trailgate.formats.json.node_kernels import MANY, NO_NODE, code_strings
from trailgate.formats.json.records import JsonRecords, document_records
from trailgate.formats.json.scanner import JsonNodes, JsonScanner
from trailgate.formats.json.scanner_kernels import NULL, OBJECT
from trailgate.messages.bad_values import errors_by_row
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.inference import merge_descriptions, read_good_messages
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.metadata import MetadataValues
from trailgate.messages.parser import EarlierRecords, MessageFormat
from trailgate.messages.problems import MessageErrors
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import messages_without_records
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, YEAR_1, YEAR_10000, Image
from trailgate.model.positions import format_message_positions
from trailgate.model.tables import Column, Definitions, Table

# The members with the commit time: in microseconds and in milliseconds.
_EVENT_TIMES: Final = ("source.ts_us", "source.ts_ms")
_ROW_TIMES: Final = ("source_ts_us|{0}ts_us", "source_ts_ms|{0}ts_ms")
ROW_TOMBSTONES: Final = (
    "tombstones have no row and were skipped. In a topic of flattened rows they may be the only trace of deletes: let the transformation write deletes as rows "
    "(delete.tombstone.handling.mode=rewrite)"
)
TOMBSTONES: Final = (
    "tombstones, which delete a key in a topic, are not operations: they were skipped"
)
BEFORE_HINT: Final = (
    "PostgreSQL logs no before values of a table without a key: ALTER TABLE ... REPLICA IDENTITY FULL. "
    "In MySQL, set binlog_row_image=FULL"
)
_MILLI: Final = 1000  # microseconds
_MONGODB: Final = "an event of a MongoDB collection: its rows are documents, which have no columns"
LOGICAL: Final = "messages of logical decoding (op m) change no table: they were skipped"
BOUNDARIES: Final = "BEGIN and END events are not operations: transactions are known by their ids"


NOT_FLATTENED: Final = "this is a change event, not a row made by ExtractNewRecordState"
EVENT_HINT: Final = "To read change events, remove debezium.model=row"
ROW_HINT: Final = (
    "Rows of ExtractNewRecordState have only the metadata that are added to them: add.fields=op,table,source.ts_ms (and schema or db) "
    "adds {0}op, {0}table and {0}source_ts_ms. Or set debezium.table, schema or timestamp"
)
_FLATTENED: Final = frozenset({"__op", "__table", "__deleted", "__source_ts_ms", "__ts_ms"})
_LEVELS: Final = 4  # payload, its members, columns in images, and members of numbers with a scale
_SCHEMA: Final = "schema"
_KEPT: Final = 256  # schemas that are remembered
_NO_SCHEMA: Final = b""


@dataclass(frozen=True, slots=True)
class DebeziumRecords(JsonRecords):
    """Change events as records. `schema` is the JSON node of each event's schema, or `NO_NODE`.

    `passed_over` are the notes on skipped messages. `without_document` are the messages that have
    no JSON document and are not tombstones.
    """

    options: DebeziumOptions | None = None
    schema: Longs | None = None
    passed_over: frozenset[str] = frozenset()
    without_document: Longs | None = None

    @property
    def notes(self) -> frozenset[str]:
        """Warnings about skipped Debezium messages, for the summary of a run."""
        return self.passed_over

    def messages_without(self) -> Longs:
        """Return the messages that have no JSON document and are not tombstones.

        Other messages without events, such as tombstones and BEGIN events, are reported by `notes`.
        """
        assert self.without_document is not None
        return self.without_document

    def _text(self, name: str) -> pa.Array:
        # `a|b` means the first of the members that is present.
        first, *others = name.split(ALTERNATIVES)
        values = JsonRecords._text(self, first)  # noqa: SLF001  super() does not work in classes with slots
        for other in others:
            if values.null_count:
                values = pc.coalesce(values, self.text(other))
        if self._is_transaction(name):
            return self._transactions(values)
        assert self.options is not None
        if self.options.rows and name == self.options.optype.name:
            deleted = pc.equal(self.text(f"{self.options.prefix}deleted"), "true")
            return pc.if_else(deleted.fill_null(False), "d", values)
        return values

    def _is_transaction(self, name: str) -> bool:
        assert self.options is not None
        source = self.options.txid
        return source.kind is SourceKind.FIELD and source.name == name

    def _transactions(self, ids: pa.Array) -> pa.Array:
        """Return the transaction ids of change events, with generated ids where there is none.

        Rows of a snapshot and events without an id are single transactions: their id is their
        position.
        """
        assert self.options is not None
        member, prefix = "source.snapshot", self.options.prefix
        if self.options.rows:
            member = f"{prefix}snapshot|{prefix}source_snapshot"
        snapshot = self.text(member)
        alone = ids.is_null()
        # source.snapshot is "false" or missing for changes, and "true", "first", "last" ... for
        # snapshots.
        if snapshot.null_count < len(snapshot):
            changed = pc.is_in(snapshot.fill_null("false"), pa.array(["false"]))
            alone = pc.or_(alone, pc.invert(changed))
        if not pc.any(alone, min_count=0).as_py():
            return ids
        batch = self.messages
        offsets = batch.offsets[self.message] + self.offset
        own = format_message_positions(batch.files[self.message], offsets)
        return pc.if_else(alone, own, ids)

    def missing_problem(self, name: str, what: str) -> tuple[str, str]:
        """Return the problem and the hint for a change event without the member `name`.

        `what` is the metadata that the member is needed for, such as "table".
        """
        if what == "table" and self.text("source.collection").null_count < len(self.message):
            return _MONGODB, "Capture a topic whose events are flattened to rows by the connector"
        assert self.options is not None
        if self.options.rows:
            problem = JsonRecords.missing_problem(self, name, what)[0]
            return problem, ROW_HINT.format(self.options.prefix)
        return JsonRecords.missing_problem(self, name, what)

    def times(self) -> Longs | None:
        """Return each change event's commit time in microseconds since 1970 UTC.

        Returns None if properties define a different source of the time, or if an event has no
        time. The caller reports such an event.
        """
        assert self.options is not None
        source, members, prefix = self.options.timestamp, _EVENT_TIMES, self.options.prefix
        if self.options.rows:
            exact_name, rough_name = (f"{prefix}{name.format(prefix)}" for name in _ROW_TIMES)
            members = exact_name, rough_name
        if source.kind is not SourceKind.FIELD or source.name != members[1]:
            return None
        # Microseconds if the event has them, otherwise milliseconds.
        exact, rough = map(self.text, members)
        if len(exact) and not exact.null_count:
            return self._micros(exact, 1)
        if rough.null_count:  # the caller reports the missing value
            return None
        return np.where(
            np.asarray(exact.is_valid()),
            self._micros(exact.fill_null("0"), 1),
            self._micros(rough, _MILLI),
        ).astype(np.int64)

    def _micros(self, values: pa.Array, units: int) -> Longs:
        """Convert commit times of change events to microseconds; a unit has `units` microseconds.

        Raises BadMessagesError if a time is outside the years 1 to 9999.
        """
        numbers = self._integers(values)
        # Compared in the event's unit: in microseconds the product could overflow.
        bad = (numbers < YEAR_1 // units) | (numbers >= YEAR_10000 // units)
        if bad.any():
            text = "{} is not a time in the years 1 to 9999"
            self.refuse(np.flatnonzero(bad), lambda rows: self._time_errors(rows, values, text))
        return numbers * units

    def _integers(self, values: pa.Array) -> Longs:
        """Parse the commit times of change events, which are integers. Raises BadMessagesError."""
        try:
            integers: Longs = parse_integers(values, 0, 8, signed=True).to_numpy()
        except DecodeError as error:
            bad, _ = errors_by_row(
                lambda part: parse_integers(part, 0, 8, signed=True), values, error
            )
            text = "{!r} is not a time in whole numbers since 1970"
            self.refuse(bad, lambda rows: self._time_errors(rows, values, text))
        return integers

    def _time_errors(self, rows: Longs, values: pa.Array, text: str) -> ErrorColumns:
        coded = values.take(pa.array(rows)).dictionary_encode()
        problems = [text.format(value) for value in coded.dictionary.to_pylist()]
        problem = pa.array(problems, pa.string()).take(coded.indices)
        return self.errors(rows, problem, field="source")


def row_records(documents: JsonRecords, options: DebeziumOptions) -> DebeziumRecords:
    """Find the flattened rows among JSON documents. Tombstones and messages of logical decoding are skipped.

    Raises BadMessagesError if a document is not an object, or is a change event.
    """
    nodes = documents.nodes
    payload, schema = nodes.members(documents.document, ["payload", "schema"])
    wrapped = (payload >= 0) & (schema >= 0)  # by Connect's converter, with schemas.enable
    holder = np.where(wrapped, payload, documents.document)
    kinds = nodes.kinds(holder)
    empty = documents.messages.starts == documents.messages.ends
    # A JSON null is a tombstone written by a converter.
    tombstones = bool(empty.any() or (kinds == NULL).any())
    # The transformation passes on what is not a change event, and so is not flattened.
    logical = _mask_logical(nodes, holder)
    op, source, before, after = nodes.members(holder, ["op", "source", "before", "after"])
    events = ~logical & (op >= 0) & ((before >= 0) | (after >= 0))
    events &= nodes.kinds(source) == OBJECT
    if events.any():
        documents.refuse(
            np.flatnonzero(events),
            lambda rows: documents.errors(rows, NOT_FLATTENED, EVENT_HINT),
        )
    rows = np.flatnonzero((kinds != NULL) & ~logical)
    notes = {
        note for note, some in ((ROW_TOMBSTONES, tombstones), (LOGICAL, logical.any())) if some
    }
    records = DebeziumRecords(
        documents.messages,
        documents.message[rows],
        documents.offset[rows],
        nodes,
        document=documents.document[rows],
        holder=holder[rows],
        options=options,
        schema=np.where(wrapped, schema, NO_NODE)[rows],
        passed_over=frozenset(notes),
        without_document=_without_document(documents),
    )
    records.check_objects()
    return records


def _without_document(documents: JsonRecords) -> Longs:
    """Return the messages without a JSON document, except those with an empty body, which are tombstones."""
    numbers, messages = (
        messages_without_records(documents.message, len(documents.messages)),
        documents.messages,
    )
    return numbers[messages.starts[numbers] < messages.ends[numbers]]


def _mask_logical(nodes: JsonNodes, holder: Longs) -> Mask:
    """Return a mask of the messages of logical decoding: events of type m, which have no image.

    PostgreSQL's pg_logical_emit_message writes them. A connector may omit the member
    ``message`` with its content.
    """
    op, source, before, after = nodes.members(holder, ["op", "source", "before", "after"])
    has_image = (nodes.kinds(before) == OBJECT) | (nodes.kinds(after) == OBJECT)
    is_event = (op >= 0) & (nodes.kinds(source) == OBJECT)
    is_message = np.asarray(pc.is_in(nodes.strings(op), pa.array(["m"])))
    masked: Mask = is_event & is_message & ~has_image
    return masked


def event_records(documents: JsonRecords, options: DebeziumOptions) -> DebeziumRecords:
    """Find the change events among JSON documents.

    BEGIN and END events, tombstones, and messages of logical decoding are skipped.

    Raises BadMessagesError for any other document.
    """
    nodes = documents.nodes
    payload, schema = nodes.members(documents.document, ["payload", "schema"])
    # The object with the members of the event: ``payload``, if the converter wrote an envelope of
    # schema and payload (schemas.enable=true), else the document itself.
    holder = np.where(payload >= 0, payload, documents.document)
    kinds = nodes.kinds(holder)
    op, status, identifier = nodes.members(holder, ["op", "status", "id"])
    # BEGIN and END events have the members status and id instead of op.
    is_event = (kinds == OBJECT) & (op >= 0)
    boundary = ~is_event & (status >= 0) & (identifier >= 0)
    boundary &= np.asarray(pc.is_in(nodes.strings(status), pa.array(["BEGIN", "END"])))
    odd = ~is_event & ~boundary & (kinds != NULL)
    if odd.any():
        hint = (
            "An event has the member op; schema changes and heartbeats have separate topics. "
            "Rows made by ExtractNewRecordState are read with debezium.model=row"
        )
        if not _FLATTENED.isdisjoint(nodes.names):
            hint = "It is a row made by ExtractNewRecordState: set debezium.model=row"
        documents.refuse(
            np.flatnonzero(odd),
            lambda rows: documents.errors(rows, "this is not a change event", hint),
        )
    empty = documents.messages.starts == documents.messages.ends  # Kafka's null values
    tombstones = bool(empty.any() or (kinds == NULL).any())
    notes = {
        note for note, some in ((TOMBSTONES, tombstones), (BOUNDARIES, boundary.any())) if some
    }
    logical = _mask_logical(nodes, holder)
    if logical.any():
        notes.add(LOGICAL)
    rows = np.flatnonzero(is_event & ~logical)
    return DebeziumRecords(
        documents.messages,
        documents.message[rows],
        documents.offset[rows],
        nodes,
        document=documents.document[rows],
        holder=holder[rows],
        options=options,
        schema=np.where(payload >= 0, schema, NO_NODE)[rows],
        passed_over=frozenset(notes),
        without_document=_without_document(documents),
    )


class DebeziumFormat(MessageFormat[DebeziumRecords]):
    """Reads change events with one set of options. Schemas and converters are cached."""

    def __init__(self, options: DebeziumOptions) -> None:
        self.options = options
        self._scanner = JsonScanner(_LEVELS, _SCHEMA)
        self._schemas: dict[bytes, Schema | None] = {_NO_SCHEMA: None}
        self._converters: dict[tuple[str, bytes], tuple[ConvertValues, ...]] = {}

    def records(self, messages: MessageBatch) -> DebeziumRecords:
        """Find the change events in a batch of messages. Raises BadMessagesError."""
        documents = document_records(messages, self._scanner.scan(messages))
        if self.options.rows:
            return row_records(documents, self.options)
        return event_records(documents, self.options)

    def layouts(
        self,
        records: DebeziumRecords,
        tables: Sequence[Table],  # noqa: ARG002  columns are found by name
        table_of: Longs,  # noqa: ARG002
    ) -> Longs:
        """Return the layout number of each change event.

        Events with the same number have the same schema. Events without a schema have a number of
        their own.
        """
        assert records.schema is not None
        nodes, schema = records.nodes, records.schema
        has = schema >= 0
        if not has.any():
            return np.zeros(len(schema), np.int64)
        starts = np.where(has, nodes.start[schema], 0)
        lengths = np.where(has, nodes.length[schema], -1)
        codes, known = np.empty(len(schema), np.int64), np.empty(_KEPT, np.int64)
        # Few distinct schemas are compared as bytes. If there are more than _KEPT, Arrow's
        # dictionary takes over.
        if code_strings(nodes.text, starts, lengths, codes, known) != MANY:
            return codes
        strings = nodes.strings(schema).dictionary_encode("encode")
        every: Longs = strings.indices.to_numpy().astype(np.int64)
        return every

    def records_before(
        self, messages: MessageBatch, numbers: Longs, offsets: Longs
    ) -> EarlierRecords | None:
        """Return the JSON documents that precede the faults of bad messages, or None if there are none.

        `numbers` are the bad messages, and `offsets` the offset of the fault in each of them.
        """
        return documents_before(self._scanner, messages.only(numbers), offsets)

    def images(
        self, records: DebeziumRecords, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of change events with the same table, type and schema.

        Errors are added to `errors`.
        """
        absent = (ABSENT,) * len(table.columns)
        group = JsonImages(records, table, rows, errors)
        try:
            converters = self._converters_of(records, table, int(rows[0]))
        except DecodeError as error:
            group.add_to_all(error.problem, error.hint)
            return absent, absent
        if self.options.rows:
            if kind == TRUNCATE:
                return absent, absent
            others = self.metadata_members(records.nodes.names)
            image = group.image(records.holder[rows], converters, others, keyed=True)
            return (image, absent) if kind == DELETE else (absent, image)
        # The images that an event has, by its type:
        #     type      before   after
        #     insert    no       yes
        #     update    perhaps  yes
        #     delete    yes      no
        #     truncate  no       no
        before, after = records.nodes.members(records.holder[rows], ["before", "after"])
        images: list[Image] = []
        for nodes, name, wanted, needed in (
            (before, "before", kind not in (INSERT, TRUNCATE), kind == DELETE),
            (after, "after", kind not in (DELETE, TRUNCATE), True),
        ):
            if not wanted:
                group.check_images(nodes, name, wanted=False)
                images.append(absent)
                continue
            if needed:
                hint = BEFORE_HINT if name == "before" else ""
                group.check_images(nodes, name, wanted=True, hint=hint)
            images.append(group.image(nodes, converters, keyed=needed))
        return images[0], images[1]

    def metadata_members(self, names: Sequence[str]) -> frozenset[str]:
        """Return the names of the members of Debezium's flattened rows that are metadata and not columns.

        These are the members in `names` that begin with the prefix, and the members that
        properties use as sources of metadata.
        """
        options = self.options
        sources = (options.timestamp, options.txid, options.optype, options.schema, *options.table)
        sources += (options.seqid, options.txowner, options.txname)
        known = {f"{options.prefix}deleted"}
        for source in sources:
            if source is not None and source.kind is SourceKind.FIELD:
                # A source such as a|b names two members, of which the first with a value is taken.
                known.update(source.name.split(ALTERNATIVES))
        prefix = options.prefix
        return frozenset(known | {name for name in names if prefix and name.startswith(prefix)})

    def _converters_of(
        self, records: DebeziumRecords, table: Table, row: int
    ) -> tuple[ConvertValues, ...]:
        """Return the converters of a table's columns, for the schema of a change event.

        Raises DecodeError if the schema cannot be read.
        """
        assert records.schema is not None
        node = int(records.schema[row])
        raw = records.nodes.raw(node) if node >= 0 else _NO_SCHEMA
        raw = _NO_SCHEMA if raw == b"null" else raw
        converters = self._converters.get((table.name, raw))
        if converters is None:
            if len(self._schemas) > _KEPT:
                self._schemas, self._converters = {_NO_SCHEMA: None}, {}
            if raw not in self._schemas:
                self._schemas[raw] = parse_schema(raw, rows=self.options.rows)
            schema, options = self._schemas[raw], self.options
            converters = tuple(converter_for(column, schema, options) for column in table.columns)
            self._converters[table.name, raw] = converters
        return converters


class DebeziumTableInference:
    """Infers tables from the schemas of change events.

    Schemas do not contain keys, so no column is marked as key.
    """

    def __init__(self, options: DebeziumOptions) -> None:
        self._options, self._format = options, DebeziumFormat(options)
        self._tables: dict[str, Table] = {}
        self._columns: dict[bytes, tuple[Column, ...]] = {}

    def add(self, messages: MessageBatch) -> None:
        """Read the tables of a batch of change events.

        Unreadable messages are ignored; the capture reports them.

        Raises DefinitionError if a column is described in two ways.
        """
        found = read_good_messages(messages, self._read_events)
        if found is None:
            return
        records, (codes, names) = found
        assert records.schema is not None
        rows = np.flatnonzero(records.nodes.kinds(records.schema) == OBJECT)
        if not len(rows):
            return
        layouts = self._format.layouts(records, (), codes)
        # The first record of each combination of table and schema describes it; the others repeat
        # it.
        pairs = np.stack([codes[rows], layouts[rows]])
        firsts = np.sort(np.unique(pairs, axis=1, return_index=True)[1])
        for row in rows[firsts].tolist():
            columns = self._columns_of(records.nodes.raw(int(records.schema[row])))
            if columns:
                table = complete_table(Table(names[int(codes[row])], columns))
                self._tables[table.name] = merge_descriptions(self._tables, table)

    def definitions(self) -> Definitions:
        """Return the tables inferred from change events, sorted by name."""
        return Definitions(tuple(self._tables[name] for name in sorted(self._tables)))

    def _read_events(
        self, messages: MessageBatch
    ) -> tuple[DebeziumRecords, tuple[Longs, list[str]]]:
        """Read a batch of change events, and the table name of each.

        Returns the events, and the names as codes: each event's index, and the distinct names.
        Raises BadMessagesError.
        """
        records = self._format.records(messages)
        return records, MetadataValues(self._options, records, 0).table_names()

    def _columns_of(self, schema: bytes) -> tuple[Column, ...]:
        """Infer a table's columns from the schema of its change events, or () if that cannot be read."""
        if schema not in self._columns:
            try:
                types = tuple(parse_schema(schema, rows=self._options.rows).values())
            except DecodeError:
                types = ()
            if self._options.rows:
                others = self._format.metadata_members([kind.column for kind in types])
                types = tuple(kind for kind in types if kind.column not in others)
            self._columns[schema] = tuple(map(inferred_column, types))
        return self._columns[schema]
