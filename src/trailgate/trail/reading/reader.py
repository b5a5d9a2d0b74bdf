"""Trail bytes to change batches: whole columns at once, in batches of records that stay in cache.

Records that are not part of operations are left out before the columns are read. Metadata records change what a table index means, so they are decoded
here, one by one; they are few.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK, Longs, Mask
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.trail.format.record_types import ROLE_OF, Role
from trailgate.trail.format.tokens import LOGCSN, TRANID, ByteOrder
from trailgate.trail.reading.grouping import Operations, find_tables, group, join_fragments
from trailgate.trail.reading.images import EVERYTHING, Wanted
from trailgate.trail.reading.large_objects import LargeObjects, read_large_objects
from trailgate.trail.reading.operations import ReadContext, read_blocks
from trailgate.trail.reading.tokens import carried_strings, without_system_keys, without_undone
from trailgate.trail.records.framing import RecordPlaces, TrailBytes, find_records, trail_bytes
from trailgate.trail.records.kernels import MIN_RECORD
from trailgate.trail.records.metadata import NO_TABLES, TrailTables
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_view import RecordView, require_sound, view_records
from trailgate.trail.records.transactions import LAST, is_apart
from trailgate.trail.values.codec import UTF_8, charset_named


@dataclass(frozen=True, slots=True)
class OperationRecords:
    """The records that remain, of the first ``cut`` ones, and the tables known after those.

    ``kept`` is the place of each among all; None: all remain.
    """

    view: RecordView
    tables: TrailTables
    cut: int
    kept: Longs | None = None

    def taken(self, records: int) -> int:
        """Return how many of all records are done when so many of the remaining ones are."""
        if self.kept is None:
            return records
        return int(self.kept[records]) if records < len(self.kept) else self.cut


def without_non_operations(
    source: TrailBytes, view: RecordView, tables: TrailTables, *, tx_open: bool
) -> OperationRecords:
    """Return the records without metadata, restart records and notes that are a whole transaction.

    A note within a transaction (a sequence's) stays, since it may be what begins or ends it; one that is a
    transaction of its own (a DDL record) is not part of the transaction around it. The records are cut where an index gets a
    new meaning. Raises DecodeError at a restart inside a transaction: whoever has the whole file leaves out what was abandoned.
    """
    cut = len(view)
    # Roles from METADATA on are those of records that change no rows.
    if view.only_changes or not (view.role >= Role.METADATA).any():
        return OperationRecords(view, tables, cut)
    dropped = is_apart(view)
    decisive = (view.role == Role.METADATA) | (view.role == Role.ABEND)
    for row in np.flatnonzero(decisive).tolist():
        if view.role[row] == Role.ABEND:
            _check_closed(source, view, dropped[:row], tx_open=tx_open)
            continue
        place = int(view.offsets[row])
        record = decode_record(source.data, place, order=source.order, base=source.base)
        known = tables.with_record(record)
        if _changes(tables, known, record) and (~dropped[:row]).any():
            cut = row
            break
        tables = known
    if not dropped.any():
        return OperationRecords(view, tables, cut)
    kept = np.flatnonzero(~dropped[:cut])
    together = len(kept) and kept[-1] - kept[0] == len(kept) - 1
    # Metadata records mostly come first: then the columns are shared.
    rows = slice(int(kept[0]), int(kept[-1]) + 1) if together else kept
    return OperationRecords(view.take(rows), tables, cut, kept)


def _changes(old: TrailTables, new: TrailTables, record: TrailRecord) -> bool:
    """Return whether an index that was known means something else after a record."""
    index = record.metadata_indexes[1]
    before, after = old.tables.get(index), new.tables.get(index)
    if before is None or after is None:
        return False
    return (before.name, before.table) != (after.name, after.table)


def _check_closed(source: TrailBytes, view: RecordView, dropped: Mask, *, tx_open: bool) -> None:
    rows = np.flatnonzero(~dropped)
    if len(rows):
        tx_open = bool(view.indicator[rows[-1]] < LAST)
    if tx_open:
        start = int(view.offsets[len(dropped)])
        raise source.error(
            "a restart record inside a transaction: what comes before it was abandoned",
            (start, start + MIN_RECORD),
            hint="Read the trail as a whole, which leaves out the abandoned part",
        )


PEEK: Final = 64  # records looked at at once for the end of a batch
MOST_RECORDS: Final = 1 << 15  # records decoded at once, no fewer than a chunk of a file has


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What later records inherit: the file's byte order, the tables known, the transaction last seen.

    None: not known (reading began inside a transaction), or not in the trail. ``charset`` is what the source's
    strings are in, by one of the names in ``charsets``. Tables that are not ``wanted`` are left out, and other
    columns are not decoded. ``gives_open``: the last operation of a transaction that is open at the end of the data is given.
    """

    tx_id: str | None = None
    csn: str | None = None
    tx_open: bool = False
    tables: TrailTables = NO_TABLES
    order: ByteOrder = ByteOrder.BIG
    charset: str = UTF_8
    wanted: Wanted = EVERYTHING
    gives_open: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """Operations, how many bytes they took, and the state for what follows.

    The batch has one block a batch and table, so a table may have several.
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
    records: RecordView | None = None,
) -> Decoded:
    """Return the operations of all complete records of ``data`` (pa.Buffer or bytes).

    The data begin at a record, ``base_offset`` bytes into the file. Not consumed: an unfinished last record, a before
    image whose after image is not there yet, and the last operation of an open transaction, of which pieces may follow.
    With ``finish`` the first two raise TruncatedError; with ``state.gives_open`` the last one is given. Bad bytes raise DecodeError with their offset in the file.
    ``records`` are the records to be read, where they are known: those left out are as if they were not there.
    """
    source = replace(
        trail_bytes(data, base_offset, state.order), charset=charset_named(state.charset)
    )
    context = ReadContext(source, definitions, file_number, 0, wanted=state.wanted)
    if records is not None or len(source.data) <= CHUNK:
        return _decode_chunk(context, state, records, finish=finish, give_open=state.gives_open)
    blocks: list[ChangeBlock] = []
    place, size = 0, CHUNK
    while True:
        stop = min(place + size, len(source.data))
        part = replace(context, source=source.part(place, stop))
        is_last = stop == len(source.data)
        found = _decode_chunk(
            part, state, None, finish=finish and is_last, give_open=state.gives_open and is_last
        )
        blocks += found.batch.blocks
        place, state = place + found.consumed, found.state
        context = replace(context, row=context.row + found.batch.rows)
        if is_last:
            return Decoded(ChangeBatch(blocks, context.row), place, state)
        size = CHUNK if found.consumed else 2 * size


def _decode_chunk(
    context: ReadContext,
    state: ReaderState,
    records: RecordView | None,
    *,
    finish: bool,
    give_open: bool,
) -> Decoded:
    """Return the operations of bytes of which all record places fit in the cache."""
    source = context.source
    view = view_records(source, _found(source, finish)) if records is None else records
    blocks: list[ChangeBlock] = []
    done = rows = 0
    size = MOST_RECORDS
    while done < len(view):
        stop = _before_change(view, done + size)
        more = stop < len(view) or not (finish or give_open)
        batch = _read_batch(source, view.take(slice(done, stop)), state, more=more)
        if not batch.records:
            if stop >= len(view):
                break
            size *= 2  # one operation of very many records
            continue
        own = replace(context, source=batch.source, row=context.row + rows, large=batch.large)
        blocks += read_blocks(own, batch.operations, batch.transactions)
        done, rows, state = done + batch.records, rows + len(batch.operations), batch.state
        size = MOST_RECORDS
        if stop >= len(view) and not batch.is_cut:
            break  # what is left is an operation that may continue in what follows
    consumed = int(view.offsets[done]) if done < len(view) else view.end
    if finish and done < len(view):
        raise TruncatedError(
            "the input ends between the before and the after image of an update",
            where=Where(offset=source.base + consumed),
        )
    kept = sum(map(len, blocks))
    if kept < rows:
        blocks = _closed_up(blocks, context.row)
    return Decoded(ChangeBatch(blocks, kept), consumed, state)


def _closed_up(blocks: list[ChangeBlock], row: int) -> list[ChangeBlock]:
    """Return blocks of which rows of other blocks are left out, in places without gaps from ``row`` on."""
    if len(blocks) == 1:
        return [replace(blocks[0], order=row + np.arange(len(blocks[0])))]
    order = np.sort(np.concatenate([np.zeros(0, np.int64), *(block.order for block in blocks)]))
    return [replace(block, order=row + np.searchsorted(order, block.order)) for block in blocks]


@dataclass(frozen=True, slots=True)
class _Read:
    """What one batch of records holds; ``records`` counts those consumed.

    ``is_cut``: more of them could be read, with other tables.
    ``source`` has what was split over records, put together, at its end.
    """

    records: int
    source: TrailBytes
    large: LargeObjects
    operations: Operations
    transactions: tuple[pa.Array, pa.Array]
    state: ReaderState
    is_cut: bool


def _before_change(view: RecordView, stop: int) -> int:
    """Return where a batch ends: not before a piece or fragment, which would lose its change."""
    while stop < len(view):
        role = ROLE_OF[view.io_type[stop : stop + PEEK]]
        others = (role != Role.LARGE_OBJECT) & (role != Role.FRAGMENT)
        if others.any():
            return stop + int(np.argmax(others))
        stop += PEEK
    return stop


def _found(source: TrailBytes, finish: bool) -> RecordPlaces:
    try:
        return find_records(source.data, order=source.order, finish=finish)
    except DecodeError as error:
        where = error.where
        moved = Where(offset=source.base + (where.offset or 0), raw=where.raw)
        raise type(error)(error.problem, where=moved, hint=error.hint) from None


def _read_batch(source: TrailBytes, view: RecordView, state: ReaderState, *, more: bool) -> _Read:
    view = view if state.wanted.undone else without_undone(view)
    taken = without_non_operations(source, view, state.tables, tx_open=state.tx_open)
    is_cut = taken.cut < len(view)
    view = taken.view
    require_sound(source, view)
    view = without_system_keys(source, view)
    role = view.role
    if not view.only_changes and ((role == Role.LARGE_OBJECT) | (role == Role.FRAGMENT)).any():
        # What is put together is copied to the end of the bytes: of the batch's own, not of all.
        start = int(view.offsets[0])
        source, view = source.part(start, view.end), view.move(-start)
    tables = find_tables(source, view, taken.tables)
    operations = group(source, view, tables, more=more or is_cut)
    whole, operations = join_fragments(source, operations)
    whole, large = read_large_objects(whole, operations)
    before = {TRANID: state.tx_id, LOGCSN: state.csn}
    tx_id, csn = carried_strings(source, view, before, is_open=state.tx_open)
    if operations.records:
        last = operations.records - 1
        tx_open = bool(view.indicator[last] < LAST)
        state = replace(state, tx_id=tx_id.at(last), csn=csn.at(last), tx_open=tx_open)
    state = replace(state, tables=taken.tables)
    first = operations.first
    none = pa.nulls(0 if state.wanted.ids else len(first), pa.string())
    transactions = (tx_id.take(first), csn.take(first)) if state.wanted.ids else (none, none)
    records = taken.taken(operations.records)
    return _Read(records, whole, large, operations, transactions, state, is_cut)
