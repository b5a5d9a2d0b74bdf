"""Walk the columns of many records in lockstep, one column step at a time, then gather them.

A data area is a run of cells: column index u16, length u16, value (trail format §10.1). A
column that is not in it is missing, which is different from NULL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.views import words
from trailgate.errors import DecodeError, DefinitionError
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.tables import Table
from trailgate.trail.format.record_header import Source, Spans
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES, NULL, Cells
from trailgate.trail.values.codecs import codec_of, unreadable


@dataclass(frozen=True, slots=True)
class Area:
    """Runs of cells of one table: where they start and end, and which of ``count`` rows they are.

    ``rows`` None says that they are all the rows, in order.
    """

    source: Source
    table: Table
    starts: Longs
    ends: Longs
    rows: Longs | None
    count: int

    def error(self, problem: str, start: int, end: int) -> DecodeError:
        """Return an error about the bytes [start, end)."""
        return self.source.error(problem, (start, end), table=self.table.name)


@dataclass(frozen=True, slots=True)
class Found:
    """Where the values of one column lie; ``rows`` None says in every row."""

    rows: Longs | None
    starts: Longs
    lengths: Longs


def read_image(area: Area) -> Image:
    """Return the columns of a table in their three states, one slot a row."""
    if not len(area.starts):
        return (ABSENT,) * len(area.table.columns)
    return tuple(_read_column(area, i, found) for i, found in enumerate(walk(area)))


def walk(area: Area) -> list[Found | None]:
    """Return where each column's values lie; None for a column that no row has."""
    order = area.source.order
    frames = order.frames(area.source.data)
    columns = len(area.table.columns)
    pieces: list[list[Found]] = [[] for _ in range(columns)]
    place, ends, rows = area.starts, area.ends, area.rows
    for _ in range(columns + 1):
        live = place < ends
        if not live.all():
            rows = np.flatnonzero(live) if rows is None else rows[live]
            place, ends = place[live], ends[live]
        if not len(place):
            return [_merged(area, i, found) for i, found in enumerate(pieces)]
        index, sizes = order.halves(frames[place])
        lengths = sizes.astype(np.int64)
        _check_step(area, place, (ends, index, lengths))
        _note(pieces, rows, (index, place + CELL_HEAD, lengths))
        place = place + lengths + CELL_HEAD
    raise area.error("a column appears twice", int(place[0]), int(ends[0]))


def _check_step(area: Area, place: Longs, step: tuple[Longs, Longs, Longs]) -> None:
    ends, index, lengths = step
    over = place + lengths + CELL_HEAD > ends
    if over.any():
        bad = int(np.argmax(over))
        problem = "a column runs over its data area"
        raise area.error(problem, int(place[bad]), int(ends[bad]))
    columns = len(area.table.columns)
    if index.max() >= columns:
        bad = int(np.argmax(index))
        raise area.error(
            f"column index {index[bad]} in a table of {columns} columns",
            int(place[bad]),
            int(ends[bad]),
        )
    if lengths.min() < INDICATOR_BYTES:
        bad = int(np.argmin(lengths))
        raise area.error("a value has no null indicator", int(place[bad]), int(ends[bad])).located(
            field=area.table.columns[int(index[bad])].name
        )


def _note(pieces: list[list[Found]], rows: Longs | None, step: tuple[Longs, Longs, Longs]) -> None:
    """Add one step's values to their columns: at once where all rows agree on the column."""
    index, starts, lengths = step
    first = int(index[0])
    if (index == first).all():
        pieces[first].append(Found(rows, starts, lengths))
        return
    for column in np.unique(index).tolist():
        chosen = np.flatnonzero(index == column)
        those = chosen if rows is None else rows[chosen]
        pieces[column].append(Found(those, starts[chosen], lengths[chosen]))


def _merged(area: Area, column: int, pieces: list[Found]) -> Found | None:
    """Return a column's pieces as one, rows ascending; a row found twice is an error."""
    if not pieces:
        return None
    if len(pieces) == 1 and pieces[0].rows is None:
        return pieces[0]
    every = np.arange(len(area.starts))
    rows = np.concatenate([every if piece.rows is None else piece.rows for piece in pieces])
    starts = np.concatenate([piece.starts for piece in pieces])
    lengths = np.concatenate([piece.lengths for piece in pieces])
    order = np.argsort(rows, kind="stable")
    rows, starts, lengths = rows[order], starts[order], lengths[order]
    twice = np.flatnonzero(rows[1:] == rows[:-1])
    if len(twice):
        bad = int(starts[twice[0] + 1])
        error = area.error("a column appears twice", bad - CELL_HEAD, bad)
        raise error.located(field=area.table.columns[column].name)
    return Found(None if len(rows) == area.count else rows, starts, lengths)


def _read_column(area: Area, index: int, found: Found | None) -> StateColumn:
    if found is None:
        return ABSENT
    column = area.table.columns[index]
    cells = Cells(area.source, area.table.name, column, found.starts, found.lengths)
    values = _values(cells)
    if found.rows is None:
        return StateColumn(values)
    missing = np.ones(area.count, bool)
    missing[found.rows] = False
    slots = np.zeros(area.count, np.int64)
    slots[found.rows] = np.arange(len(found.rows))
    return StateColumn(values.take(pa.array(slots, mask=missing)), missing)


def _values(cells: Cells) -> pa.Array:
    try:
        codec = codec_of(cells.column)
    except DefinitionError:
        codec = None
    if codec is not None:
        return codec.decode(cells)
    # Of what has no public layout NULL can be told all the same.
    head = words(cells.source.data, "u2")[cells.starts]
    hint = "trailgate logdump shows the record's bytes"
    if not (head == NULL).all():
        error = cells.error(unreadable(cells.column), int(np.argmax(head != NULL)))
        error.hint = hint
        raise error
    return pa.nulls(len(cells.starts), pa.string())


def fits_as_image(source: Source, spans: Spans, columns: int) -> Mask:
    """Return which of the byte ranges are lists of columns that end exactly at their border."""
    frames = source.order.frames(source.data)
    good = np.ones(len(spans.starts), bool)
    rows = np.arange(len(good))
    place, ends = spans.starts, spans.ends
    for _ in range(columns + 1):
        live = place < ends
        rows, place, ends = rows[live], place[live], ends[live]
        if not len(rows):
            return good
        short = place + CELL_HEAD + INDICATOR_BYTES > ends
        index, sizes = source.order.halves(frames[np.where(short, 0, place)])
        step = sizes.astype(np.int64) + CELL_HEAD
        wrong = short | (index >= columns) | (sizes < INDICATOR_BYTES) | (place + step > ends)
        good[rows[wrong]] = False
        rows, place, ends = rows[~wrong], (place + step)[~wrong], ends[~wrong]
    good[rows] = False
    return good
