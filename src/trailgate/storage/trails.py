"""Read trails as Arrow batches: whole, from a position on, or in splits that can run apart.

A split is a byte range of one file and owns the transactions that begin in it. Where the next
one begins is one function of file and offset, so neighbours always agree on the border, and
whoever owns a transaction reads it to its end, into later files if it must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.columnar.views import Octets, rows_at
from trailgate.definitions.operations import to_operations, to_typed
from trailgate.errors import StorageError, TruncatedError, Where
from trailgate.model.changes import ChangeBatch, Longs, Mask
from trailgate.model.positions import parse_position
from trailgate.model.tables import Definitions
from trailgate.storage.trail_files import Place, TrailFile, TrailFiles, find_trail
from trailgate.storage.trail_reader import LONGEST, TrailFileReader
from trailgate.trail.byte_order import ByteOrder
from trailgate.trail.metadata import METADATA_LEVEL, NO_TABLES, TrailTables
from trailgate.trail.reader import ReaderState, decode
from trailgate.trail.record_header import swapped_indicators
from trailgate.trail.record_layout import BEFORE_IMAGE, NAME_AT, RECORD_HEADS
from trailgate.trail.record_types import IO_DELETE, ROLE_OF, Role

__all__ = ["TrailFiles", "TrailSplit", "find_trail", "plan_splits", "read_split", "read_trail"]

SPLIT_BYTES: Final = 64 << 20
PORTION: Final = 4 << 20  # about 16 k records: the integer arrays of a step stay in cache
BEFORE_POSITION: Final = 16 << 20  # how far back from a position its transaction is sought


@dataclass(frozen=True, slots=True)
class TrailSplit:
    """The transactions that begin in the bytes [start, end) of one file.

    ``whole`` takes the range as it stands, whatever its first record is: right for the begin of
    a trail, where nobody else would take the rest of an earlier transaction.
    ``through`` goes on to the end of the trail.
    """

    path: str
    number: int
    start: int
    end: int
    whole: bool = False
    through: bool = False


@dataclass(frozen=True, slots=True)
class _Span:
    """Whole records in the bytes [start, end) of a file; an open end may be unfinished."""

    file: TrailFile
    start: int
    end: int
    open_end: bool


def plan_splits(trail: TrailFiles, split_bytes: int = SPLIT_BYTES) -> list[TrailSplit]:
    """Return splits that together hold every operation of the trail once, in order."""
    return [
        TrailSplit(
            file.path,
            file.number,
            start,
            min(start + split_bytes, file.size),
            whole=file is trail.files[0] and start == 0,
        )
        for file in trail.files
        for start in range(0, max(file.size, 1), split_bytes)
    ]


def read_split(
    trail: TrailFiles, split: TrailSplit, table: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield a split's operations, or the typed rows of one table; memory stays flat."""
    shape = _shape(trail.definitions, table)
    for batch in _changes(trail, split):
        shaped = shape(batch)
        if shaped.num_rows:
            yield shaped


