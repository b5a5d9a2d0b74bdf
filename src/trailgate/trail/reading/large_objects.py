"""Join the pieces of large objects (record type 116) and insert them into their columns.

trail format §11: the data of a piece begin with five u32: column index, number of pieces, number of
this piece, offset in the value, and size. The pieces follow their change. In the change itself the
column is NULL, or contains a small value inline.

The pieces are sorted by change, column and offset, checked for gaps and overlaps, and copied one
after another to the end of the bytes. From there they are decoded like other values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.model.changes import Image, StateColumn
from trailgate.model.tables import Table
from trailgate.trail.format.record_header import PIECE_HEAD
from trailgate.trail.format.record_types import IO_TRUNCATE, RecordRole
from trailgate.trail.reading.grouping import GroupedOperations, find_last_change
from trailgate.trail.reading.images import ReadSelection
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values.codec import TrailCells
from trailgate.trail.values.codec_table import LARGE, decode_leniently, explain_unreadable

_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class LargeObjects:
    """Complete large-object values: for each, the record of its image, its column, and the span of its bytes."""

    record: Longs
    column: Longs
    spans: Spans

    def __len__(self) -> int:
        return len(self.record)

    def select(self, chosen: Mask | Longs) -> LargeObjects:
        """Return the large objects at these indexes."""
        spans = Spans(self.spans.starts[chosen], self.spans.ends[chosen])
        return LargeObjects(self.record[chosen], self.column[chosen], spans)

    def within(self, records: Longs) -> tuple[LargeObjects, Longs]:
        """Return the large objects of these records (ascending), and for each the index of its record among them."""
        # The index at which each record would be inserted is the index of the record if it is among them.
        at = np.searchsorted(records, self.record)
        at = np.minimum(at, max(0, len(records) - 1))
        is_of_records = (
            np.zeros(len(self), bool) if not len(records) else records[at] == self.record
        )
        return self.select(is_of_records), at[is_of_records]


NO_OBJECTS: Final = LargeObjects(_NONE, _NONE, Spans(_NONE, _NONE))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """The heads of large-object pieces as arrays, sorted by change record, column and offset."""

    rows: Longs  # the records of the pieces
    record: Longs  # the record of the change that each belongs to
    column: Longs
    total: Longs
    number: Longs
    offset: Longs
    size: Longs


def read_large_objects(
    source: TrailBytes, operations: GroupedOperations
) -> tuple[TrailBytes, LargeObjects]:
    """Join the pieces of the operations' large objects at the end of the bytes. Returns the extended bytes and the values.

    Raises DecodeError if pieces are missing, overlap or contradict each other.
    """
    rows = operations.of_role(RecordRole.LARGE_OBJECT)
    if not len(rows):
        return source, NO_OBJECTS
    pieces = _read_heads(source, operations, rows)
    # The pieces of an object are consecutive: another record or column begins the next object.
    begins = np.ones(len(rows), bool)
    begins[1:] = (np.diff(pieces.record) != 0) | (np.diff(pieces.column) != 0)
    _check(source, operations, pieces, begins)
    data = operations.view.data.take(pieces.rows)
    source, starts = source.extend(Spans(data.starts + PIECE_HEAD, data.ends))
    # The pieces were copied one after the other, so an object spans from its first to its last one.
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(rows)) - 1
    spans = Spans(starts[first], starts[last] + pieces.size[last])
    return source, LargeObjects(pieces.record[first], pieces.column[first], spans)


def _read_heads(source: TrailBytes, operations: GroupedOperations, rows: Longs) -> _Pieces:
    data = operations.view.data.take(rows)
    _require(
        source,
        operations,
        (rows, data.sizes >= PIECE_HEAD),
        "a piece of a large object is shorter than its head of 20 bytes",
    )
    words = source.order.words(source.data, "u4")
    head = [words[data.starts + 4 * i].astype(np.int64) for i in range(PIECE_HEAD // 4)]
    sized = head[4] == data.sizes - PIECE_HEAD
    _require(source, operations, (rows, sized), "a piece's size does not agree with its record")
    record = find_last_change(operations, rows)
    rowless = operations.view.io_type[record] == IO_TRUNCATE
    _require(source, operations, (rows, ~rowless), "a truncate has no large objects")
    # Sort by record, column and offset; pieces of the same offset by their number. lexsort's last key
    # is the first to compare.
    order = np.lexsort((head[2], head[3], head[0], record))
    column, total, number, offset, size = (word[order] for word in head)
    return _Pieces(
        rows=rows[order],
        record=record[order],
        column=column,
        total=total,
        number=number,
        offset=offset,
        size=size,
    )


def _check(
    source: TrailBytes, operations: GroupedOperations, pieces: _Pieces, begins: Mask
) -> None:
    """Check that every large object has all its pieces, each exactly once, without a gap or overlap.

    ``begins`` marks the first piece of each object.
    """
    # ``begins`` marks each value's first piece. ``group`` numbers the values (begins 1 0 1 -> group
    # 0 0 1), and ``first`` is the index of the first piece of each piece's value.
    group = np.cumsum(begins) - 1
    counts = np.bincount(group)
    first = np.flatnonzero(begins)[group]

    def require(good: Mask, problem: str) -> None:
        _require(source, operations, (pieces.rows, good), problem)

    require(
        pieces.total == pieces.total[first],
        "the pieces of one large object state different numbers of pieces",
    )
    require(
        (pieces.number >= 1) & (pieces.number <= pieces.total),
        "a piece's number is not one of 1 to the number of pieces",
    )
    # Each piece has to begin at the end of the one before it, and a value's first piece at 0.
    # Example: pieces of 5, 3 and 4 bytes at 0, 5 and 0, where begins is 1 0 1: expected is 0 5 0.
    expected = np.zeros(len(begins), np.int64)
    expected[1:] = (pieces.offset + pieces.size)[:-1]
    expected[begins] = 0
    require(pieces.offset >= expected, "pieces of a large object overlap")
    require(pieces.offset == expected, "a large object has a gap: a piece is missing")
    # In the order of value and number, a piece is repeated if it equals the one before it.
    by_number = np.lexsort((pieces.number, group))
    repeated = np.zeros(len(begins), bool)
    ordered = pieces.number[by_number]
    repeated[by_number[1:]] = (np.diff(ordered) == 0) & (np.diff(group[by_number]) == 0)
    require(~repeated, "a piece of a large object appears twice")
    require(counts[group] == pieces.total, "some pieces of a large object are missing")


def _require(
    source: TrailBytes, operations: GroupedOperations, checked: tuple[Longs, Mask], problem: str
) -> None:
    """Raise DecodeError with ``problem`` about the first bad piece of a large object, if any.

    ``checked`` are the rows of the pieces' records, and a mask of the good ones.
    """
    rows, good = checked
    if good.all():
        return
    record = int(rows[int(np.argmin(good))])
    view = operations.view
    data = view.data.take(np.array([record]))
    span = (int(data.starts[0]), min(int(data.ends[0]), int(data.starts[0]) + PIECE_HEAD))
    table = operations.tables.tables[int(operations.tables.codes[record])].name
    raise source.error(problem, span, table=table)


def insert_large_objects(
    source: TrailBytes,
    table: Table,
    image: Image,
    placed: tuple[LargeObjects, Longs, int],
    *,
    selection: ReadSelection,
) -> Image:
    """Insert large objects into the columns of a decoded image.

    ``placed`` are the objects, the row of the image that each belongs to, and the number of rows.
    Without ``selection.values``, the image is not changed, and only the columns of the objects are
    checked. Raises DecodeError if a column does not exist or cannot have large objects.
    """
    objects, rows, count = placed
    columns = list(image)
    for index in np.unique(objects.column).tolist():
        chosen = np.flatnonzero(objects.column == index)
        spans = objects.spans.take(chosen)
        if index >= len(columns):
            problem = f"a large object of column {index} in a table of {len(columns)} columns"
            start = int(spans.starts[0])
            raise source.error(problem, (start, min(start + 32, int(spans.ends[0]))))
        column = table.columns[index]
        lengths = spans.sizes
        cells = TrailCells(source, table.name, column, spans.starts, lengths)
        decode = LARGE.get(column.family)
        if decode is None:
            raise cells.error(f"a large object, but {explain_unreadable(column)}", 0)
        if selection.values:
            new = decode_leniently(decode, cells) if selection.lenient else (decode(cells), None)
            # In the record itself, a value in pieces is NULL or missing.
            columns[index] = _overlay(columns[index], rows[chosen], new, count)
    return tuple(columns)


def _overlay(
    column: StateColumn, rows: Longs, new: tuple[pa.Array, pa.Array | None], count: int
) -> StateColumn:
    """Return a column of ``count`` rows with the values of some rows replaced.

    ``new`` are the new values and their problems (None if all are good).
    """
    values, bad = new
    old = pa.nulls(count, values.type) if column.values is None else column.values
    # Take from the old values followed by the new ones: with 3 rows and a new value in row 1, the
    # slots are 0, 3, 2.
    slots = np.arange(count)
    slots[rows] = count + np.arange(len(rows))
    missing = column.is_missing(count).copy()
    missing[rows] = False
    merged = pa.concat_arrays([old, values]).take(pa.array(slots))
    problems = None
    if bad is not None or column.problems is not None:
        sides = (column.problems, count), (bad, len(rows))
        problems = pa.concat_arrays(
            [pa.nulls(size, pa.string()) if one is None else one for one, size in sides]
        ).take(pa.array(slots))
    return StateColumn(merged, missing if missing.any() else None, problems)
