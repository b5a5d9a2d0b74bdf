"""Turn grouped operations into change blocks: one block per table, with decoded images and token maps.

This is also where an encrypted trail is recognized: its records are framed as usual, but no data
area contains columns (trail format §13: ENCRYPTTRAIL encrypts only data areas; the method, and its
trace in the header, are not public).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.rows import as_slice
from trailgate.errors import DecodeError
from trailgate.model.changes import ChangeBlock, Image
from trailgate.model.positions import format_positions
from trailgate.model.tables import Definitions, Table
from trailgate.trail.format.record_types import OP_TYPE_OF, PREFIX_OF, ImagePrefix
from trailgate.trail.format.tokens import TX_NAME, TX_OWNER
from trailgate.trail.reading import kernels
from trailgate.trail.reading.grouping import GroupedOperations
from trailgate.trail.reading.images import (
    EVERYTHING,
    ImageAreas,
    ReadSelection,
    locate_images,
    read_image,
)
from trailgate.trail.reading.large_objects import NO_OBJECTS, LargeObjects, insert_large_objects
from trailgate.trail.reading.nonstop_images import rewrite_as_column_lists
from trailgate.trail.reading.tokens import (
    build_token_maps,
    check_tokens,
    find_user_tokens,
    marks_as_tokens,
)
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.records.kernels import UNLISTED
from trailgate.trail.records.record_view import RecordColumns
from trailgate.trail.records.table_metadata import TrailTable
from trailgate.trail.values.cells import mask_filled_areas
from trailgate.trail.values.numbered_columns import (
    MAX_COLUMNS,
    count_columns_used,
    make_numbered_table,
)

SAMPLE: Final = 64  # data areas that are checked for columns
HINT: Final = (
    "The frames of the records are right, but their data are not columns: the trail may be encrypted (ENCRYPTTRAIL). "
    "Trailgate cannot read an encrypted trail: have a pump write it without encryption"
)


def hint_at_encryption(
    error: DecodeError, source: TrailBytes, operations: GroupedOperations
) -> DecodeError:
    """Add a hint about encryption to the error of decoding grouped operations, if none of the first data areas contain columns."""
    view = operations.view
    filled = view.data.sizes[operations.first] > 0
    filled &= view.marks[operations.first] & UNLISTED == 0
    records = operations.first[filled][:SAMPLE]
    data = view.data.take(records)
    listed = mask_filled_areas(source, data)
    prefixed = PREFIX_OF[view.io_type[records]] > 0
    for width in (ImagePrefix.SHORT, ImagePrefix.LONG):
        # Two lists of columns, one after another, are one list: skip only the length before them.
        starts = np.minimum(data.starts + int(width), data.ends)
        listed |= prefixed & mask_filled_areas(source, Spans(starts, data.ends))
    if len(records) and not listed.any():
        error.hint = HINT
    return error


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The context in which a batch of trail records is decoded: its bytes, definitions, large objects and selection.

    ``row`` is the row of the batch's first operation in the result.
    """

    source: TrailBytes
    definitions: Definitions
    file_number: int
    row: int
    large: LargeObjects = NO_OBJECTS
    wanted: ReadSelection = EVERYTHING


def read_blocks(
    context: ReadContext, operations: GroupedOperations, transactions: tuple[pa.Array, pa.Array]
) -> list[ChangeBlock]:
    """Decode grouped operations into one block per table, in order of the tables' appearance.

    ``transactions`` are the transaction id and CSN of each operation.
    """
    if not len(operations):
        return []
    source, view = context.source, operations.view
    maps = owners = names = None
    if context.wanted.tokens and not context.wanted.values:
        check_tokens(source, view.tokens, operations.owner)
    elif context.wanted.tokens:
        user = find_user_tokens(source, view.user.take(slice(operations.records)))
        marks = marks_as_tokens(source, view, operations.records)
        if marks is not None:
            # Undo flags and system keys are not in the user area, but are shown as user tokens.
            user = marks if user is None else marks.merge(user)
        maps = build_token_maps(source, view.tokens, operations.owner, len(operations), user)
        if user is not None:
            owners, names = (
                user.values_by_operation(name, operations.owner, len(operations))
                for name in (TX_OWNER, TX_NAME)
            )
    # An operation's position is the offset of its first record in the file.
    positions = pa.nulls(len(operations), pa.string())
    if context.wanted.positions:
        offsets = view.offsets[as_slice(operations.first)] + source.base
        positions = format_positions(context.file_number, offsets)
    shared = (*transactions, positions, maps, owners, names)
    blocks = []
    for known, rows in _by_table(operations):
        if not context.wanted.has_table(known.name) or not len(rows):
            continue
        try:
            blocks.append(_read_block(context, operations, (known, rows), shared))
        except DecodeError as error:
            raise hint_at_encryption(error, source, operations) from None
    return blocks


