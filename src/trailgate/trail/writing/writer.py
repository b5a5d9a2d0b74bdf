"""Encode change batches as trail bytes: compute the size of every record, then write each at its offset in one body.

Blocks are cut into chunks that stay in the CPU cache, and each chunk into groups of records with
the same images. A writer per group reports the sizes of its records. Their running sum is the
offset of each record, and the writers then write into the same body.

`encode_restart_record` builds the record that a writer appends when it restarts (trail format §7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, octets
from trailgate.columnar.word_kernels import SPARE
from trailgate.model.changes import KEY_UPDATE, UPDATE, ChangeBatch, ChangeBlock, StateColumn
from trailgate.model.tables import Definitions
from trailgate.trail.format.record_types import IO_RESTART_ABEND, IO_RESTART_OK
from trailgate.trail.format.tokens import MAX_LENGTH, ByteOrder, RecordToken
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.writing.large_records import (
    FragmentWriter,
    LargeValues,
    PieceWriter,
    extract_large_values,
)
from trailgate.trail.writing.record_groups import (
    TableReference,
    TrailRecordGroup,
    compact_updates,
    group_records,
    make_table_reference,
)
from trailgate.trail.writing.record_writer import RecordWriter
from trailgate.trail.writing.token_maps import select_written_tokens
from trailgate.trail.writing.trail_format import (
    LEVEL_3,
    TrailFormat,
    UpdateFormat,
)

# About this many records are written at once: they stay in cache from column to column.
CHUNK: Final = 1 << 14
NO_DEFINITIONS: Final = Definitions(())

# Assumed: a restart record has one token, the name of the group. The first record of a printed trail
# has 58 bytes, which leaves room for one token of three bytes, such as "EX1".
# Assumed: the id of that token. Its name GROUPNAME is public, but the byte is not; no dump shows it.
GROUP_NAME: Final = ord("g")
NO_RECORDS, NO_SYSTEM = 0, 0  # RecCount and OrigNode of restart records


@dataclass(frozen=True, slots=True)
class EncodedTrail:
    """Operations encoded as trail bytes: operation i is body[starts[i]:starts[i + 1]].

    ``starts`` has one element more than there are operations.
    """

    body: pa.Buffer
    starts: Longs


def encode(
    batch: ChangeBatch,
    trail_format: TrailFormat = LEVEL_3,
    definitions: Definitions = NO_DEFINITIONS,
) -> EncodedTrail:
    """Encode all operations of a batch as trail bytes, in their order.

    Raises EncodeError if a value does not fit. An update with before columns becomes two records
    (before image, after image) or a unified one. A key update becomes one record that begins with
    its before columns. ``definitions`` are the tables in the metadata records at the start of a
    file of level 5 or higher: records refer to a table by its position among them.
    """
    writers: list[_Writer] = []
    for block in batch.blocks:
        reference = make_table_reference(block.table, trail_format, definitions)
        for start, stop in _chunks(len(block)):
            part = _slice(block, start, stop)
            writers += _writers(part, reference, trail_format.updates)
    # Each operation has two slots, for its first and its second record. Example: sizes 90 (update,
    # before), 95 (update, after), 80 (insert), 0 become the offsets 0, 90, 185, 265, 265; the operations
    # begin at every other one: 0, 185, and end at 265.
    offsets = np.zeros(2 * batch.rows + 1, np.int64)
    for writer in writers:
        offsets[writer.order + 1] = writer.sizes
    np.cumsum(offsets, out=offsets)
    body = pa.allocate_buffer(int(offsets[-1]) + SPARE)
    for writer in writers:
        writer.write(octets(body), offsets[writer.order])
    return EncodedTrail(body.slice(0, int(offsets[-1])), offsets[::2].copy())


class _Writer:
    """Writes a group's records into the body of a batch, and the pieces of large objects after each.

    ``order`` is twice the operation's number for each record, plus one for its second record.
    """

    def __init__(
        self,
        group: TrailRecordGroup,
        records: RecordWriter | FragmentWriter,
        pieces: PieceWriter | None,
    ) -> None:
        self.order, self.records, self.pieces = group.order, records, pieces
        self.sizes = records.sizes if pieces is None else records.sizes + pieces.sizes

    def write(self, body: Octets, places: Longs) -> None:
        """Write the group's records and their pieces. ``places`` are the records' offsets."""
        self.records.write(body, places)
        if self.pieces is not None:
            self.pieces.write(body, places)


def _writers(
    block: ChangeBlock, reference: TableReference, updates: UpdateFormat
) -> Iterator[_Writer]:
    """Group the trail records of a block, and yield a writer for each group."""
    if updates is UpdateFormat.COMPACT:
        block = compact_updates(block)
    block, large = extract_large_values(block)
    # A piece does not state the image it belongs to, so updates with large values are not unified.
    separate = np.zeros(len(block), bool)
    for column in large:
        separate[column.rows] = True
    unified = () if updates is UpdateFormat.SEPARATE else (UPDATE, KEY_UPDATE)
    for group in group_records(block, reference, unified, separate):
        writer = RecordWriter(group)
        long = writer.sizes > MAX_LENGTH
        if not long.any() and not large:
            yield _Writer(group, writer, None)
            continue
        # Both writers get positions by ``order``, so the records return to the order of the
        # operations.
        for chosen in (~long, long):
            if chosen.any():
                yield _part(group.take(np.flatnonzero(chosen)), large, long=chosen is long)


def _part(group: TrailRecordGroup, large: Sequence[LargeValues], *, long: bool) -> _Writer:
    """Return the writer for a group of records that are too long (``long``) or may have large objects."""
    pieces = PieceWriter(group, large)
    records = pieces.records_before()
    return _Writer(group, FragmentWriter(records) if long else RecordWriter(records), pieces)


def _chunks(rows: int) -> Iterator[tuple[int, int]]:
    """Divide a block's rows into chunks of equal size that fit in the CPU cache. Yields their bounds.

    Sizes are equal because a short last chunk would take as long as a full one.
    """
    count = max(1, round(rows / CHUNK))
    return pairwise(rows * part // count for part in range(count + 1))


def _slice(block: ChangeBlock, start: int, stop: int) -> ChangeBlock:
    """Return consecutive rows of a block, with only the columns that are written. Nothing is copied."""
    part = slice(start, stop)

    def column(state: StateColumn) -> StateColumn:
        if state.values is None:
            return state
        missing = None if state.missing is None else state.missing[part]
        return StateColumn(state.values[part], missing)

    return replace(
        block,
        order=block.order[part],
        op_type=block.op_type[part],
        op_ts=block.op_ts[part],
        tx_ind=block.tx_ind[part],
        tx_id=block.tx_id[part],
        csn=block.csn[part],
        seq_id=None,
        position=pa.nulls(stop - start),
        tx_owner=None,
        tx_name=None,
        tokens=select_written_tokens(None if block.tokens is None else block.tokens[part]),
        before=tuple(column(state) for state in block.before),
        after=tuple(column(state) for state in block.after),
    )


def encode_restart_record(
    group: str, io_time: int, *, abandoned: bool, order: ByteOrder = ByteOrder.BIG
) -> bytes:
    """Encode a restart record of the Extract group ``group``. ``io_time`` is microseconds since 1970 UTC.

    If the open transaction before it is ``abandoned`` and will be written again after it, the
    record is RestartAbend; otherwise it is RestartOK.
    """
    return encode_record(
        TrailRecord(
            # Assumed: 150 is RestartAbend. 151 is printed as RestartOK, 150 remains.
            io_type=IO_RESTART_ABEND if abandoned else IO_RESTART_OK,
            tokens=(RecordToken(GROUP_NAME, group.encode()),),
            node=NO_SYSTEM,
            record_count=NO_RECORDS,
            io_time=io_time,
            order=order,
        )
    )
