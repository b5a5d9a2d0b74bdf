"""Find the trail cells of a table's columns in the data areas of many records, and measure and copy their values.

A data area is a sequence of cells: column index u16, length u16, value (trail format §10.1). ``00
00 00 03 00 00 41 | 00 02 00 02 FF FF`` has a value in column 0 and NULL in column 2. Column 1 is
missing, which is different from NULL.

`find_cells` finds the cells. The codecs get those of one column as `TrailCells`, and use the other
functions to check the widths of the values and to copy their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Offsets
from trailgate.columnar.gather import (
    gather,
    gather_matrix,
    gather_measured,
    measure_error,
)
from trailgate.columnar.gather_kernels import MAX_INT32
from trailgate.columnar.strings import NO_NULLS
from trailgate.errors import DecodeError
from trailgate.model.tables import Table
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values import cell_kernels, value_kernels
from trailgate.trail.values.codec import (
    CELL_HEAD,
    INDICATOR_BYTES,
    TrailCells,
)

COLUMN_INDEXES: Final = 1 << 16  # a column index is u16
SHORTEST_CELL: Final = CELL_HEAD + INDICATOR_BYTES


@dataclass(frozen=True, slots=True)
class CellSpans:
    """The trail cells of one column: for each its data area (ascending), the offset of its null indicator, and its length.

    The length includes the null indicator. ``areas`` is None if every area has a cell of the
    column.
    """

    areas: Longs | None
    starts: Longs
    lengths: Longs

    def __len__(self) -> int:
        return len(self.starts)


def find_cells(source: TrailBytes, table: Table, areas: Spans) -> list[CellSpans]:
    """Find the trail cells of each column of a table in some data areas. There must be at least one area.

    Raises DecodeError, with the table, if cells do not fill an area exactly, or if a column index
    is too high or appears twice in an area.
    """
    first = np.flatnonzero(_count(source, table, areas.take(slice(1))))
    count, cells = len(areas.starts), len(first)
    # Usually all areas have the same columns, so try the columns of the first area. The condition
    # limits the arrays: if the areas are too short for that many cells, they differ anyway.
    if cells * count <= int(areas.sizes.sum()) // SHORTEST_CELL:
        starts, lengths = (np.empty(cells * count, np.int64) for _ in range(2))
        if cell_kernels.place_alike(
            source.data, areas.starts, areas.ends, source.big, first, starts, lengths
        ):
            by_column = [CellSpans(None, starts[:0], lengths[:0])] * len(table.columns)
            for k, column in enumerate(first.tolist()):
                cells_of_column = slice(k * count, (k + 1) * count)
                by_column[column] = CellSpans(
                    None, starts[cells_of_column], lengths[cells_of_column]
                )
            return by_column
    return _sort(source, areas, _count(source, table, areas))


def _count(source: TrailBytes, table: Table, areas: Spans) -> Longs:
    """Check all data areas of records of a table, and return the number of cells of each column."""
    columns = len(table.columns)
    counts, last = np.zeros(columns, np.int64), np.full(columns, -1, np.int64)
    problem, area, offset = cell_kernels.count_cells(
        source.data, areas.starts, areas.ends, source.big, counts, last
    )
    if problem:
        raise _error(source, table, problem, (offset, int(areas.ends[area])))
    return counts


def _sort(source: TrailBytes, areas: Spans, counts: Longs) -> list[CellSpans]:
    """Return the trail cells of each column of a table. The areas must have passed ``_count``, which returns ``counts``."""
    # The cells of all columns share three arrays: counts 2 0 3 give column 0 the items 0 and 1, and
    # column 2 the items 2 to 4.
    ends = np.cumsum(counts)
    begins = ends - counts
    total = int(counts.sum())
    rows, starts, lengths = (np.empty(total, np.int64) for _ in range(3))
    cell_kernels.place_cells(
        source.data, areas.starts, areas.ends, source.big, begins.copy(), rows, starts, lengths
    )
    return [
        CellSpans(rows[begin:end], starts[begin:end], lengths[begin:end])
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]


def _error(source: TrailBytes, table: Table, problem: int, span: tuple[int, int]) -> DecodeError:
    offset, _ = span
    order = source.order
    index = order.number(source.data[offset : offset + 2].tobytes())
    if problem == cell_kernels.OVER:
        return source.error("a column runs over its data area", span, table=table.name)
    if problem == cell_kernels.BAD_INDEX:
        text = f"column index {index} in a table of {len(table.columns)} columns"
        return source.error(text, span, table=table.name)
    field = table.columns[index].name
    if problem == cell_kernels.NO_INDICATOR:
        error = source.error("a value has no null indicator", span, table=table.name)
        return error.with_place(field=field)
    span = (offset, offset + CELL_HEAD)
    return source.error("a column appears twice", span, table=table.name).with_place(field=field)


def mask_filled_areas(source: TrailBytes, areas: Spans, columns: int = COLUMN_INDEXES) -> Mask:
    """Return a mask of the data areas that cells with column indexes below ``columns`` fill exactly."""
    good = np.empty(len(areas.starts), bool)
    cell_kernels.check_cells(source.data, areas.starts, areas.ends, source.big, columns, good)
    return good


def have_widths(source: TrailBytes, areas: Spans, widths: Longs) -> bool:
    """Return True if the data areas consist of cells without gaps, and each value is NULL or has the width of its column.

    ``widths`` has the number of bytes of each column's values (``codec_table.cell_widths``). Also
    returns False if a column repeats in an area, a width is unknown, or ``source.data`` is larger
    than 2 GiB, so False does not mean that the data is damaged.
    """
    last = np.full(len(widths), -1)
    good: bool = len(source.data) <= MAX_INT32 and cell_kernels.check_values(
        source.data, areas.starts, areas.ends, source.big, widths, last
    )
    return good


def measure_variable(cells: TrailCells) -> tuple[Mask | None, Offsets]:
    """Check and measure the cells of a column of varying length. Returns a mask of the NULLs (None if there are none) and their Arrow offsets.

    Raises DecodeError if a length is wrong.
    """
    source, count = cells.source, len(cells.starts)
    nulls, offsets = np.empty(count, bool), np.empty(count + 1, np.int32)
    null_count, bad, size = value_kernels.check_variable(
        source.data, cells.starts, cells.lengths, source.big, nulls, offsets
    )
    if bad >= 0:
        raise cells.error("a text's length does not agree with its value", bad)
    if size < 0:
        raise measure_error(size, len(source.data))
    return nulls if null_count else None, offsets


def gather_cells(
    cells: TrailCells,
    starts: Longs,
    nulls: Mask | None,
    offsets: Offsets | None = None,
    *,
    text: bool = False,
) -> pa.Array:
    """Copy the bytes from ``starts`` to the end of each trail cell into a binary column, or with ``text`` a string column.

    ``offsets`` are the Arrow offsets of the result, if they are known.
    """
    if offsets is None:
        ends = cells.starts + cells.lengths
        return gather(cells.source.buffer, starts, ends, nulls=nulls, text=text)
    missing = NO_NULLS if nulls is None else nulls
    return gather_measured(cells.source.data, starts, offsets, missing, text=text)


def check_fixed_cells(cells: TrailCells, width: int) -> Mask | None:
    """Check the lengths of the cells of a fixed-width column. Return a mask of the NULLs, or None if there are none."""
    nulls = np.empty(len(cells.starts), bool)
    null_count, bad = value_kernels.check_fixed(
        cells.source.data, cells.starts, cells.lengths, width, nulls
    )
    if bad >= 0:
        raise width_error(cells, width, bad)
    return nulls if null_count else None


def width_error(cells: TrailCells, width: int, row: int) -> DecodeError:
    """Build a DecodeError about a trail cell that does not have the fixed width of its column."""
    return cells.error(f"a value of {width} bytes after 00 00 or ff ff was expected", row)


def fixed_bytes(
    cells: TrailCells, width: int, nulls: Mask | None
) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return the bytes of fixed-width trail cells, after their null indicators, as a matrix with one row per value. NULLs are skipped."""
    starts = cells.starts if nulls is None else cells.starts[~nulls]
    return gather_matrix(cells.source.data, starts + INDICATOR_BYTES, width)
