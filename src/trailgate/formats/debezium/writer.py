"""Write operations as Debezium change events: the reverse of `reader.py`.

Columns are written like those of a connector with decimal.handling.mode=string,
time.precision.mode=isostring and binary.handling.mode=bytes. Each event states its ordinal in its
transaction and in its table. BEGIN and END events are written around each transaction. The message
key is the table's key, so that a partitioned log keeps the events of a row in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.templates import MeasuredRows
from trailgate.formats.debezium.options import ERROR, PLACEHOLDER, DebeziumPublishOptions
from trailgate.formats.debezium.schemas import (
    TRANSACTION_KEY,
    TRANSACTION_VALUE,
    EventColumn,
    event_columns,
    event_schema,
    key_schema,
)
from trailgate.formats.json.writer import (
    BARE,
    STRING,
    JsonMember,
    check_no_image,
    join_members,
    json_literal,
    measure_by_type,
    measure_members,
    operation_error,
    write_bodies,
)
from trailgate.messages.publishing import NO_MESSAGES, WrittenMessages
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    TRUNCATE,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.table_names import split_table_name, unquote
from trailgate.model.transactions import mask_begins, mask_ends
from trailgate.model.types import TypeFamily

_MILLI: Final = 1000  # microseconds


# The member op by the operation's type: create, update, delete, truncate.
LETTERS: Final[Mapping[int, str]] = MappingProxyType(
    {INSERT: "c", UPDATE: "u", KEY_UPDATE: "u", DELETE: "d", TRUNCATE: "t"}
)


@dataclass(slots=True)
class OpenTransaction:
    """The transaction that is open between two batches of change events: the number of its operations so far, by table."""

    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionOrdinals:
    """The transactions of a batch's operations, and the ordinals that their change events state.

    `begins` and `ends` mark the operations that begin and end a transaction. `total` and `of_table`
    are each operation's ordinal, from 1: in its transaction, and among the operations of the
    transaction on the same table. `tx_id` and `times` are each operation's transaction id and
    commit time.
    """

    begins: Mask
    ends: Mask
    total: Longs
    of_table: Longs
    tx_id: pa.Array
    times: Longs
    counts: tuple[Longs, Longs, pa.Array]  # of ended ones: transaction, number of operations, table


def number_operations(batch: ChangeBatch, open_one: OpenTransaction) -> TransactionOrdinals:
    """Assign each operation of a batch its ordinals within its transaction, as change events state them.

    `open_one` is updated to the transaction that is still open at the batch's end.
    """
    marks = batch.tx_indicators()
    begins, ends = mask_begins(marks), mask_ends(marks)
    # Example: begins 0 1 0 1 are the transactions 0 1 1 2.
    number = np.cumsum(begins, dtype=np.int64)  # 0 is the transaction that was open before
    rows = np.arange(batch.rows)
    # The row of the last begin up to each row; 0 for the transaction that was open before.
    first = np.maximum.accumulate(np.where(begins, rows, 0))
    # In the example, first is 0 1 1 3, and so total is 1 1 2 1.
    total = rows - first + 1 + np.where(number == 0, sum(open_one.counts.values()), 0)
    times = np.empty(batch.rows, np.int64)
    for block in batch.blocks:
        times[block.order] = block.op_ts
    names, of_table, every = _count_tables(batch, number, open_one)
    # Transactions whose last operation is in this batch.
    ended = np.isin(every[0], number[ends])
    if batch.rows:
        # The next batch continues the counts of the last transaction, unless it has ended.
        left = every[:, (every[0] == number[-1]) & ~ended]
        pairs = zip(left[1].tolist(), left[2].tolist(), strict=True)
        open_one.counts = {names[table]: count for table, count in pairs}
    # The columns of `every` are (transaction, table, count). Keep those of ended transactions.
    every = every[:, ended]
    numbers = np.searchsorted(number[ends], every[0]).astype(np.int64)
    tables = pa.array(names, pa.string()).take(pa.array(every[1]))
    counts = numbers, np.ascontiguousarray(every[2]), tables
    return TransactionOrdinals(
        begins=begins,
        ends=ends,
        total=total,
        of_table=of_table,
        tx_id=batch.in_order("tx_id"),
        times=times,
        counts=counts,
    )


def _count_tables(
    batch: ChangeBatch, number: Longs, open_one: OpenTransaction
) -> tuple[list[str], Longs, npt.NDArray[np.int64]]:
    """Count the operations of a batch by transaction and table, for the ordinals in change events.

    `number` is the transaction of each operation: 0 for the transaction that was open before the
    batch (`open_one`), then 1, 2, and so on. Returns the table names, each operation's ordinal in
    its transaction and table, and a matrix whose columns are (transaction, table, count).
    Operations of the open transaction in earlier batches are counted too. The tables of a
    transaction are in the order of their first operations, so that an END event does not depend on
    where batches begin.
    """
    names = list(dict.fromkeys([*open_one.counts, *(b.table.name for b in batch.blocks)]))
    of_table = np.empty(batch.rows, np.int64)
    before = np.zeros(len(names), np.int64)
    if batch.rows and number[0] == 0:
        before[:] = [open_one.counts.get(name, 0) for name in names]
    parts = []
    for table, name in enumerate(names):
        mine = [block.order for block in batch.blocks if block.table.name == name]
        order = np.sort(np.concatenate(mine)) if mine else np.zeros(0, np.int64)
        transactions = number[order]
        fresh = np.ones(len(transactions), bool)
        fresh[1:] = transactions[1:] != transactions[:-1]
        # Positions in `order`, the rows of one table. Example: transactions 1, 1, 2, 2, 2 give
        # begin = 0, 0, 2, 2, 2 and ordinals 1, 2, 1, 2, 3.
        begin = np.maximum.accumulate(np.where(fresh, np.arange(len(transactions)), 0))
        counted = (
            np.arange(len(transactions)) - begin + 1 + np.where(transactions == 0, before[table], 0)
        )
        of_table[order] = counted
        last = np.append(fresh[1:], [True] * bool(len(transactions))).astype(bool)
        # The row of a table's first operation in a transaction. Tables of the transaction that was
        # open before come first, in their own order: they are the first of `names`.
        first = order[begin]
        if before[table]:
            first[transactions == 0] = table - len(names)
        parts.append(np.stack([transactions, np.full(len(order), table), counted, first])[:, last])
        # The open transaction has operations of this table, but none of them in this batch.
        if before[table] and (not len(transactions) or transactions[0] > 0):
            parts.append(np.array([[0], [table], [before[table]], [table - len(names)]]))
    every = np.concatenate([np.zeros((4, 0), np.int64), *parts], axis=1)
    # lexsort sorts by its last key first: by transaction, and in it by each table's first operation.
    return names, of_table, every[:3, np.lexsort((every[3], every[0]))]


def begin_events(bounds: TransactionOrdinals, *, schemas: bool) -> tuple[Longs, MeasuredRows]:
    """Build the BEGIN events of transactions, and return them with the rows to write them before.

    A row is that of a transaction's first operation. A transaction without an id has no BEGIN
    event.
    """
    rows = np.flatnonzero(bounds.begins & _has_ids(bounds))
    pieces = [
        *_head(bounds, rows, b"BEGIN"),
        JsonMember(b',"event_count":null,"data_collections":null}'),
    ]
    return rows, measure_members(_with_schema(pieces, TRANSACTION_VALUE, schemas), len(rows))


def end_events(bounds: TransactionOrdinals, *, schemas: bool) -> tuple[Longs, MeasuredRows]:
    """Build the END events of transactions, and return them with the rows to write them after.

    A row is that of a transaction's last operation. A transaction without an id has no END event.
    """
    ends = np.flatnonzero(bounds.ends)
    numbers, counts, names = bounds.counts
    entries = [
        JsonMember(b',{"data_collection":', names, STRING),
        JsonMember(b',"event_count":', _digits(counts), BARE),
        JsonMember(b"}"),
    ]
    # `numbers` is the ascending transaction number of each entry, so transaction i has the entries
    # offsets[i] to offsets[i + 1].
    offsets = np.searchsorted(numbers, np.arange(len(ends) + 1)).astype(np.int64)
    listed = join_members(entries, offsets)
    known = np.flatnonzero(_has_ids(bounds)[ends])
    rows = ends[known]
    pieces = [
        *_head(bounds, rows, b"END"),
        JsonMember(b',"event_count":', _digits(bounds.total[rows]), BARE),
        JsonMember(b',"data_collections":[', listed.take(pa.array(known)), BARE),
        JsonMember(b"]}"),
    ]
    return rows, measure_members(_with_schema(pieces, TRANSACTION_VALUE, schemas), len(rows))


def _has_ids(bounds: TransactionOrdinals) -> Mask:
    """Return a mask of the operations in change events that have a transaction id."""
    if not bounds.tx_id.null_count:
        return np.ones(len(bounds.begins), bool)
    valid: Mask = np.asarray(bounds.tx_id.is_valid())
    return valid


def _head(bounds: TransactionOrdinals, rows: Longs, status: bytes) -> list[JsonMember]:
    times = bounds.times[rows] // _MILLI
    return [
        JsonMember(b'{"status":"' + status + b'","id":', bounds.tx_id.take(pa.array(rows)), STRING),
        JsonMember(b',"ts_ms":', _digits(times), BARE),
    ]


def _digits(numbers: Longs) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def event_keys(block: ChangeBlock, prefix: str, *, schemas: bool) -> MeasuredRows | None:
    """Write the message keys of change events of one table and type: the after values, or the before values of deletes.

    Returns None for truncates and tables without a key. Raises EncodeError if a key value is
    missing.
    """
    numbers = block.table.marked_keys
    if not numbers or block.op_type[0] == TRUNCATE:
        return None
    pieces = [JsonMember(b"{"), *(_member(block, number) for number in numbers), JsonMember(b"}")]
    schema = key_schema(block.table, prefix) if schemas else b""
    return measure_members(_with_schema(pieces, schema, schemas), len(block))


def transaction_keys(bounds: TransactionOrdinals, rows: Longs, *, schemas: bool) -> MeasuredRows:
    """Write the message keys of the BEGIN or END events at these operations."""
    ids = bounds.tx_id.take(pa.array(rows))
    pieces = [JsonMember(b'{"id":', ids, STRING), JsonMember(b"}")]
    return measure_members(_with_schema(pieces, TRANSACTION_KEY, schemas), len(rows))


def _with_schema(pieces: list[JsonMember], schema: bytes, schemas: bool) -> list[JsonMember]:
    """Wrap an event or key as the payload beside its schema, in the form of Connect's JSON converter.

    Without `schemas`, the object is returned unchanged.
    """
    if not schemas:
        return pieces
    return [JsonMember(b'{"schema":' + schema + b',"payload":'), *pieces, JsonMember(b"}")]


def _member(block: ChangeBlock, number: int) -> JsonMember:
    """Return a key column of change events as a member of their message key.

    If a value is missing in the after image, it did not change, and the before value is used; for
    deletes it is the other way round. Raises EncodeError if both are missing.
    """
    images = block.before[number], block.after[number]
    # A delete's key is in its before image, every other operation's in its after image.
    first, other = images if block.op_type[0] == DELETE else images[::-1]
    missing, values = first.is_missing(len(block)), first.values
    if missing.any():
        lost = missing & other.is_missing(len(block))
        if lost.any():
            name = block.table.columns[number].name
            problem = f"key column {name} is missing, but an event needs its key"
            raise operation_error(block, int(np.argmax(lost)), problem).with_place(field=name)
        assert other.values is not None
        values = (
            other.values if values is None else pc.if_else(pa.array(missing), other.values, values)
        )
    written = event_columns(block.table)[number].written
    return JsonMember(written.literal, written.format(values), written.kind)


class DebeziumWriter:
    """Writes Debezium change events, one per operation, with BEGIN and END events around transactions."""

    def __init__(self, options: DebeziumPublishOptions) -> None:
        self.options = options
        self._open = OpenTransaction()

    def write(self, batch: ChangeBatch) -> WrittenMessages:
        """Write a batch of operations as change events.

        Raises EncodeError for values that events cannot express.
        """
        if not batch.rows:
            return NO_MESSAGES
        bounds = number_operations(batch, self._open) if self.options.transactions else None
        rows, schemas = np.arange(batch.rows), self.options.schemas
        begins = ends = rows[:0]
        measured: list[tuple[Longs, MeasuredRows]] = []
        keys: list[tuple[Longs, MeasuredRows]] = []
        if bounds is not None:
            begins, opening = begin_events(bounds, schemas=schemas)
            ends, closing = end_events(bounds, schemas=schemas)
        # The slot of each operation's event among all events: its row, plus the BEGIN events up to
        # it, plus the END events before it. Example: two transactions of one operation each have
        # the slots BEGIN 0, event 1, END 2, BEGIN 3, event 4, END 5.
        slot_of = rows + np.searchsorted(begins, rows, side="right") + np.searchsorted(ends, rows)
        most = self.options.max_message_bytes
        for part, objects in measure_by_type(batch, partial(self._measure, bounds=bounds), most):
            measured.append((slot_of[part.order], objects))
            own_keys = event_keys(part, self.options.prefix, schemas=schemas)
            if own_keys is not None:
                keys.append((slot_of[part.order], own_keys))
        if bounds is not None:
            measured += [(slot_of[begins] - 1, opening), (slot_of[ends] + 1, closing)]
            for rows_of, slots in ((begins, slot_of[begins] - 1), (ends, slot_of[ends] + 1)):
                keys.append((slots, transaction_keys(bounds, rows_of, schemas=schemas)))
        count = batch.rows + len(begins) + len(ends)
        order = np.empty(count, np.int64)
        order[slot_of], order[slot_of[begins] - 1], order[slot_of[ends] + 1] = rows, begins, ends
        topics = self._topics(batch, slot_of, count)
        marks = np.ones(count, bool)
        marks[slot_of] = False
        bodies, written_keys = write_bodies(measured, count), write_bodies(keys, count)
        return WrittenMessages(bodies, order, {"topic": topics}, written_keys, marks)

    def finish(self) -> WrittenMessages:
        """Return no messages, because change events are never held back."""
        return NO_MESSAGES

    def _topics(self, batch: ChangeBatch, own: Longs, count: int) -> pa.Array:
        """Return the topics of `count` events: `prefix.TABLE`, and `prefix.transaction` for BEGIN and END.

        `own` are the indexes of the operations' events; the other events are BEGIN and END events.
        """
        prefix = self.options.prefix
        names = [f"{prefix}.transaction", *(f"{prefix}.{b.table.name}" for b in batch.blocks)]
        # Code 0 is the topic of the BEGIN and END events, code n the topic of the batch's n-th
        # table. `own` are the places of the operations among all events.
        codes = np.zeros(count, np.int64)
        codes[own] = batch.table_numbers() + 1
        return pa.array(names, pa.string()).take(pa.array(codes))

    def _measure(self, block: ChangeBlock, bounds: TransactionOrdinals | None) -> MeasuredRows:
        """Compute the sizes of the change events for operations of one table and type."""
        kind = int(block.op_type[0])
        if kind == KEY_UPDATE and self.options.key_updates == ERROR:
            problem = "the key changes, which change events express as a delete and an insert"
            hint = "Give the option key_updates=update to write an update with both keys"
            raise operation_error(block, 0, problem, hint)
        pieces = [
            JsonMember(b"{"),
            *self._image(block, block.before, b"before", kind not in (INSERT, TRUNCATE)),
            *self._image(block, block.after, b"after", kind not in (DELETE, TRUNCATE)),
            *self._metadata(block, bounds),
            JsonMember(b"}"),
        ]
        schemas = self.options.schemas
        schema = event_schema(block.table, self.options.prefix) if schemas else b""
        return measure_members(_with_schema(pieces, schema, schemas), len(block))

    def _image(
        self, block: ChangeBlock, image: Image, name: bytes, wanted: bool
    ) -> Iterator[JsonMember]:
        """Yield the JSON members of a change event's image.

        `name` is the image's own member: b"before" or b"after". `wanted` states whether the
        operation type has this image; otherwise it is written as `null`. The before image of an
        update is `null` too if all its values are missing. Raises EncodeError if there are values
        of an image that is not wanted.
        """
        rows = len(block)
        if not wanted:
            check_no_image(block, image, name.decode())
        missing = [state.is_missing(rows) for state in image]
        # Rows whose image is written as null: all rows if the type has no such image, or updates in
        # which every before value is missing.
        nothing: Mask = np.ones(rows, bool)
        if wanted:
            nothing = np.logical_and.reduce(missing) if missing else nothing
            if name == b"after" or block.op_type[0] == DELETE:
                nothing = np.zeros(rows, bool)
        if not nothing.all():
            yield JsonMember(b',"' + name + b'":{', missing=nothing)
            columns = event_columns(block.table)
            for at, (state, column) in enumerate(zip(image, columns, strict=True)):
                own = missing[at] & ~nothing
                if own.any():
                    state = self._replace_missing(block, at, state, own)  # noqa: PLW2901  column by column
                if state.values is not None:
                    yield self._member(column, state, nothing)
            yield JsonMember(b"}", missing=nothing)
        yield JsonMember(b',"' + name + b'":null', missing=~nothing)

    @staticmethod
    def _member(column: EventColumn, state: StateColumn, nothing: Mask) -> JsonMember:
        written = column.written
        absent = nothing if state.missing is None else nothing | state.missing
        return JsonMember(written.literal, written.format(state.values), written.kind, absent)

    def _replace_missing(
        self, block: ChangeBlock, at: int, state: StateColumn, missing: Mask
    ) -> StateColumn:
        """Treat missing values in a change event's column as the option `missing` requires.

        `at` is the index of the column. With "omit" they stay missing, and with "placeholder" they
        become the placeholder. Raises EncodeError with "error", and with "placeholder" if the
        column is not text.
        """
        column = block.table.columns[at]
        if self.options.missing == ERROR:
            problem = f"column {column.name} is missing, but an event has all columns of a row"
            hint = (
                "Capture with all columns and their befores (NOCOMPRESSUPDATES, GETUPDATEBEFORES, NOCOMPRESSDELETES), or "
                "give the option missing=omit, or missing=placeholder"
            )
            error = operation_error(block, int(np.argmax(missing)), problem, hint)
            raise error.with_place(field=column.name)
        if self.options.missing != PLACEHOLDER:
            return state
        if column.family is not TypeFamily.TEXT:
            problem = (
                f"column {column.name} is missing, and only text columns can have a placeholder"
            )
            error = operation_error(block, int(np.argmax(missing)), problem, "Set missing=omit")
            raise error.with_place(field=column.name)
        values = pa.nulls(len(block), pa.string()) if state.values is None else state.values
        return StateColumn(pc.if_else(pa.array(missing), self.options.placeholder, values))

    def _metadata(
        self, block: ChangeBlock, bounds: TransactionOrdinals | None
    ) -> Iterator[JsonMember]:
        options, micros = self.options, block.op_ts
        yield JsonMember(
            b',"source":{"version":"1","connector":"trailgate","name":'
            + json_literal(options.prefix)
        )
        times = _times(micros)
        yield from times
        database, schema, name = _names(block)
        fixed = (b',"snapshot":"false","db":', b',"schema":', b',"table":')
        strings = zip(fixed, (database, schema, name), strict=True)
        yield JsonMember(b"".join(before + json_literal(text) for before, text in strings))
        yield JsonMember(b',"txId":', block.tx_id, STRING)
        yield JsonMember(b',"scn":', block.csn, STRING)
        yield JsonMember(b'},"op":' + json_literal(LETTERS[int(block.op_type[0])]))
        yield from _times(np.full(len(block), options.now, np.int64)) if options.now else times
        if bounds is None:
            return
        ids = block.tx_id
        # Of the members below, each row has either the block of its transaction or
        # `"transaction":null`.
        without = np.asarray(ids.is_null()) if ids.null_count else np.zeros(len(block), bool)
        yield JsonMember(b',"transaction":{"id":', ids, STRING, without)
        yield JsonMember(b',"total_order":', _digits(bounds.total[block.order]), BARE, without)
        order = _digits(bounds.of_table[block.order])
        yield JsonMember(b',"data_collection_order":', order, BARE, without)
        yield JsonMember(b"}", missing=without)
        yield JsonMember(b',"transaction":null', missing=~without)


def _names(block: ChangeBlock) -> tuple[str | None, str, str]:
    """Return the database, schema and name of a table, which change events state.

    Raises EncodeError if the table has no schema.
    """
    parts = list(map(unquote, split_table_name(block.table.name)))
    if not 2 <= len(parts) <= 3:
        problem = f"the table {block.table.name} has no schema, but an event must name one"
        raise operation_error(block, 0, problem)
    return (parts[0] if len(parts) == 3 else None), parts[-2], parts[-1]


def _times(micros: Longs) -> list[JsonMember]:
    """Return the members ts_ms, ts_us and ts_ns of change events: a time in milliseconds, and so on."""
    digits = _digits(micros)
    # Nanoseconds are microseconds with "000" after them: after the year 2262 they exceed 64 bits.
    nanos = pc.if_else(pc.equal(digits, "0"), "", "000") if (micros == 0).any() else None
    return [
        JsonMember(b',"ts_ms":', _digits(micros // _MILLI), BARE),
        JsonMember(b',"ts_us":', digits, BARE),
        JsonMember(b',"ts_ns":', digits, BARE),
        JsonMember(b"000") if nanos is None else JsonMember(b"", nanos, BARE),
    ]
