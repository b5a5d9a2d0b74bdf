"""Trail bytes -> change batches: whole columns at once, in chunks that stay in cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Definitions
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.framing import IO_TYPE_AT, Records, find_records
from trailgate.trail.format.metadata import NO_TABLES, TrailTables
from trailgate.trail.format.record_header import Source, read_heads
from trailgate.trail.format.record_types import ROLE_OF, Role
from trailgate.trail.format.tokens import LOGCSN, TRANID
from trailgate.trail.reading.fragments import join_fragments
from trailgate.trail.reading.grouping import Operations, group
from trailgate.trail.reading.large_objects import LargeObjects, read_large_objects
from trailgate.trail.reading.non_operations import without_rare
from trailgate.trail.reading.operations import Chunk, read_blocks
from trailgate.trail.reading.record_tokens import Tokens, carried, read_tokens
from trailgate.trail.values.charsets import UTF_8, charset_named

PEEK: Final = 64  # records looked at at once for the end of a chunk
CHUNK: Final = 1 << 14  # records decoded at once: their integer arrays stay in cache


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What later records inherit: the file's byte order, the tables told, the transaction last seen.

    None: not known (reading began inside a transaction), or not in the trail. ``charset`` is what the source's
    texts are in, by one of the names in ``charsets``. Of tables that are not ``wanted`` nothing is returned, and their
    columns are not looked at; None: all are.
    """

    tx_id: str | None = None
    csn: str | None = None
    tx_open: bool = False
    tables: TrailTables = NO_TABLES
    order: ByteOrder = ByteOrder.BIG
    charset: str = UTF_8
    wanted: TablePatterns | None = None


@dataclass(frozen=True, slots=True)
class Decoded:
    """Operations, how many bytes they took, and the state for what follows.

    The batch has one block a chunk and table, so a table may have several.
    """

    batch: ChangeBatch
    consumed: int
    state: ReaderState


def decode(  # noqa: PLR0913  what is read, where it stands, and what is known
    data: Any,
    definitions: Definitions,
    *,
    file_number: int,
    base_offset: int,
    state: ReaderState = ReaderState(),
    finish: bool = False,
    records: Records | None = None,
) -> Decoded:
    """Return the operations of all complete records of ``data`` (pa.Buffer or bytes).

    The data begin at a record, ``base_offset`` bytes into the file. Not consumed: an unfinished last record, a before
    image whose after image is not there yet, and the last operation of an open transaction, of which pieces may follow.
    With ``finish`` the first two raise TruncatedError. Bad bytes raise DecodeError with their offset in the file.
    ``records`` are the places of the records to be read, where they are known: those left out are as if they
    were not there.
    """
    source = _source(data, base_offset, state)
    if records is None:
        records = _found(source, finish)
    blocks: list[ChangeBlock] = []
    done = rows = 0
    size = CHUNK
    while done < len(records.offsets):
        stop = _before_change(source, records, done + size)
        more = stop < len(records.offsets) or not finish
        part, places = _portion(source, records, slice(done, stop))
        chunk = _read_chunk(part, places, state, more=more)
        if not chunk.records:
            if stop >= len(records.offsets):
                break
            size *= 2  # one operation of very many records
            continue
        context = Chunk(chunk.source, definitions, file_number, rows, chunk.large, state.wanted)
        blocks += read_blocks(context, chunk.operations, chunk.transactions, chunk.tokens)
        done, rows, state = done + chunk.records, rows + len(chunk.operations), chunk.state
        size = CHUNK
    consumed = int(records.offsets[done]) if done < len(records.offsets) else records.end
    if finish and done < len(records.offsets):
        raise TruncatedError(
            "the input ends between the before and the after image of an update",
            where=Where(offset=base_offset + consumed),
        )
    batch = ChangeBatch(blocks, rows) if state.wanted is None else _closed_up(blocks)
    return Decoded(batch, consumed, state)


def _closed_up(blocks: list[ChangeBlock]) -> ChangeBatch:
    """Return blocks as a batch where rows of other blocks are left out."""
    order = np.sort(np.concatenate([np.zeros(0, np.int64), *(block.order for block in blocks)]))
    moved = [replace(block, order=np.searchsorted(order, block.order)) for block in blocks]
    return ChangeBatch(moved, len(order))


@dataclass(frozen=True, slots=True)
class _Read:
    """What one chunk of records holds; ``records`` counts those consumed.

    ``source`` has what was split over records, put together, at its end.
    """

    records: int
    source: Source
    large: LargeObjects
    operations: Operations
    transactions: tuple[pa.Array, pa.Array]
    tokens: Tokens
    state: ReaderState


def _source(data: Any, base_offset: int, state: ReaderState) -> Source:
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    charset = charset_named(state.charset)
    return Source(buffer, octets(buffer), base_offset, state.order, charset)


def _before_change(source: Source, records: Records, stop: int) -> int:
    """Return where a chunk ends: not in front of a piece or fragment, which would lose its change."""
    while stop < len(records.offsets):
        kind = source.data[records.offsets[stop : stop + PEEK] + IO_TYPE_AT]
        others = ~np.isin(ROLE_OF[kind], (Role.LARGE_OBJECT, Role.FRAGMENT))
        if others.any():
            return stop + int(np.argmax(others))
        stop += PEEK
    return stop


def _portion(source: Source, records: Records, rows: slice) -> tuple[Source, Records]:
    """Return some records with no more than their own bytes."""
    offsets, lengths = records.offsets[rows], records.lengths[rows]
    start, end = int(offsets[0]), int(offsets[-1] + lengths[-1])
    return source.part(start, end), Records(offsets - start, lengths, end - start)


def _found(source: Source, finish: bool) -> Records:
    try:
        return find_records(source.data, order=source.order, finish=finish)
    except DecodeError as error:
        where = error.where
        moved = Where(offset=source.base + (where.offset or 0), raw=where.raw)
        raise type(error)(error.problem, where=moved, hint=error.hint) from None


def _read_chunk(source: Source, places: Records, state: ReaderState, *, more: bool) -> _Read:
    plain = without_rare(source, places, state.tables, tx_open=state.tx_open)
    more = more or plain.cut < len(places.offsets)
    heads = read_heads(source, plain.offsets, plain.lengths, plain.tables)
    operations = group(source, heads, more=more)
    whole, operations = join_fragments(source, operations)
    whole, large = read_large_objects(whole, operations)
    tokens = read_tokens(source, heads)
    indicators = heads.trans_ind
    begins = (indicators == 0) | (indicators == 3)
    closed = np.empty(len(indicators), bool)  # no transaction is open in front of the record
    closed[:1] = not state.tx_open
    closed[1:] = indicators[:-1] >= 2
    tx_id = carried(begins | closed, tokens.of(TRANID), state.tx_id)
    csn = carried(begins | closed, tokens.of(LOGCSN), state.csn)
    if operations.records:
        last = operations.records - 1
        tx_open = bool(indicators[last] < 2)
        state = replace(state, tx_id=tx_id[last].as_py(), csn=csn[last].as_py(), tx_open=tx_open)
    state = replace(state, tables=plain.tables)
    first = pa.array(operations.first)
    transactions = (tx_id.take(first), csn.take(first))
    records = plain.taken(operations.records)
    return _Read(records, whole, large, operations, transactions, tokens, state)