def read_trail(
    path: Place | TrailFiles,
    table: str | None = None,
    definitions: Place | Definitions | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a trail's operations in order, or with ``table`` that table's rows in their types.

    ``after`` is a position of an operation: those behind it are read. ``limit`` ends after
    that many rows.
    """
    trail = path if isinstance(path, TrailFiles) else find_trail(path, definitions)
    split = _from_begin(trail) if after is None else _from_position(trail, after)
    batches = read_split(trail, split, table)
    if after is not None:
        column = "position" if table is None else "_position"
        batches = (batch.filter(pc.greater(batch[column], after)) for batch in batches)
    return _limited((batch for batch in batches if batch.num_rows), limit)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    while left is None or left > 0:
        batch = next(batches, None)
        if batch is None:
            return
        yield batch if left is None else batch.slice(0, left)
        left = None if left is None else left - batch.num_rows


def _shape(definitions: Definitions, table: str | None) -> Callable[[ChangeBatch], pa.RecordBatch]:
    if table is None:
        return to_operations
    wanted = definitions.table(table)
    return lambda batch: to_typed(batch, wanted)


def _from_begin(trail: TrailFiles) -> TrailSplit:
    first = trail.files[0]
    return TrailSplit(first.path, first.number, 0, first.size, whole=True, through=True)


def _from_position(trail: TrailFiles, after: str) -> TrailSplit:
    """Return a split from the begin of a transaction that is not behind the position."""
    number, offset = parse_position(after)
    for split in reversed(plan_splits(trail, BEFORE_POSITION)):
        if split.whole or (split.number, split.start) > (number, offset):
            continue
        begin = _next_begin(_file(trail, split), split.start, split.end)
        if begin is not None and (split.number, begin) <= (number, offset):
            return replace(split, through=True)
    return _from_begin(trail)


def _file(trail: TrailFiles, split: TrailSplit) -> TrailFile:
    for file in trail.files:
        if file.number == split.number:
            return file
    raise StorageError("the split's file is not in the trail", where=Where(source=split.path))


def _changes(trail: TrailFiles, split: TrailSplit) -> Iterator[ChangeBatch]:
    """Yield the operations of a split, one batch a portion."""
    state = ReaderState()
    for span in _spans(trail, split):
        with TrailFileReader(span.file) as reader:
            state = replace(state, order=reader.order, tables=_tables(reader, span.start))
            place, size = span.start, PORTION
            while place < span.end:
                data = reader.read(place, min(size, span.end - place))
                at_end = place + len(data) >= span.end
                decoded = decode(
                    data,
                    trail.definitions,
                    file_number=span.file.number,
                    base_offset=place,
                    state=state,
                    finish=at_end and not span.open_end,
                )
                state = decoded.state
                place += decoded.consumed
                if decoded.batch.rows:
                    yield decoded.batch
                if at_end:
                    break
                # One operation may be longer than a portion: it has pieces of large objects.
                size = PORTION if decoded.consumed else 2 * size


def _tables(reader: TrailFileReader, place: int) -> TrailTables:
    """Return what the metadata in front of a place tell; older levels have none."""
    header = reader.header
    if header is None or header.trail.compatibility < METADATA_LEVEL:
        return NO_TABLES
    return reader.tables(place)


def _spans(trail: TrailFiles, split: TrailSplit) -> Iterator[_Span]:
    """Yield the byte ranges of a split, from its first transaction to the end of its last."""
    own = _file(trail, split)
    start = _first_record(trail, own) if split.whole else _next_begin(own, split.start, split.end)
    border = split.end
    for file in trail.files[trail.files.index(own) :]:
        if file is not own:
            start = _first_record(trail, file)
            border = start or 0
        if start is None:
            return
        stop = None if split.through else _next_begin(file, border, file.size)
        open_end = stop is None and trail.growing and file is trail.files[-1]
        yield _Span(file, start, file.size if stop is None else stop, open_end)
        if stop is not None:
            return


def _first_record(trail: TrailFiles, file: TrailFile) -> int | None:
    """Return where the records begin; None for a last file whose header is not there yet."""
    with TrailFileReader(file) as reader:
        try:
            return reader.begin
        except TruncatedError:
            if trail.growing and file is trail.files[-1]:
                return None
            raise


def _next_begin(file: TrailFile, place: int, limit: int) -> int | None:
    """Return where, from ``place`` on and below ``limit``, a transaction begins; or None."""
    with TrailFileReader(file) as reader:
        try:
            header = reader.begin
        except TruncatedError:
            return None  # whoever reads the file from its begin tells
        # The record in front of ``place`` is needed as well: see _begins.
        earlier = place - LONGEST
        at = header if earlier <= header else reader.resync(earlier)
        after_before = False
        while at is not None and at < limit:
            data, records = reader.records(at)
            if not len(records.offsets):
                return None
            begins, after_before = _begins(
                data, records.offsets, reader.order, after_before=after_before
            )
            found = at + records.offsets[begins & (at + records.offsets >= place)]
            if len(found):
                return int(found[0]) if found[0] < limit else None
            at += records.end
    return None


def _begins(
    data: Octets, offsets: Longs, order: ByteOrder, *, after_before: bool
) -> tuple[Mask, bool]:
    """Return which records begin a transaction, and whether the last is an update's before image.

    The two records of an update are never torn apart, whatever their indicators say, nor are fragments and pieces
    torn from their change. Metadata and DDL records may stand within a transaction and say that they are one.
    """
    head = rows_at(data, offsets, NAME_AT).view(RECORD_HEADS[order]).reshape(-1)
    indicator = head["trans_ind"]
    indicator = np.where(indicator > 3, swapped_indicators(head, order), indicator)
    is_before = (head["image"] == BEFORE_IMAGE) & (head["io_type"] != IO_DELETE)
    follows = np.concatenate([[after_before], is_before[:-1]])
    torn = follows & (head["image"] != BEFORE_IMAGE)
    role = ROLE_OF[head["io_type"]]
    begins = (indicator == 0) & ((role == Role.CHANGE) | (role == Role.NOTE))
    begins |= (indicator == 3) & ((role == Role.CHANGE) | (role == Role.REFUSED))
    return begins & ~torn, bool(is_before[-1])
