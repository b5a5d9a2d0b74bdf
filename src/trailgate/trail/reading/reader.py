"""Decode trail bytes into change batches.

The bytes are processed in chunks whose record offsets fit in the CPU cache. For each batch of
records: drop the records that are not operations (metadata, restarts, notes) and group the rest into
operations (`grouping`), find the tables, join values that are split over several records, and decode each
table's columns.

`decode` does not need complete data: it returns how many bytes it consumed, and a state from which
the next call continues. Metadata records change the meaning of table indexes, so they are decoded
one by one (they are few), and a batch ends before a table index changes its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK, Longs
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.trail.format.record_types import ROLE_OF, RecordRole
from trailgate.trail.format.tokens import LOGCSN, TRANID, ByteOrder
from trailgate.trail.reading.grouping import (
    GroupedOperations,
    drop_non_operations,
    group_operations,
    join_fragments,
    skip_system_keys,
    turn_backouts_into_notes,
)
from trailgate.trail.reading.images import EVERYTHING, ReadSelection
from trailgate.trail.reading.large_objects import LargeObjects, read_large_objects
from trailgate.trail.reading.operations import ReadContext, read_blocks
from trailgate.trail.reading.tokens import carry_token_strings
from trailgate.trail.records.framing import (
    RecordSpans,
    TrailBytes,
    find_records,
    wrap_trail_bytes,
)
from trailgate.trail.records.record_view import RecordColumns, raise_first_problem, view_records
from trailgate.trail.records.table_metadata import NO_TABLES, TrailTables, find_tables
from trailgate.trail.records.transactions import LAST
from trailgate.trail.values.charsets import UTF_8, find_charset

PEEK: Final = 64  # records checked at once when looking for the end of a batch
MOST_RECORDS: Final = 1 << 15  # records per batch: at least as many as a chunk of a file has


@dataclass(frozen=True, slots=True)
class ReaderState:
    """The state of reading a trail that later records need: byte order, known tables and the last transaction.

    None means that a value is unknown (reading began inside a transaction) or not in the trail.
    ``charset`` is the character set of the source's strings, by a name in ``charsets``. ``wanted``
    selects the tables and columns to decode. If ``gives_open`` is set and the data end inside a
    transaction, its last operation is returned too, although more pieces of it may follow.
    ``transactions`` is the number of transactions that have begun.
    """

    tx_id: str | None = None
    csn: str | None = None
    tx_open: bool = False
    tables: TrailTables = NO_TABLES
    order: ByteOrder = ByteOrder.BIG
    charset: str = UTF_8
    wanted: ReadSelection = EVERYTHING
    gives_open: bool = False
    transactions: int = 0


@dataclass(frozen=True, slots=True)
class DecodedTrail:
    """Operations decoded from trail bytes, the number of bytes consumed, and the state for the next bytes.

    A table may have several blocks: one for each batch of records.
    """

    batch: ChangeBatch
    consumed: int
    state: ReaderState


def decode(  # noqa: PLR0913  what is read, where it is, and what is known
    data: Any,
    definitions: Definitions,
    *,
    file_number: int,
    base_offset: int,
    state: ReaderState = ReaderState(),
    finish: bool = False,
    records: RecordColumns | None = None,
) -> DecodedTrail:
    """Decode the operations of all complete records in ``data`` (pa.Buffer or bytes).

    The data begin with a record, ``base_offset`` bytes into the file. An incomplete last record, a
    before image whose after image is missing, and the last operation of an open transaction
    (because its pieces may follow) are not consumed. With ``finish`` the first two raise
    TruncatedError; with ``state.gives_open`` the last one is returned. Invalid bytes raise
    DecodeError with their offset in the file.

    If ``records`` is given, only these records are read, as if the others did not exist.
    """
    source = replace(
        wrap_trail_bytes(data, base_offset, state.order), charset=find_charset(state.charset)
    )
    context = ReadContext(source, definitions, file_number, 0, wanted=state.wanted)
    if records is not None or len(source.data) <= CHUNK:
        return _decode_chunk(context, state, records, finish=finish, give_open=state.gives_open)
    blocks: list[ChangeBlock] = []
    numbers: list[Longs] = []
    offset, size = 0, CHUNK
    while True:
        stop = min(offset + size, len(source.data))
        part = replace(context, source=source.part(offset, stop))
        is_last = stop == len(source.data)
        decoded = _decode_chunk(
            part, state, None, finish=finish and is_last, give_open=state.gives_open and is_last
        )
        blocks += decoded.batch.blocks
        if decoded.batch.transactions is not None:
            numbers.append(decoded.batch.transactions)
        offset, state = offset + decoded.consumed, decoded.state
        context = replace(context, row=context.row + decoded.batch.rows)
        if is_last:
            joined = np.concatenate(numbers) if numbers else None
            return DecodedTrail(ChangeBatch(blocks, context.row, joined), offset, state)
        # Nothing consumed: one operation is larger than the chunk.
        size = CHUNK if decoded.consumed else 2 * size


def _decode_chunk(
    context: ReadContext,
    state: ReaderState,
    records: RecordColumns | None,
    *,
    finish: bool,
    give_open: bool,
) -> DecodedTrail:
    """Decode a chunk of a trail, small enough for its record offsets to fit in the CPU cache.

    ``finish`` and ``give_open`` are as for ``decode``. If ``records`` is None, they are found in
    the bytes.
    """
    source = context.source
    view = view_records(source, _find(source, finish)) if records is None else records
    blocks: list[ChangeBlock] = []
    numbers: list[Longs] = []  # of the transaction of each operation, on any table
    done = rows = 0
    size = MOST_RECORDS
    # ``done`` records are decoded. A batch may leave its last records to the next one, if their
    # operation is not complete.
    while done < len(view):
        stop = _before_change(view, done + size)
        more = stop < len(view) or not (finish or give_open)
        batch = _read_batch(source, view.take(slice(done, stop)), state, more=more)
        if not batch.records:
            if stop >= len(view):
                break
            size *= 2  # one operation has more records than the batch
            continue
        batch_context = replace(
            context, source=batch.source, row=context.row + rows, large=batch.large
        )
        blocks += read_blocks(batch_context, batch.operations, batch.transactions)
        numbers.append(state.transactions + np.cumsum(batch.operations.begins))
        done, rows, state = done + batch.records, rows + len(batch.operations), batch.state
        size = MOST_RECORDS
        if stop >= len(view) and not batch.is_cut:
            break  # the rest is an operation that may continue after the data
    consumed = int(view.offsets[done]) if done < len(view) else view.end
    if finish and done < len(view):
        raise TruncatedError(
            "the input ends between the before and the after image of an update",
            where=Where(offset=source.base + consumed),
        )
    kept = sum(map(len, blocks))
    if state.wanted.tables is None:
        return DecodedTrail(ChangeBatch(blocks, kept), consumed, state)
    order = np.sort(np.concatenate([np.zeros(0, np.int64), *(block.order for block in blocks)]))
    if kept < rows:
        blocks = _renumber(blocks, order, context.row)
    transactions = np.concatenate([np.zeros(0, np.int64), *numbers])[order - context.row]
    return DecodedTrail(ChangeBatch(blocks, kept, transactions), consumed, state)


def _renumber(blocks: list[ChangeBlock], order: Longs, row: int) -> list[ChangeBlock]:
    """Renumber the operations of a batch's blocks without gaps from ``row`` on, after other blocks were dropped.

    ``order`` has the present numbers of all of them, sorted.
    """
    if len(blocks) == 1:
        return [replace(blocks[0], order=row + np.arange(len(blocks[0])))]
    # A row's new number is its rank among the rows that are left. Example: the blocks have the rows
    # 0 3 and 7: order = 0 3 7, and they become row + 0 1 and row + 2.
    return [replace(block, order=row + np.searchsorted(order, block.order)) for block in blocks]


@dataclass(frozen=True, slots=True)
class _RecordBatch:
    """One batch of trail records, grouped into operations; ``records`` is the number of consumed records.

    ``is_cut``: the batch ends early, before a record that redefines a table, and the rest is read
    as the next batch. ``source`` also contains, at its end, the values that were joined from
    several records.
    """

    records: int
    source: TrailBytes
    large: LargeObjects
    operations: GroupedOperations
    transactions: tuple[pa.Array, pa.Array]
    state: ReaderState
    is_cut: bool


def _before_change(view: RecordColumns, stop: int) -> int:
    """Return the first row at or after ``stop`` before which a batch may end.

    That row is not a piece or fragment, because these must be in the same batch as their change.
    """
    while stop < len(view):
        role = ROLE_OF[view.io_type[stop : stop + PEEK]]
        others = (role != RecordRole.LARGE_OBJECT) & (role != RecordRole.FRAGMENT)
        if others.any():
            return stop + int(np.argmax(others))
        stop += PEEK
    return stop


def _find(source: TrailBytes, finish: bool) -> RecordSpans:
    try:
        return find_records(source.data, order=source.order, finish=finish)
    except DecodeError as error:
        where = error.where  # relative to these bytes; report the offset in the file
        moved = Where(offset=source.base + (where.offset or 0), raw=where.raw)
        raise type(error)(error.problem, where=moved, hint=error.hint) from None


def _read_ids(
    source: TrailBytes, operations: GroupedOperations, state: ReaderState
) -> tuple[tuple[pa.Array, pa.Array], ReaderState]:
    """Return the transaction id and CSN of each operation, null if they are not wanted, and the state after them."""
    view, last = operations.view, operations.records - 1
    tx_open = bool(view.indicator[last] < LAST) if last >= 0 else state.tx_open
    begun = state.transactions + int(operations.begins.sum())
    after = replace(state, tx_open=tx_open, transactions=begun)
    if not state.wanted.ids:
        none = pa.nulls(len(operations), pa.string())
        return (none, none), after
    before = {TRANID: state.tx_id, LOGCSN: state.csn}
    tx_id, csn = carry_token_strings(source, view, before, is_open=state.tx_open)
    if last >= 0:
        after = replace(after, tx_id=tx_id.at(last), csn=csn.at(last))
    return (tx_id.take(operations.first), csn.take(operations.first)), after


def _read_batch(
    source: TrailBytes, view: RecordColumns, state: ReaderState, *, more: bool
) -> _RecordBatch:
    view = view if state.wanted.undone else turn_backouts_into_notes(view)
    kept = drop_non_operations(source, view, state.tables, tx_open=state.tx_open)
    is_cut = kept.cut < len(view)
    view = kept.view
    raise_first_problem(source, view)
    view = skip_system_keys(source, view)
    role = view.role
    if (
        not view.only_changes
        and ((role == RecordRole.LARGE_OBJECT) | (role == RecordRole.FRAGMENT)).any()
    ):
        # Joined values are copied to the end of the bytes, which copies all of them: narrow them
        # to those of this batch first.
        start = int(view.offsets[0])
        source, view = source.part(start, view.end), view.move(-start)
    tables = find_tables(source, view, kept.tables)
    operations = group_operations(source, view, tables, more=more or is_cut)
    joined, operations = join_fragments(source, operations)
    joined, large = read_large_objects(joined, operations)
    state = replace(state, tables=kept.tables)
    transactions, state = _read_ids(source, operations, state)
    records = kept.count_consumed(operations.records)
    return _RecordBatch(
        records=records,
        source=joined,
        large=large,
        operations=operations,
        transactions=transactions,
        state=state,
        is_cut=is_cut,
    )
