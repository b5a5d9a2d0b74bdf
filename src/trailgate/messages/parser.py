"""Parse a batch of messages into operations: the steps that all formats share.

A `MessageFormat` knows the bytes: it finds records, reads header fields, and reads before and after
images. `MessageParser` does the rest, always for the whole batch:

1. Read the metadata columns of all records: table, operation type, ids, times, indicator.
2. Group the records by table, operation type and layout.
3. Let the format read the images of each group.
4. Apply the TABLE statements of the Extract parameters to each group.

Errors are collected for as many messages as possible and raised together, so that the good messages
are parsed again only once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets, byte_table
from trailgate.columnar.rows import group_rows
from trailgate.errors import DefinitionError, TrailgateError
from trailgate.expressions.capture_rules import (
    EXCLUDED,
    MISSING_HINT,
    CaptureRules,
    TableSelections,
    find_excluded,
)
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.images import check_keys, with_operation_types
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.metadata import MetadataValues
from trailgate.messages.metadata_options import MetadataOptions
from trailgate.messages.problems import BadMessageIds, MessageErrors
from trailgate.messages.property_reader import ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.raw_operations import RawOperations
from trailgate.messages.records import BadMessagesError, MessageRecordGroup, MessageRecords
from trailgate.messages.skipped import SkippedMessages
from trailgate.model.changes import END, INSERT, MIDDLE, UPDATE, ChangeBlock, Image
from trailgate.model.positions import format_message_positions
from trailgate.model.tables import Definitions, Table

R = TypeVar("R", bound=MessageRecords)
# By operation type: itself, but an update for an insert.
_AS_UPDATES: Final = byte_table({kind: kind for kind in range(256)} | {INSERT: UPDATE})


class EarlierRecords(NamedTuple):
    """The records that precede the faults of bad messages, each as a message of its own in `batch`.

    They are parsed too, to find earlier errors. The arrays have one element per record: the index
    of its bad message, its number in that message (from 1), and its byte offset in that message.
    """

    batch: MessageBatch
    message: Longs
    number: Longs
    offset: Longs


class MessageFormat(ABC, Generic[R]):
    """The interface of message formats: finds and reads records in the bytes of messages."""

    @property
    def has_befores(self) -> bool:
        """Whether an update may contain before values. Inserts never do."""
        return True

    @abstractmethod
    def records(self, messages: MessageBatch) -> R:
        """Find the records of a batch of messages, with their complete headers.

        Raises BadMessagesError for all messages that fail a check. Later checks are then not run.
        """

    def layouts(
        self,
        records: R,  # noqa: ARG002  where columns are found by name all records lie alike
        tables: Sequence[Table],  # noqa: ARG002  as above
        table_of: Longs,
    ) -> Longs:
        """Return a layout number for each record of the messages.

        Records of one table with the same number have their columns at the same positions.
        """
        return np.zeros(len(table_of), np.int64)

    @abstractmethod
    def images(
        self, records: R, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Read the before and after images of records with one table, type and layout.

        `kind` is the operation type, and `rows` are the indexes of the records. Errors are added to
        `errors`.

        If the format has no before values, records of the kind UPDATE may include inserts.
        """

    def reads_alone(self, messages: MessageBatch) -> bool:  # noqa: ARG002  for formats with parts of rows
        """Whether each message can be read without the messages before it."""
        return True

    def records_before(
        self,
        messages: MessageBatch,  # noqa: ARG002  for formats with several records in a message
        numbers: Longs,  # noqa: ARG002  as above
        offsets: Longs,  # noqa: ARG002  as above
    ) -> EarlierRecords | None:
        """Return the records of bad messages that precede the faults.

        `numbers` are the bad messages of the batch, and `offsets` the offset of each one's fault.
        `EarlierRecords.message` is an index into `numbers`. Returns None if there are no such
        records, or if messages of the format cannot be divided into records.
        """
        return None

    def transactions_of(self, messages: MessageBatch) -> BadMessageIds:
        """Return the transaction ids of messages whose records cannot be read.

        Used if transactions are identified only by their ids.
        """
        return BadMessageIds.unknown(len(messages))

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Combine the notes of all batches (`MessageRecords.notes`) into the warnings of a run."""
        return notes

    def warnings_of_part(self, notes: frozenset[str]) -> frozenset[str]:
        """Return the warnings of a part of a run, without warnings that need the complete run."""
        return self.warnings(notes)


@dataclass(eq=False)
class MessageParser:
    """Parses batches of messages of any format with one set of options.

    The TABLE statements that apply to a table are found once, not for each batch. `now` is the time
    of the run in microseconds since 1970. `first_file` is added to the file numbers in generated
    ids.
    """

    format: MessageFormat[Any]
    options: MetadataOptions
    definitions: Definitions
    rules: CaptureRules
    now: int = 0
    first_file: int = 0

    def __post_init__(self) -> None:
        self.selections = TableSelections(self.rules)

    def parse(self, messages: MessageBatch) -> RawOperations:
        """Parse a batch of messages into operations.

        Raises BadMessagesError for the bad messages that one check finds, or a TrailgateError for
        one record.
        """
        records: MessageRecords = self.format.records(messages)
        sources = MetadataValues(self.options, records, self.now)
        tables, table_of = self._tables(sources)
        kinds = self._codes(sources, self.options.optype, self.options.optype_values, "optype")
        rows = self._find_captured(tables, table_of)
        bare = self._metadata_block(sources, kinds)
        txind, marks = self.options.txind, None
        if txind is not None:
            marks = self._codes(sources, txind, self.options.txind_values, "txind")
        ends = records.transaction_ends()
        # The format marks only ends: all other operations are in the middle. `chain_by_id` adds the
        # begins.
        if marks is None and ends is not None:
            marks = np.where(ends, END, MIDDLE).astype(np.uint8)
        txid = self.options.txid
        # With txid=*seqid the transaction's id is the sequence id of its first operation.
        first_id = txid.kind is SourceKind.SEQ_ID
        tx_id = bare.csn if first_id else sources.text(txid, bare.position, "txid")
        excluded = find_excluded(self.rules, bare.tx_owner, bare.tx_name)
        owner, name = _none_if_null(bare.tx_owner), _none_if_null(bare.tx_name)
        bare = bare.with_columns(tx_owner=owner, tx_name=name)
        blocks = tuple(self._blocks(records, bare, tables, table_of, rows, excluded))
        message, csn = records.message, bare.csn
        generated: bool | Mask = txid.kind in (SourceKind.TX_ID, SourceKind.SEQ_ID)
        notes = records.notes | sources.notes
        by_id, segments = self.options.by_id, records.segments()
        boundaries = records.boundaries(csn) if by_id else None
        own_generated = records.is_generated(txid.name) if txid.kind is SourceKind.FIELD else None
        if own_generated is not None:
            generated = own_generated
        return RawOperations(
            blocks=blocks,
            message=message,
            tx_ind=marks,
            tx_id=tx_id,
            seq_id=csn,
            tx_ids_generated=generated,
            excluded=excluded,
            notes=notes,
            by_id=by_id,
            segments=segments,
            boundaries=boundaries,
            skipped=SkippedMessages.of(messages, records.messages_without(), records.no_record),
        )

    def ids_of(self, messages: MessageBatch) -> BadMessageIds:
        """Return for each bad message the transaction ids of its first and last operation, if they can be read.

        They are needed only if transactions are identified by their ids alone.
        """
        options = self.options
        source = options.txid if options.operation_ids else options.seqid
        if not options.by_id or source.kind is not SourceKind.FIELD:
            return BadMessageIds.unknown(len(messages))
        if self.format.reads_alone(messages):
            return self._ids_of(messages, source.name)
        # An XML message may continue the one before it, so bad messages are read one at a time.
        numbers = np.arange(len(messages))
        ones = (self._ids_of(messages.only(numbers[[at]]), source.name) for at in numbers.tolist())
        return BadMessageIds.join([*ones, BadMessageIds.unknown(0)])

    def _ids_of(self, messages: MessageBatch, name: str) -> BadMessageIds:
        """Return the transaction ids of bad messages. `name` is the header field with the id."""
        found = BadMessageIds.unknown(len(messages))
        left = np.arange(len(messages))
        while len(left):
            part = messages if len(left) == len(messages) else messages.only(left)
            try:
                records: MessageRecords = self.format.records(part)
                ids = records.text(name)
            except BadMessagesError as several:
                bad = several.messages
            except TrailgateError:  # of one of them: each is read by itself
                if len(left) > 1:
                    ones = [self._ids_of(messages.slice(at, at + 1), name) for at in left.tolist()]
                    found = found.put(left, BadMessageIds.join(ones))
                    break
                bad = np.zeros(1, np.int64)
            else:
                found = found.put(left, _first_and_last(records.message, ids, len(left)))
                break
            found = found.put(left[bad], self.format.transactions_of(messages.only(left[bad])))
            left = np.delete(left, bad)
        return found

    def _metadata_block(self, sources: MetadataValues, kinds: Octets) -> ChangeBlock:
        """Build a block of the metadata of all message records, before their tables and images are known."""
        options, records = self.options, sources.records
        messages, count = records.messages, len(kinds)
        position = format_message_positions(
            records.of_messages(messages.files) + self.first_file,
            records.of_messages(messages.offsets) + records.offset,
        )
        seq_id = sources.text(options.seqid, position, "seqid")
        return ChangeBlock(
            table=Table("", ()),
            order=np.arange(count),
            op_type=kinds,
            op_ts=sources.times(),
            tx_ind=np.zeros(count, np.uint8),
            tx_id=seq_id,
            csn=seq_id,
            seq_id=seq_id,
            position=position,
            before=(),
            after=(),
            tx_owner=sources.optional(options.txowner, position),
            tx_name=sources.optional(options.txname, position),
            tokens=records.tokens(),
        )

    def _tables(self, sources: MetadataValues) -> tuple[list[Table], Longs]:
        """Return the distinct tables, sorted by name, and each record's index into them."""
        codes, names = sources.table_names()
        tables, unknown = [], {}
        for code, name in enumerate(names):
            try:
                tables.append(self.definitions.table(name))
            except DefinitionError as missing:
                unknown[code] = self.options.undefined_hint or missing.hint
        if unknown:
            records, bad = sources.records, np.isin(codes, list(unknown))
            source = self.options.schemaandtable or self.options.table[0]

            def errors(rows: Longs) -> ErrorColumns:
                own, which = np.unique(codes[rows], return_inverse=True)
                places = pa.array(which)
                known = [names[code] for code in own.tolist()]
                problems = [f"table {name} is not in the definitions" for name in known]
                hints = [unknown[code] for code in own.tolist()]
                problem, hint, table = (
                    pa.array(texts, pa.string()).take(places) for texts in (problems, hints, known)
                )
                return sources.errors(rows, source, problem, hint, table=table)

            records.refuse(np.flatnonzero(bad), errors)
        # Sorted by name, so that the first error does not depend on the rest of the batch.
        # `argsort(order)[codes]` replaces each old table number by its rank in the sorted list.
        order = sorted(range(len(tables)), key=lambda code: (tables[code].name, names[code]))
        return [tables[code] for code in order], np.argsort(order)[codes]

    def _codes(
        self, sources: MetadataValues, source: ValueSource, meanings: Mapping[bytes, str], what: str
    ) -> Octets:
        """Return the operation type or transaction indicator of each record as a byte: ord("I").

        `meanings` maps the codes in messages to letters, and `what` is "optype" or "txind". Raises
        BadMessagesError for the messages with an unknown code.
        """
        codes, values = sources.codes(source, what)
        # The letter of each distinct value, or 0 if the value has no meaning.
        letters = np.zeros(max(1, len(values)), np.uint8)
        for code, value in enumerate(values):
            letters[code] = ord(meanings.get(value.encode(), "\0"))
        meant: Octets = letters[codes]
        unknown = np.flatnonzero(meant == 0)
        if len(unknown):
            known = ", ".join(repr(v.decode(errors="replace")) for v in meanings)
            more = ""
            if self.options.names_operations:
                word = "insert" if what == "optype" else "begin"
                more = f". Other values are set by {what}.{word}val and similar properties"

            def errors(rows: Longs) -> ErrorColumns:
                own, which = np.unique(codes[rows], return_inverse=True)
                texts = [f"unknown {what} value {values[code]!r}" for code in own.tolist()]
                problem = pa.array(texts, pa.string()).take(pa.array(which))
                return sources.errors(rows, source, problem, f"Known: {known}{more}")

            sources.records.refuse(unknown, errors)
        return meant

    def _find_captured(self, tables: list[Table], table_of: Longs) -> Longs:
        """Return the indexes of the records whose table is captured.

        `table_of` is the index of each record's table in `tables`.
        """
        wanted = np.array([self.selections.of(t) is not None for t in tables] or [True])
        if wanted.all():
            return np.arange(len(table_of))
        return np.flatnonzero(wanted[table_of])

    def _blocks(
        self,
        records: MessageRecords,
        bare: ChangeBlock,
        known: list[Table],
        table_of: Longs,
        rows: Longs,
        excluded: Octets | None,
    ) -> Iterator[ChangeBlock]:
        """Yield the captured operations in blocks of one table, operation type and layout.

        `rows` are the records of captured tables, `table_of` is the index of each record's table in
        `known`, and a block's `order` are record numbers. Inserts and updates share a block if both
        have only after images. For `excluded` see `RawOperations`. Raises BadMessagesError after
        the last block.
        """
        if not len(rows):
            return
        shape = self.format.layouts(records, known, table_of)
        kinds = self._image_types(bare.op_type, known, table_of)
        # One number per combination of table, operation type (a byte) and layout.
        keys = (table_of * 256 + kinds) * (int(shape.max()) + 1) + shape
        errors = MessageErrors()
        for _, places in group_rows(keys if len(rows) == len(keys) else keys[rows]):
            members = places if len(rows) == len(keys) else rows[places]
            table, kind = known[table_of[members[0]]], int(kinds[members[0]])
            before, after = self.format.images(records, table, kind, members, errors)
            taken = bare.take(members)
            block = taken.with_columns(table=table, order=members, before=before, after=after)
            chosen = self._select(block, records, excluded, errors)
            if len(chosen):
                check_keys(MessageRecordGroup(records, table, chosen.order, errors), chosen.before)
                yield chosen
        if errors:
            raise BadMessagesError(errors)

    def _image_types(self, op_type: Octets, known: list[Table], table_of: Longs) -> Octets:
        """Return the operation types by which records are grouped into blocks.

        If the format has no before values, and all operations of the table are captured, inserts
        count as updates, because their images look the same.
        """
        if self.format.has_befores:
            return op_type
        selections = map(self.selections.of, known)
        alike = np.array(
            [selection is not None and selection.takes_all for selection in selections]
        )
        updates = _AS_UPDATES.take(op_type)
        return updates if alike.all() else np.where(alike[table_of], updates, op_type)

    def _select(
        self,
        block: ChangeBlock,
        records: MessageRecords,
        excluded: Octets | None,
        errors: MessageErrors,
    ) -> ChangeBlock:
        """Return the operations of a block that its TABLE statements select.

        Adds an error for each operation about which a missing column decides.
        """
        selection = self.selections.of(block.table)
        assert selection is not None
        if selection.takes_all:
            return block
        typed = with_operation_types(block) if selection.asks_types else block
        selected = selection.select(typed)
        undecided = (
            selected.undecided
            if excluded is None
            # An excluded operation is not captured in any case. If its transaction decides, it counts
            # as possibly captured.
            else selected.undecided & (excluded[block.order] & EXCLUDED == 0)
        )
        places = np.flatnonzero(undecided)
        if len(places):
            missing = [selection.undecided_problem(block, at) for at in places.tolist()]
            problem, rows = pa.array(missing, pa.string()), block.order[places]
            found = records.errors(rows, problem, MISSING_HINT, table=block.table.name)
            errors.add(records.message[rows], found)
        return block.take(np.flatnonzero(selected.selected))


def _first_and_last(message: Longs, ids: pa.Array, count: int) -> BadMessageIds:
    """Return the first and last transaction id of each message, from the ids of its records.

    `message` is the message of each record, and `count` the number of messages. The ids of a
    message are unknown if it has no record, or if a record has no id.
    """
    # Records are ordered by message: the records of message i are [begins[i], ends[i]).
    numbers = np.arange(count)
    begins = np.searchsorted(message, numbers)
    ends = np.searchsorted(message, numbers, "right")
    # `absent[i]` counts the records without an id before record i.
    absent = np.append(0, np.cumsum(np.asarray(ids.is_null())))
    unknown = (begins == ends) | (absent[ends] > absent[begins])
    first, last = (ids.take(pa.array(rows, mask=unknown)) for rows in (begins, ends - 1))
    return BadMessageIds(first, last, np.zeros(count, bool))


def _none_if_null(values: pa.Array | None) -> pa.Array | None:
    """Return a column of metadata, or None if all its values are null."""
    return None if values is None or values.null_count == len(values) else values
