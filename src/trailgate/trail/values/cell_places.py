"""Where the values of a table's columns lie in the data areas of many records, and whether cells fill these.

A data area is a run of cells: column index u16, length u16, value (trail format §10.1). A column that is not in it is
missing, which is different from NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import DecodeError
from trailgate.model.tables import Table
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.values import read_kernels
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES

COLUMN_INDEXES: Final = 1 << 16  # that there can be
SHORTEST_CELL: Final = CELL_HEAD + INDICATOR_BYTES


@dataclass(frozen=True, slots=True)
class CellPlaces:
    """The values of a column: the area of each, ascending, and where its null indicator is and how long it is.

    ``areas`` None: every area has one.
    """

    areas: Longs | None
    starts: Longs
    lengths: Longs

    def __len__(self) -> int:
        return len(self.starts)


def find_cells(source: TrailBytes, table: Table, areas: Spans) -> list[CellPlaces]:
    """Return the values of each column of a table in data areas; there is at least one area.

    Raises DecodeError, with the table, where cells do not fill an area exactly, where an index is not one of
    the table's, or appears twice.
    """
    first = np.flatnonzero(_count(source, table, areas.take(slice(1))))
    count, cells = len(areas.starts), len(first)
    # Most areas are alike. Room for as many cells as the first has is not taken for areas that cannot hold them.
    if cells * count <= int(areas.sizes.sum()) // SHORTEST_CELL:
        starts, lengths = (np.empty(cells * count, np.int64) for _ in range(2))
        if read_kernels.place_alike(
            source.data, areas.starts, areas.ends, source.big, first, starts, lengths
        ):
            found = [CellPlaces(None, starts[:0], lengths[:0])] * len(table.columns)
            for k, column in enumerate(first.tolist()):
                own = slice(k * count, (k + 1) * count)
                found[column] = CellPlaces(None, starts[own], lengths[own])
            return found
    return _sorted(source, areas, _count(source, table, areas))


def _count(source: TrailBytes, table: Table, areas: Spans) -> Longs:
    """Return how many values each column has."""
    columns = len(table.columns)
    counts, last = np.zeros(columns, np.int64), np.full(columns, -1, np.int64)
    problem, area, place = read_kernels.count_cells(
        source.data, areas.starts, areas.ends, source.big, counts, last
    )
    if problem:
        raise _error(source, table, problem, (place, int(areas.ends[area])))
    return counts


def _sorted(source: TrailBytes, areas: Spans, counts: Longs) -> list[CellPlaces]:
    """Return the values of sound areas that differ in their columns."""
    ends = np.cumsum(counts)
    begins = ends - counts
    total = int(counts.sum())
    rows, starts, lengths = (np.empty(total, np.int64) for _ in range(3))
    read_kernels.place_cells(
        source.data, areas.starts, areas.ends, source.big, begins.copy(), rows, starts, lengths
    )
    return [
        CellPlaces(rows[begin:end], starts[begin:end], lengths[begin:end])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]


def _error(source: TrailBytes, table: Table, problem: int, span: tuple[int, int]) -> DecodeError:
    place, _ = span
    order = source.order
    index = order.number(source.data[place : place + 2].tobytes())
    if problem == read_kernels.OVER:
        return source.error("a column runs over its data area", span, table=table.name)
    if problem == read_kernels.BAD_INDEX:
        text = f"column index {index} in a table of {len(table.columns)} columns"
        return source.error(text, span, table=table.name)
    field = table.columns[index].name
    if problem == read_kernels.NO_INDICATOR:
        error = source.error("a value has no null indicator", span, table=table.name)
        return error.located(field=field)
    span = (place, place + CELL_HEAD)
    return source.error("a column appears twice", span, table=table.name).located(field=field)


def hold_cells(source: TrailBytes, areas: Spans, columns: int = COLUMN_INDEXES) -> Mask:
    """Return which areas cells of so many columns fill exactly."""
    good = np.empty(len(areas.starts), bool)
    read_kernels.check_cells(source.data, areas.starts, areas.ends, source.big, columns, good)
    return good


def split_images(
    source: TrailBytes, areas: Spans, kinds: Octets, columns: int
) -> tuple[Longs, Longs, int]:
    """Return the bytes of each area's length of its first image, where that image ends, and the first area without; or -1.

    ``kinds`` are the ``Prefix`` of each area.
    """
    count = len(kinds)
    widths, borders = np.empty(count, np.int64), np.empty(count, np.int64)
    bad = read_kernels.split_images(
        source.data, areas.starts, areas.ends, source.big, kinds, columns, widths, borders
    )
    return widths, borders, bad
