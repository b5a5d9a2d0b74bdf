"""Records -> operations: which records make one, tables apart, columns read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.positions import format_positions
from trailgate.errors import DecodeError
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBlock, Image
from trailgate.model.tables import Definitions, Table
from trailgate.trail.format.record_types import IO_DELETE, IO_TRUNCATE, OP_TYPE_OF, PREFIX_OF
from trailgate.trail.reading.cells import ImageAreas, read_image
from trailgate.trail.reading.encryption import explained
from trailgate.trail.reading.grouping import Operations
from trailgate.trail.reading.large_objects import NO_OBJECTS, LargeObjects, put_in
from trailgate.trail.reading.marked_records import mark_tokens
from trailgate.trail.reading.other_layouts import listed
from trailgate.trail.reading.record_tokens import token_maps
from trailgate.trail.reading.two_image_records import both_images
from trailgate.trail.reading.user_tokens import named_tokens
from trailgate.trail.reading.wanted import EVERYTHING, Wanted
from trailgate.trail.records.kernels import UNLISTED
from trailgate.trail.records.metadata import TrailTable
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.trail_bytes import Spans, TrailBytes, dense
from trailgate.trail.values.undefined_tables import MAX_COLUMNS, columns_used, numbered_table

# By "begins a transaction" + 2 * "ends one".
INDICATORS: Final = np.array([MIDDLE, BEGIN, END, WHOLE], np.uint8)


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a chunk of operations is read with; ``row`` is the place of its first operation."""

    source: TrailBytes
    definitions: Definitions
    file_number: int
    row: int
    large: LargeObjects = NO_OBJECTS
    wanted: Wanted = EVERYTHING


def read_blocks(
    chunk: Chunk, operations: Operations, transactions: tuple[pa.Array, pa.Array]
) -> list[ChangeBlock]:
    """Return one block a table, in the order in which the tables appear."""
    if not len(operations):
        return []
    source, view = chunk.source, operations.view
    maps = None
    if chunk.wanted.tokens:
        user = named_tokens(source, view.user.take(slice(operations.records)))
        marks = mark_tokens(source, view, operations.records)
        if marks is not None:
            user = marks if user is None else marks.and_then(user)
        maps = token_maps(source, view.tokens, operations.owner, len(operations), user)
    firsts = dense(operations.first)
    positions = pa.nulls(len(operations), pa.string())
    if chunk.wanted.positions:
        positions = format_positions(chunk.file_number, view.offsets[firsts] + source.base)
    shared = (*transactions, positions, maps)
    tables = operations.tables.codes[firsts]
    blocks = []
    for code, known in enumerate(operations.tables.tables):
        if not chunk.wanted.has_table(known.name):
            continue
        rows = np.flatnonzero(tables == code)
        if len(rows):
            try:
                blocks.append(_read_block(chunk, operations, (known, rows), shared))
            except DecodeError as error:
                raise explained(error, source, operations) from None
    return blocks


def _read_block(
    chunk: Chunk,
    operations: Operations,
    chosen: tuple[TrailTable, Longs],
    shared: tuple[pa.Array | None, ...],
) -> ChangeBlock:
    known, rows = chosen
    view = operations.view
    own = dense(rows)
    first, after = operations.first[own], operations.after[own]
    firsts = dense(first)
    if len(rows) < len(operations):
        index = pa.array(rows)
        shared = tuple(None if values is None else values.take(index) for values in shared)
    tx_id, csn, position, maps = shared
    table, before_image, after_image = _read_images(chunk, view, known, (first, after))
    return ChangeBlock(
        table=table,
        order=rows + chunk.row,
        op_type=OP_TYPE_OF[view.io_type[firsts]],
        op_ts=view.io_time[firsts],
        tx_ind=INDICATORS[operations.begins[own] + np.uint8(2) * operations.ends[own]],
        tx_id=tx_id,
        csn=csn,
        seq_id=None,
        position=position,
        before=before_image,
        after=after_image,
        tokens=maps,
    )


