"""Images of many records: the columns of a table in their three states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.views import words
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.tables import Table
from trailgate.trail.reading.wanted import EVERYTHING, Wanted
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.values.cell_places import CellPlaces, find_cells
from trailgate.trail.values.codec import NULL, Cells, ValueCodec
from trailgate.trail.values.codecs import codecs_of, unreadable


@dataclass(frozen=True, slots=True)
class ImageAreas:
    """Where the images of operations lie, and which of ``count`` operations they are of; ``rows`` None: of all."""

    areas: Spans
    rows: Longs | None
    count: int


def read_image(
    source: TrailBytes, table: Table, images: ImageAreas, wanted: Wanted = EVERYTHING
) -> Image:
    """Return the columns of a table, one slot an operation; those that are not wanted as if missing."""
    if not len(images.areas.starts):
        return (ABSENT,) * len(table.columns)
    found = find_cells(source, table, images.areas)
    columns = zip(table.columns, codecs_of(table), found, strict=True)
    return tuple(
        _column(
            codec, Cells(source, table.name, column, one.starts, one.lengths), one, images, wanted
        )
        if len(one) and wanted.has_column(column)
        else ABSENT
        for column, codec, one in columns
    )


def _column(
    codec: ValueCodec | None, cells: Cells, found: CellPlaces, images: ImageAreas, wanted: Wanted
) -> StateColumn:
    if not wanted.values and codec is not None:
        codec.check(cells)
        return ABSENT
    return _in_states(_values(codec, cells), found, images)


def _in_states(values: pa.Array, found: CellPlaces, images: ImageAreas) -> StateColumn:
    if len(found) == images.count:
        return StateColumn(values)
    rows = _rows(found, images)
    missing = np.ones(images.count, bool)
    missing[rows] = False
    slots = np.zeros(images.count, np.int64)
    slots[rows] = np.arange(len(rows))
    return StateColumn(values.take(pa.array(slots, mask=missing)), missing)


def _rows(found: CellPlaces, images: ImageAreas) -> Longs:
    """Return the operations that have a value."""
    every = np.arange(images.count) if images.rows is None else images.rows
    return every if found.areas is None else every[found.areas]


def _values(codec: ValueCodec | None, cells: Cells) -> pa.Array:
    if codec is not None:
        return codec.decode(cells)
    # Of a value without a public layout it is still known whether it is NULL.
    head = words(cells.source.data, "u2")[cells.starts]
    hint = "trailgate logdump shows the record's bytes"
    if not (head == NULL).all():
        error = cells.error(unreadable(cells.column), int(np.argmax(head != NULL)))
        error.hint = hint
        raise error
    return pa.nulls(len(cells.starts), pa.string())