def _by_table(operations: GroupedOperations) -> Iterator[tuple[TrailTable, Longs]]:
    """Yield each table of a batch of trail records, and the indexes of its operations."""
    tables = operations.tables
    if len(tables.tables) == 1:
        yield tables.tables[0], np.arange(len(operations))
        return
    codes = tables.codes[as_slice(operations.first)]
    for code, known in enumerate(tables.tables):
        yield known, np.flatnonzero(codes == code)


def _read_block(
    context: ReadContext,
    operations: GroupedOperations,
    chosen: tuple[TrailTable, Longs],
    shared: tuple[pa.Array | None, ...],
) -> ChangeBlock:
    """Decode the grouped operations of one table into a block.

    ``chosen`` is the table and the indexes of its operations. ``shared`` are columns that do not
    depend on the table, such as CSNs, with a row for each operation of the batch.
    """
    known, rows = chosen
    described = _describe(operations, rows)
    if described.filled >= 0:
        area = operations.view.data
        span = (int(area.starts[described.filled]), int(area.ends[described.filled]))
        problem = "a truncate must not have data (trail format §10.5)"
        raise context.source.error(problem, span)
    # If all operations are on one table, the shared columns are used as they are, without a copy.
    if len(rows) < len(operations):
        index = pa.array(rows)
        shared = tuple(None if values is None else values.take(index) for values in shared)
    tx_id, csn, position, maps, tx_owner, tx_name = shared
    index_of_rows = as_slice(rows)
    records = operations.first[index_of_rows], operations.after[index_of_rows]
    table, before_image, after_image = _read_images(context, operations, known, described, records)
    return ChangeBlock(
        table=table,
        order=rows + context.row if context.row else rows,
        op_type=described.op_type,
        op_ts=described.op_ts,
        tx_ind=described.tx_ind,
        tx_id=tx_id,
        csn=csn,
        seq_id=None,
        position=position,
        before=before_image,
        after=after_image,
        tx_owner=tx_owner,
        tx_name=tx_name,
        tokens=maps,
    )


@dataclass(frozen=True, slots=True)
class _OperationColumns:
    """The operations of one table as columns: their types, indicators, times and image spans, with counts.

    ``befores`` operations have a before image, ``afters`` an after image, and ``prefixed`` have
    both images in one record. ``filled`` is the record of a truncate that has data, or -1.
    """

    op_type: Octets
    tx_ind: Octets
    prefixes: Octets
    has_before: Octets
    has_after: Octets
    op_ts: Longs
    before: Spans
    after: Spans
    befores: int
    afters: int
    prefixed: int
    filled: int


def _describe(operations: GroupedOperations, rows: Longs) -> _OperationColumns:
    """Find the types, indicators, times and image spans of the grouped operations at ``rows``."""
    view, count = operations.view, len(rows)
    small = np.empty(kernels.SMALL_COLUMNS * count, np.uint8)
    longs = np.empty(kernels.LONG_COLUMNS * count, np.int64)
    befores, afters, prefixed, filled = kernels.describe_operations(
        rows,
        kernels.OperationArrays(
            operations.first, operations.after, operations.begins, operations.ends
        ),
        kernels.DescribedRecords(view.io_type, view.io_time, view.data.starts, view.data.ends),
        OP_TYPE_OF,
        PREFIX_OF,
        small,
        longs,
    )
    op_type, tx_ind, prefixes, has_before, has_after = small.reshape(kernels.SMALL_COLUMNS, count)
    op_ts, *spans = longs.reshape(kernels.LONG_COLUMNS, count)
    return _OperationColumns(
        op_type=op_type,
        tx_ind=tx_ind,
        prefixes=prefixes,
        has_before=has_before,
        has_after=has_after,
        op_ts=op_ts.copy(),  # op_ts outlives the batch, and a view would keep all five columns
        before=Spans(*spans[:2]),
        after=Spans(*spans[2:]),
        befores=befores,
        afters=afters,
        prefixed=prefixed,
        filled=filled,
    )


