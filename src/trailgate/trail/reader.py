"""Trail bytes -> change batches: whole columns at once, in chunks that stay in cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.columnar.views import octets
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.model.tables import Definitions
from trailgate.trail.operations import Chunk, Operations, join_images, read_blocks
from trailgate.trail.record_header import Source, read_heads
from trailgate.trail.record_tokens import Tokens, carried, read_tokens
from trailgate.trail.records import Records, find_records
from trailgate.trail.tokens import LOGCSN, TRANID

Longs = npt.NDArray[np.int64]

CHUNK: Final = 1 << 14  # records decoded at once: their integer arrays stay in cache


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What later records inherit: the ids of the transaction last seen, and whether it is open.

    None: not known (reading began inside a transaction), or not in the trail.
    """

    tx_id: str | None = None
    csn: str | None = None
    tx_open: bool = False


@dataclass(frozen=True, slots=True)
class Decoded:
    """Operations, how many bytes they took, and the state for what follows.

    The batch has one block a chunk and table, so a table may have several.
    """

    batch: ChangeBatch
    consumed: int
    state: ReaderState


def decode(
    data: Any,
    definitions: Definitions,
    *,
    file_number: int,
    base_offset: int,
    state: ReaderState = ReaderState(),
    finish: bool = False,
) -> Decoded:
    """Return the operations of all complete records of ``data`` (pa.Buffer or bytes).

    The data begin at a record, ``base_offset`` bytes into the file. An unfinished last record, or a before
    image whose after image is not there yet, is not consumed; with ``finish`` either raises
    TruncatedError. Bad bytes raise DecodeError with their offset in the file.
    """
    source = _source(data, base_offset)
    records = _found(source, finish)
    blocks: list[ChangeBlock] = []
    done = rows = 0
    while done < len(records.offsets):
        part = slice(done, done + CHUNK)
        chunk = _read_chunk(source, records.offsets[part], records.lengths[part], state)
        if not chunk.records:
            break
        context = Chunk(source, definitions, file_number, rows)
        blocks += read_blocks(context, chunk.operations, chunk.transactions, chunk.tokens)
        done, rows, state = done + chunk.records, rows + len(chunk.operations), chunk.state
    consumed = int(records.offsets[done]) if done < len(records.offsets) else records.end
    if finish and done < len(records.offsets):
        raise TruncatedError(
            "the input ends between the before and the after image of an update",
            where=Where(offset=base_offset + consumed),
        )
    return Decoded(ChangeBatch(blocks, rows), consumed, state)


@dataclass(frozen=True, slots=True)
class _Read:
    """What one chunk of records holds; ``records`` counts those consumed."""

    records: int
    operations: Operations
    transactions: tuple[pa.Array, pa.Array]
    tokens: Tokens
    state: ReaderState


def _source(data: Any, base_offset: int) -> Source:
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return Source(buffer, octets(buffer), base_offset)


def _found(source: Source, finish: bool) -> Records:
    try:
        return find_records(source.data, finish=finish)
    except DecodeError as error:
        where = error.where
        moved = Where(offset=source.base + (where.offset or 0), raw=where.raw)
        raise type(error)(error.problem, where=moved, hint=error.hint) from None


def _read_chunk(source: Source, offsets: Longs, lengths: Longs, state: ReaderState) -> _Read:
    heads = read_heads(source, offsets, lengths)
    operations = join_images(source, heads)
    count = operations.records
    tokens = read_tokens(source, heads)
    indicators = heads.trans_ind
    begins = (indicators == 0) | (indicators == 3)
    closed = np.empty(len(indicators), bool)  # no transaction is open in front of the record
    closed[0] = not state.tx_open
    closed[1:] = indicators[:-1] >= 2
    tx_id = carried(begins | closed, tokens.of(TRANID), state.tx_id)
    csn = carried(begins | closed, tokens.of(LOGCSN), state.csn)
    if count:
        last = count - 1
        state = ReaderState(tx_id[last].as_py(), csn[last].as_py(), bool(indicators[last] < 2))
    first = pa.array(operations.first)
    return _Read(count, operations, (tx_id.take(first), csn.take(first)), tokens, state)