def _read_images(
    chunk: Chunk, view: RecordView, known: TrailTable, records: tuple[Longs, Longs]
) -> tuple[Table, Image, Image]:
    """Return the table and both images of operations (first record, after record)."""
    source = chunk.source
    first, after = records
    firsts, afterwards = dense(first), dense(after)
    io_type = view.io_type[firsts]
    _check_truncates(source, view, first[io_type == IO_TRUNCATE])
    prefixed = PREFIX_OF[io_type] > 0
    has_before = (io_type == IO_DELETE) | (first != after) | prefixed
    has_after = (io_type != IO_DELETE) & (io_type != IO_TRUNCATE)
    befores, afters = view.data.take(firsts), view.data.take(afterwards)
    table = known.table or chunk.definitions.get(known.name)
    if prefixed.any():
        columns = len(table.columns) if table is not None else MAX_COLUMNS
        kinds = PREFIX_OF[io_type]
        split = both_images(source, befores, kinds, known.name, columns)
        befores, afters = (
            split[0],
            Spans(np.where(kinds > 0, split[1].starts, afters.starts), afters.ends),
        )
    if view.has_marks:
        source, befores = _listed(source, view, (known.name, table), befores, first)
        source, afters = _listed(source, view, (known.name, table), afters, after)
    if table is None:
        table = _numbered(chunk, known.name, (befores, afters), np.unique(np.append(first, after)))
    before_image, after_image = (
        read_image(source, table, _areas(spans, has), chunk.wanted)
        for spans, has in ((befores, has_before), (afters, has_after))
    )
    if not len(chunk.large):
        return table, before_image, after_image
    # A record of both images has its large objects in the after one.
    only_before = np.flatnonzero(~has_after | (first != after))
    rows = np.flatnonzero(has_after)
    return (
        table,
        _with_large(chunk, table, before_image, (only_before, first)),
        _with_large(chunk, table, after_image, (rows, after)),
    )


def _listed(
    source: TrailBytes,
    view: RecordView,
    of: tuple[str, Table | None],
    areas: Spans,
    records: Longs,
) -> tuple[TrailBytes, Spans]:
    """Return areas as lists of columns, those of NonStop's other layouts too; ``of``: the table's name and definition."""
    rows = np.flatnonzero(view.marks[records] & UNLISTED)
    if not len(rows):
        return source, areas
    return listed(source, *of, areas, view.io_type[records], rows)


def _numbered(chunk: Chunk, name: str, images: tuple[Spans, Spans], records: Longs) -> Table:
    """Return a table of as many numbered columns as these data have."""
    columns = max(columns_used(chunk.source, spans) for spans in images)
    large, _ = chunk.large.within(records)
    columns = max(columns, 1 + int(large.column.max(initial=-1)))
    return numbered_table(name, min(columns, MAX_COLUMNS))


def _with_large(chunk: Chunk, table: Table, image: Image, side: tuple[Longs, Longs]) -> Image:
    """Return an image with the large objects of its records; ``side``: rows, and all their records."""
    rows, records = side
    objects, at = chunk.large.within(records[rows])
    if not len(objects):
        return image
    placed = (objects, rows[at], len(records))
    return put_in(chunk.source, table, image, placed, decoded=chunk.wanted.values)


def _areas(spans: Spans, chosen: Mask) -> ImageAreas:
    if chosen.all():
        return ImageAreas(spans, None, len(chosen))
    rows = np.flatnonzero(chosen)
    return ImageAreas(spans.take(rows), rows, len(chosen))


def _check_truncates(source: TrailBytes, view: RecordView, records: Longs) -> None:
    data = view.data.take(records)
    filled = np.flatnonzero(data.sizes)
    if len(filled):
        span = (int(data.starts[filled[0]]), int(data.ends[filled[0]]))
        raise source.error("a truncate has no data (trail format §10.5), this one has", span)
