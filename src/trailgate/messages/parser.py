"""Messages to operations, a batch at a time: the steps that all formats share.

A format finds records, their header fields and their images (``MessageFormat``). ``MessageParser`` reads the header's values first, for all records: tables, types,
ids, times. Then records of one table, operation type and shape are one group, of which the format gives the images and TABLE statements choose rows. What
is wrong is found for many messages at once and raised together, so that the good ones are parsed again without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.digits import format_positions
from trailgate.columnar.rows import group
from trailgate.errors import DecodeError, DefinitionError, TrailgateError
from trailgate.expressions.selection import (
    MISSING_HINT,
    CaptureRules,
    TableSelections,
    find_excluded,
)
from trailgate.messages.bounds import RawOperations
from trailgate.messages.images import with_operation_types
from trailgate.messages.messages import MessageBatch
from trailgate.messages.metadata import MetadataValues
from trailgate.messages.properties import MetadataOptions, ValueSource
from trailgate.messages.property_rows import SourceKind
from trailgate.messages.records import (
    BadMessagesError,
    MessageErrors,
    RecordGroup,
    Records,
    check_keys,
)
from trailgate.model.changes import END, INSERT, MIDDLE, UPDATE, ChangeBlock, Image
from trailgate.model.tables import Definitions, Table

R = TypeVar("R", bound=Records)


class MessageFormat(ABC, Generic[R]):
    """One kind of messages: what their bytes are."""

    @property
    def has_befores(self) -> bool:
        """Return whether records of updates may have before values, which those of inserts do not have."""
        return True

    @abstractmethod
    def records(self, messages: MessageBatch) -> R:
        """Return the records of the messages, each with its whole header.

        Raises BadMessagesError for the bad messages that one check finds.
        """

    def layouts(
        self,
        records: R,  # noqa: ARG002  where columns are found by name all records lie alike
        tables: Sequence[Table],  # noqa: ARG002  as above
        table_of: Longs,
    ) -> Longs:
        """Return a number for each record; those of one table that have the same lie alike."""
        return np.zeros(len(table_of), np.int64)

    @abstractmethod
    def images(
        self, records: R, table: Table, kind: int, rows: Longs, errors: MessageErrors
    ) -> tuple[Image, Image]:
        """Return before and after of alike records; what is wrong is added to the errors.

        Where updates have no before values, inserts may be among them.
        """

    def reads_alone(self, messages: MessageBatch) -> bool:  # noqa: ARG002  for formats with parts of rows
        """Return whether what is read of each of these messages does not depend on those before it."""
        return True

    def transactions_of(self, message: MessageBatch) -> tuple[str, ...] | None:  # noqa: ARG002  for formats that know it
        """Return the transactions of one message of which no records can be made, where transactions are known by their ids.

        Nothing where it surely has no operation, None where it is not known.
        """
        return None

    def warnings(self, notes: frozenset[str]) -> frozenset[str]:
        """Return what a run notes at its end, from the notes of all its records."""
        return notes


@dataclass(eq=False)
class MessageParser:
    """Parses batches by one set of options; what a schema decides is made once and kept."""

    format: MessageFormat[Any]
    options: MetadataOptions
    definitions: Definitions
    rules: CaptureRules
    now: int = 0
    first_file: int = 0

    def __post_init__(self) -> None:
        self.selections = TableSelections(self.rules)

    def parse(self, messages: MessageBatch) -> RawOperations:
        """Return the operations of the messages.

        Raises BadMessagesError for the bad ones that one check finds, or a TrailgateError for one.
        """
        records: Records = self.format.records(messages)
        sources = MetadataValues(self.options, records, self.now)
        tables, table_of = self._tables(sources)
        kinds = self._codes(sources, self.options.optype, self.options.optype_values, "optype")
        rows = self._find_captured(tables, table_of)
        bare = self._bare(sources, kinds)
        txind, marks = self.options.txind, None
        if txind is not None:
            marks = self._codes(sources, txind, self.options.txind_values, "txind")
        ends = records.transaction_ends()
        if marks is None and ends is not None:
            marks = np.where(ends, END, MIDDLE).astype(np.uint8)
        txid = self.options.txid
        # The sequence id of a transaction's first operation may be the transaction's id.
        first_id = txid.kind is SourceKind.SEQ_ID
        tx_id = bare.csn if first_id else sources.text(txid, bare.position, "txid")
        left_out = find_excluded(self.rules, bare.tx_owner, bare.tx_name)
        bare = replace(bare, tx_owner=_if_any(bare.tx_owner), tx_name=_if_any(bare.tx_name))
        blocks = tuple(self._blocks(records, bare, tables, table_of, rows, left_out))
        message, csn = records.message, bare.csn
        # Indicators and ids of records that are not captured matter too.
        if marks is None and not self.options.by_id and len(rows) < len(table_of):
            which = pa.array(rows)
            blocks = tuple(replace(b, order=np.searchsorted(rows, b.order)) for b in blocks)
            left_out = None if left_out is None else left_out[rows]
            message, tx_id, csn = message[rows], tx_id.take(which), csn.take(which)
        generated: bool | Mask = txid.kind in (SourceKind.TX_ID, SourceKind.SEQ_ID)
        notes = records.notes | sources.notes
        by_id, segments = self.options.by_id, records.segments()
        borders = records.borders(csn) if by_id else None
        own = records.is_generated(txid.name) if txid.kind is SourceKind.FIELD else None
        if own is not None:
            generated = own if len(own) == len(message) else own[rows]
        return RawOperations(
            blocks, message, marks, tx_id, csn, generated, left_out, notes, by_id, segments, borders
        )

    def ids_of(self, messages: MessageBatch) -> list[tuple[str, ...] | None]:
        """Return the transactions of the first and the last operation of each bad message, if they can be read all the same.

        None if they cannot; nothing if it surely has no operation. They matter only if transactions are known by their ids.
        """
        options = self.options
        source = options.txid if options.operation_ids else options.seqid
        if not options.by_id or source.kind is not SourceKind.FIELD:
            return [None] * len(messages)
        if self.format.reads_alone(messages):
            return self._ids_of(messages, source.name)
        numbers = np.arange(len(messages))
        ones = (self._ids_of(messages.only(numbers[[at]]), source.name) for at in numbers.tolist())
        return [own for (own,) in ones]

    def _ids_of(self, messages: MessageBatch, name: str) -> list[tuple[str, ...] | None]:
        """Return the transactions of bad messages that are read together, by the header field that names them."""
        found: list[tuple[str, ...] | None] = [None] * len(messages)
        left = np.arange(len(messages))
        while len(left):
            part = messages if len(left) == len(messages) else messages.only(left)
            try:
                records: Records = self.format.records(part)
                ids = records.text(name)
            except BadMessagesError as several:
                bad = np.array(list(several.errors), np.int64)
            except TrailgateError:  # of one of them: each is read by itself
                if len(left) > 1:
                    for at in left.tolist():
                        found[at] = self._ids_of(messages.slice(at, at + 1), name)[0]
                    break
                bad = np.zeros(1, np.int64)
            else:
                for at, own in enumerate(_first_and_last(records.message, ids, len(left))):
                    found[int(left[at])] = own
                break
            for at in left[bad].tolist():
                found[at] = self.format.transactions_of(messages.slice(at, at + 1))
            left = np.delete(left, bad)
        return found

    def _bare(self, sources: MetadataValues, kinds: Octets) -> ChangeBlock:
        """Return all records as operations, without their tables and images."""
        options, records = self.options, sources.records
        messages, count = records.messages, len(kinds)
        position = format_positions(
            messages.files[records.message] + self.first_file,
            messages.offsets[records.message] + records.offset,
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
        """Return the tables that occur, by name, and which one each record belongs to."""
        codes, found = sources.table_names()
        tables, unknown = [], {}
        for code, name in enumerate(found):
            try:
                tables.append(self.definitions.table(name))
            except DefinitionError as missing:
                unknown[code] = self.options.undefined_hint or missing.hint
        if unknown:
            records, bad = sources.records, np.isin(codes, list(unknown))

            def error(row: int) -> DecodeError:
                name, hint = found[int(codes[row])], unknown[int(codes[row])]
                problem = f"table {name} is not in the definitions"
                return records.error(row, problem, hint, table=name)

            records.refuse(np.flatnonzero(bad), error)
        # In the order of names, so that errors do not depend on what else is in the batch.
        order = sorted(range(len(tables)), key=lambda code: (tables[code].name, found[code]))
        return [tables[code] for code in order], np.argsort(order)[codes]

    def _codes(
        self, sources: MetadataValues, source: ValueSource, meanings: Mapping[bytes, str], what: str
    ) -> Octets:
        """Return each record's operation type or transaction indicator as its letter's code."""
        codes, found = sources.codes(source, what)
        letters = np.zeros(max(1, len(found)), np.uint8)
        for code, value in enumerate(found):
            letters[code] = ord(meanings.get(value.encode(), "\0"))
        meant: Octets = letters[codes]
        unknown = np.flatnonzero(meant == 0)
        if len(unknown):
            known = ", ".join(repr(v.decode(errors="replace")) for v in meanings)
            more = ""
            if self.options.names_operations:
                word = "insert" if what == "optype" else "begin"
                more = f". The property {what}.{word}val, and others like it, name other values"

            def error(row: int) -> DecodeError:
                problem = f"unknown {what} value {found[int(codes[row])]!r}"
                return sources.records.error(row, problem, f"Known: {known}{more}")

            sources.records.refuse(unknown, error)
        return meant

    def _find_captured(self, tables: list[Table], table_of: Longs) -> Longs:
        """Return the records whose table is captured."""
        wanted = np.array([self.selections.of(t) is not None for t in tables] or [True])
        if wanted.all():
            return np.arange(len(table_of))
        return np.flatnonzero(wanted[table_of])

    def _blocks(
        self,
        records: Records,
        bare: ChangeBlock,
        known: list[Table],
        table_of: Longs,
        rows: Longs,
        left_out: Longs | None,
    ) -> Iterator[ChangeBlock]:
        """Yield a block for each table, operation type and shape of these records, with those that are captured.

        Inserts and updates that hold the same images share a block. ``order`` is the number of the record.
        """
        if not len(rows):
            return
        shape = self.format.layouts(records, known, table_of)
        kinds = self._kinds_of_images(bare.op_type, known, table_of)
        keys = (table_of * 256 + kinds) * (int(shape.max()) + 1) + shape
        errors: MessageErrors = {}
        for _, places in group(keys if len(rows) == len(keys) else keys[rows]):
            mine = places if len(rows) == len(keys) else rows[places]
            table, kind = known[table_of[mine[0]]], int(kinds[mine[0]])
            before, after = self.format.images(records, table, kind, mine, errors)
            block = replace(bare.take(mine), table=table, order=mine, before=before, after=after)
            chosen = self._chosen(block, records, left_out, errors)
            if len(chosen):
                check_keys(RecordGroup(records, table, chosen.order, errors), chosen.before)
                yield chosen
        if errors:
            raise BadMessagesError(errors)

    def _kinds_of_images(self, op_type: Octets, known: list[Table], table_of: Longs) -> Octets:
        """Return the operation types, with inserts as updates where both hold after images alone and no statement asks for the type."""
        if self.format.has_befores:
            return op_type
        selections = map(self.selections.of, known)
        alike = np.array([found is not None and found.takes_all for found in selections])
        kinds: Octets = np.where(alike[table_of] & (op_type == INSERT), np.uint8(UPDATE), op_type)
        return kinds

    def _chosen(
        self, block: ChangeBlock, records: Records, left_out: Longs | None, errors: MessageErrors
    ) -> ChangeBlock:
        """Return the operations that TABLE statements take; one that a missing column would decide is an error."""
        selection = self.selections.of(block.table)
        assert selection is not None
        if selection.takes_all:
            return block
        typed = with_operation_types(block) if selection.asks_types else block
        found = selection.select(typed)
        undecided = (
            found.undecided if left_out is None else found.undecided & (left_out[block.order] < 1)
        )
        for at in np.flatnonzero(undecided).tolist():
            row = int(block.order[at])
            error = records.error(
                row, selection.missing(block, at), MISSING_HINT, table=block.table.name
            )
            errors.setdefault(int(records.message[row]), error)
        return block.take(np.flatnonzero(found.selected))


def _first_and_last(message: Longs, ids: pa.Array, count: int) -> Iterator[tuple[str, ...] | None]:
    """Yield the first and the last id of each message's records, None if one of them has none."""
    numbers, strings = np.arange(count), ids.to_pylist()
    begins = np.searchsorted(message, numbers).tolist()
    ends = np.searchsorted(message, numbers, "right").tolist()
    for begin, end in zip(begins, ends, strict=True):
        own = strings[begin:end]
        yield None if not own or None in own else (own[0], own[-1])


def _if_any(values: pa.Array | None) -> pa.Array | None:
    """Return a column, None where it has no value."""
    return None if values is None or values.null_count == len(values) else values
