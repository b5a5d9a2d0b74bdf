"""Decode the images of many records into one table's columns, in which each value is present, NULL or missing.

The data of key updates and unified updates contain both images. They begin with the length of the
before image (trail format §10.4): a u16 in type 115, a u32 in type 117, and in types 134 and 135 a
length of the width with which both images fit.

All images are lists of columns: `nonstop_images` has rewritten those that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.gather import sliding_words
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Column, Table
from trailgate.trail.format.record_types import ImagePrefix
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values import cell_kernels
from trailgate.trail.values.cells import CellSpans, find_cells, have_widths
from trailgate.trail.values.codec import (
    NULL,
    TrailCells,
    TrailValueCodec,
)
from trailgate.trail.values.codec_table import (
    cell_widths,
    decode_leniently,
    explain_unreadable,
    select_codecs,
)


@dataclass(frozen=True, slots=True)
class ReadSelection:
    """The tables, columns and other parts to decode from a trail.

    Names of tables and columns are in lower case; None selects all. The cells of other columns are
    found and checked, but their values are not decoded. ``tokens``, transaction ``ids`` and
    ``positions`` may be excluded; ids and positions are then null. Without ``values``, null
    indicators and lengths are checked, but no value is decoded, and tokens are checked, but not
    returned. Without ``undone``, operations that back out another one are skipped. With
    ``lenient``, a value that cannot be decoded becomes null and its problem is stored in the
    column; otherwise an error is raised.
    """

    tables: TablePatterns | None = None
    columns: frozenset[str] | None = None
    tokens: bool = True
    ids: bool = True
    positions: bool = True
    values: bool = True
    undone: bool = True
    lenient: bool = False

    def has_table(self, name: str) -> bool:
        """Return whether the selection has the operations of a table, so that they are decoded."""
        return self.tables is None or self.tables.fits(name)

    def has_column(self, column: Column) -> bool:
        """Return whether the selection has the values of a column, so that they are decoded."""
        return self.columns is None or column.name.casefold() in self.columns


EVERYTHING: Final = ReadSelection()


@dataclass(frozen=True, slots=True)
class ImageAreas:
    """The byte spans of images in trail records, and the operations that they belong to.

    Image i belongs to operation ``rows[i]`` of ``count``; if ``rows`` is None, every operation has
    an image.
    """

    areas: Spans
    rows: Longs | None
    count: int


def read_image(
    source: TrailBytes, table: Table, images: ImageAreas, selection: ReadSelection = EVERYTHING
) -> Image:
    """Decode the before or the after image of a table's operations: columns with one element per operation.

    Columns that the selection excludes are missing. Without ``selection.values``, all of them are:
    the cells are then only checked.
    """
    absent = (ABSENT,) * len(table.columns)
    if not len(images.areas.starts):
        return absent
    # A check reads no values: usually one loop over all columns finds that all of them are right.
    checked = not selection.values and selection.columns is None
    if checked and have_widths(source, images.areas, cell_widths(table)):
        return absent
    cells = find_cells(source, table, images.areas)
    columns = zip(table.columns, select_codecs(table), cells, strict=True)
    return tuple(
        _column(
            codec,
            TrailCells(source, table.name, column, one.starts, one.lengths),
            one,
            images,
            selection,
        )
        if len(one) and selection.has_column(column)
        else ABSENT
        for column, codec, one in columns
    )


def _column(
    codec: TrailValueCodec | None,
    cells: TrailCells,
    spans: CellSpans,
    images: ImageAreas,
    selection: ReadSelection,
) -> StateColumn:
    if not selection.values and codec is not None:
        codec.check(cells)
        return ABSENT
    if not selection.lenient:
        return _in_states(_values(codec, cells), None, spans, images)
    values, problems = decode_leniently(partial(_values, codec), cells)
    return _in_states(values, problems, spans, images)


def _in_states(
    values: pa.Array, problems: pa.Array | None, spans: CellSpans, images: ImageAreas
) -> StateColumn:
    """Build a column of an image, with one row per operation, from the values of its trail cells.

    The value is missing in operations without a cell. ``problems`` are those of the values, or
    None.
    """
    if len(spans) == images.count:
        return StateColumn(values, None, problems)
    rows = _rows(spans, images)
    # Example: cells of the operations 0 and 2 of 3 take the values 0, null, 1.
    missing = np.ones(images.count, bool)
    missing[rows] = False
    slots = np.zeros(images.count, np.int64)
    slots[rows] = np.arange(len(rows))
    indexes = pa.array(slots, mask=missing)
    return StateColumn(
        values.take(indexes), missing, None if problems is None else problems.take(indexes)
    )


def _rows(spans: CellSpans, images: ImageAreas) -> Longs:
    """Return the indexes of the operations whose image has a cell of the column."""
    every = np.arange(images.count) if images.rows is None else images.rows
    return every if spans.areas is None else every[spans.areas]


def _values(codec: TrailValueCodec | None, cells: TrailCells) -> pa.Array:
    if codec is not None:
        return codec.decode(cells)
    # The layout of these values is not public, but their null indicator is readable.
    head = sliding_words(cells.source.data, "u2")[cells.starts]
    hint = "trailgate logdump shows the record's bytes"
    if not (head == NULL).all():
        error = cells.error(explain_unreadable(cells.column), int(np.argmax(head != NULL)))
        error.hint = hint
        raise error
    return pa.nulls(len(cells.starts), pa.string())


# Prefix.EITHER is assumed: the width with which both images are lists of columns that end exactly where they should; the
# short one if both widths fit.


def locate_images(
    source: TrailBytes, areas: Spans, kinds: Octets, name: str, columns: int
) -> tuple[Spans, Spans]:
    """Find the spans of the before and after images in the data areas of many records, from which they are decoded.

    If an area has only one image, its span is in both results. ``kinds`` are the ``ImagePrefix`` of
    each area's record. ``name`` is the table's name, and ``columns`` its number of columns.
    """
    widths, splits, bad = _split_images(source, areas, kinds, columns)
    if bad >= 0:
        span = (int(areas.starts[bad]), int(areas.ends[bad]))
        if kinds[bad] == ImagePrefix.EITHER:
            problem = "a unified update's images fit neither a u16 nor a u32 length"
            raise source.error(problem, span, table=name)
        raise source.error("a key update's before image runs over its data area", span)
    # Example: 00 02 | AA BB | CC DD EE at 10: the width of the length is 2, the before image is
    # [12, 14), and the after image [14, 17).
    starts = areas.starts + widths
    # A width of 0 means one image: before and after are then the complete area.
    afters = starts.copy()
    afters[widths > 0] = splits[widths > 0]
    return Spans(starts, splits), Spans(afters, areas.ends)


def _split_images(
    source: TrailBytes, areas: Spans, kinds: Octets, columns: int
) -> tuple[Longs, Longs, int]:
    """Split data areas that contain two images. Returns the width of each area's length field, and the end of its first image.

    The third result is the first area that cannot be split, or -1. ``kinds`` are the
    ``ImagePrefix`` of each area.
    """
    count = len(kinds)
    widths, splits = np.empty(count, np.int64), np.empty(count, np.int64)
    bad = cell_kernels.split_images(
        source.data, areas.starts, areas.ends, source.big, kinds, columns, widths, splits
    )
    return widths, splits, bad
