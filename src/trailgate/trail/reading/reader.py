"""Trail bytes -> change batches: whole columns at once, in chunks that stay in cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import PORTION
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.record_types import ROLE_OF, Role
from trailgate.trail.format.tokens import LOGCSN, TRANID
from trailgate.trail.reading.fragments import join_fragments
from trailgate.trail.reading.grouping import Operations, group
from trailgate.trail.reading.large_objects import LargeObjects, read_large_objects
from trailgate.trail.reading.non_operations import without_non_operations
from trailgate.trail.reading.operations import Chunk, read_blocks
from trailgate.trail.reading.record_tables import find_tables
from trailgate.trail.reading.tokens.marked_records import without_system_keys, without_undone
from trailgate.trail.reading.tokens.record_tokens import carried_texts
from trailgate.trail.reading.wanted import EVERYTHING, Wanted
from trailgate.trail.records.framing import RecordPlaces, find_records
from trailgate.trail.records.metadata import NO_TABLES, TrailTables
from trailgate.trail.records.record_view import RecordView, require_sound, view_records
from trailgate.trail.records.trail_bytes import TrailBytes, trail_bytes
from trailgate.trail.records.transactions import LAST
from trailgate.trail.values.charsets import UTF_8, charset_named

PEEK: Final = 64  # records looked at at once for the end of a chunk
CHUNK: Final = 1 << 15  # records decoded at once, no fewer than a portion of a file has


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What later records inherit: the file's byte order, the tables known, the transaction last seen.

    None: not known (reading began inside a transaction), or not in the trail. ``charset`` is what the source's
    texts are in, by one of the names in ``charsets``. Tables that are not ``wanted`` are left out, and other
    columns are not decoded.
    """

    tx_id: str | None = None
    csn: str | None = None
    tx_open: bool = False
    tables: TrailTables = NO_TABLES
    order: ByteOrder = ByteOrder.BIG
    charset: str = UTF_8
    wanted: Wanted = EVERYTHING


@dataclass(frozen=True, slots=True)
class Decoded:
    """Operations, how many bytes they took, and the state for what follows.

    The batch has one block a chunk and table, so a table may have several.
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
    give_open: bool = False,
    records: RecordView | None = None,
) -> Decoded:
    """Return the operations of all complete records of ``data`` (pa.Buffer or bytes).

    The data begin at a record, ``base_offset`` bytes into the file. Not consumed: an unfinished last record, a before
    image whose after image is not there yet, and the last operation of an open transaction, of which pieces may follow.
    With ``finish`` the first two raise TruncatedError; with ``give_open`` the last one is given. Bad bytes raise DecodeError with their offset in the file.
    ``records`` are the records to be read, where they are known: those left out are as if they were not there.
    """
    source = replace(
        trail_bytes(data, base_offset, state.order), charset=charset_named(state.charset)
    )
    context = Chunk(source, definitions, file_number, 0, wanted=state.wanted)
    if records is not None or len(source.data) <= PORTION:
        return _decode_portion(context, state, records, finish=finish, give_open=give_open)
    blocks: list[ChangeBlock] = []
    place, size = 0, PORTION
    while True:
        stop = min(place + size, len(source.data))
        part = replace(context, source=source.part(place, stop))
        is_last = stop == len(source.data)
        found = _decode_portion(
            part, state, None, finish=finish and is_last, give_open=give_open and is_last
        )
        blocks += found.batch.blocks
        place, state = place + found.consumed, found.state
        context = replace(context, row=context.row + found.batch.rows)
        if is_last:
            return Decoded(ChangeBatch(blocks, context.row), place, state)
        size = PORTION if found.consumed else 2 * size


def _decode_portion(
    context: Chunk,
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
    size = CHUNK
    while done < len(view):
        stop = _before_change(view, done + size)
        more = stop < len(view) or not (finish or give_open)
        chunk = _read_chunk(source, view.take(slice(done, stop)), state, more=more)
        if not chunk.records:
            if stop >= len(view):
                break
            size *= 2  # one operation of very many records
            continue
        own = replace(context, source=chunk.source, row=context.row + rows, large=chunk.large)
        blocks += read_blocks(own, chunk.operations, chunk.transactions)
        done, rows, state = done + chunk.records, rows + len(chunk.operations), chunk.state
        size = CHUNK
        if stop >= len(view) and not chunk.is_cut:
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
    """What one chunk of records holds; ``records`` counts those consumed.

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
    """Return where a chunk ends: not before a piece or fragment, which would lose its change."""
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


def _read_chunk(source: TrailBytes, view: RecordView, state: ReaderState, *, more: bool) -> _Read:
    view = view if state.wanted.undone else without_undone(view)
    taken = without_non_operations(source, view, state.tables, tx_open=state.tx_open)
    is_cut = taken.cut < len(view)
    view = taken.view
    require_sound(source, view)
    view = without_system_keys(source, view)
    role = view.role
    if not view.only_changes and ((role == Role.LARGE_OBJECT) | (role == Role.FRAGMENT)).any():
        # What is put together is copied to the end of the bytes: of the chunk's own, not of all.
        start = int(view.offsets[0])
        source, view = source.part(start, view.end), view.moved(-start)
    tables = find_tables(source, view, taken.tables)
    operations = group(source, view, tables, more=more or is_cut)
    whole, operations = join_fragments(source, operations)
    whole, large = read_large_objects(whole, operations)
    before = {TRANID: state.tx_id, LOGCSN: state.csn}
    tx_id, csn = carried_texts(source, view, before, is_open=state.tx_open)
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