def _read_images(
    context: ReadContext,
    operations: GroupedOperations,
    known: TrailTable,
    described: _OperationColumns,
    records: tuple[Longs, Longs],
) -> tuple[Table, Image, Image]:
    """Decode the before and after images of one table's operations. Returns the table and the images.

    If the table is not defined, the returned one has numbered columns. ``records`` are the first
    record and the after-image record of each operation.
    """
    source = context.source
    first, after = records
    befores, afters = described.before, described.after
    table = known.table or context.definitions.get(known.name)
    if described.prefixed:
        columns = len(table.columns) if table is not None else MAX_COLUMNS
        # Both images are in one data area, and the length of the first one precedes them. Where an
        # operation has no prefix (0), its after image is in an area of its own.
        befores, split = locate_images(source, befores, described.prefixes, known.name, columns)
        afters = Spans(np.where(described.prefixes > 0, split.starts, afters.starts), afters.ends)
    view = operations.view
    if view.has_marks:
        source, befores = _rewrite_nonstop_areas(source, view, (known.name, table), befores, first)
        source, afters = _rewrite_nonstop_areas(source, view, (known.name, table), afters, after)
    if table is None:
        table = _number_columns(
            context, known.name, (befores, afters), np.unique(np.append(first, after))
        )
    before_image = read_image(
        source, table, _areas(befores, described.has_before, described.befores), context.wanted
    )
    after_image = read_image(
        source, table, _areas(afters, described.has_after, described.afters), context.wanted
    )
    if not len(context.large):
        return table, before_image, after_image
    # Large objects of a record with both images belong to the after image.
    only_before = np.flatnonzero((described.has_after == 0) | (first != after))
    rows = np.flatnonzero(described.has_after)
    # Each pair has the operations to which large objects can belong, and the record of each operation.
    return (
        table,
        _with_large(context, table, before_image, (only_before, first)),
        _with_large(context, table, after_image, (rows, after)),
    )


def _rewrite_nonstop_areas(
    source: TrailBytes,
    view: RecordColumns,
    of: tuple[str, Table | None],
    areas: Spans,
    records: Longs,
) -> tuple[TrailBytes, Spans]:
    """Rewrite data areas in the layouts of NonStop as lists of columns, if there are any.

    ``of`` is the table's name and definition, and ``records`` has the record of each area. Returns
    the extended bytes and all areas.
    """
    rows = np.flatnonzero(view.marks[records] & UNLISTED)
    if not len(rows):
        return source, areas
    return rewrite_as_column_lists(source, *of, areas, view.io_type[records], rows)


def _areas(spans: Spans, chosen: Octets, number: int) -> ImageAreas:
    """Return the image spans of the operations that the mask ``chosen`` marks. ``number`` of them are marked."""
    if number == len(chosen):
        return ImageAreas(spans, None, len(chosen))
    rows = np.flatnonzero(chosen)
    return ImageAreas(spans.take(rows), rows, len(chosen))


def _number_columns(
    context: ReadContext, name: str, images: tuple[Spans, Spans], records: Longs
) -> Table:
    """Build a table for operations on an undefined table: numbered columns, as many as the data use.

    ``images`` are the spans of the before and after images, and ``records`` the records that may
    have large objects.
    """
    columns = max(count_columns_used(context.source, spans) for spans in images)
    large, _ = context.large.within(records)
    columns = max(columns, 1 + int(large.column.max(initial=-1)))
    return make_numbered_table(name, min(columns, MAX_COLUMNS))


def _with_large(
    context: ReadContext, table: Table, image: Image, side: tuple[Longs, Longs]
) -> Image:
    """Insert the batch's large objects into an image.

    ``side`` are the rows of the image that may have large objects, and for every row the record
    that contains its image.
    """
    rows, records = side
    objects, at = context.large.within(records[rows])
    if not len(objects):
        return image
    placed = (objects, rows[at], len(records))
    return insert_large_objects(context.source, table, image, placed, selection=context.wanted)
