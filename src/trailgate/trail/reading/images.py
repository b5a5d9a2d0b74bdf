"""Decode the images of many records into one table's columns, in which each value is present, NULL or missing.

The data of key updates and unified updates contain both images. They begin with the length of the
before image (trail format §10.4): a u16 in type 115, a u32 in type 117, and in types 134 and 135 a
length of the width with which both images fit.

The data of NonStop records are not lists of columns (trail format §10.7). A full record image has
all values one after another. A compressed Enscribe image has an offset, a length and a value for
each changed field. Both are rewritten as lists of columns at the end of the batch's bytes, so that
one decoder can read all of them. The offsets follow from the widths of the table's columns, which
must all be fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.gather import sliding_words
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily
from trailgate.trail.format.record_types import LAYOUT_OF, DataLayout, ImagePrefix
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values import cell_kernels
from trailgate.trail.values.cells import CellSpans, find_cells, have_widths
from trailgate.trail.values.codec import (
    CELL_HEAD,
    INDICATOR_BYTES,
    NULL,
    TrailCells,
    TrailValueCodec,
)
from trailgate.trail.values.codecs import (
    cell_widths,
    decode_leniently,
    explain_unreadable,
    select_codecs,
)
from trailgate.trail.values.text import fixed_width

HINT: Final = "Such data can only be read if the definitions have all columns of the table, each of a fixed width"


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
    """Split the data areas of records into the spans of the before and after images.

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


def _type_width(column: Column) -> int:
    return column.type_row.width or 0


# Assumed (trail format §10.7): values are as wide as in lists of columns.
_WIDTHS: Final[Mapping[tuple[TypeFamily, bool], Callable[[Column], int]]] = MappingProxyType(
    {
        (TypeFamily.TEXT, True): fixed_width,
        (TypeFamily.NUMBER_TEXT, True): fixed_width,
        (TypeFamily.BYTES, True): fixed_width,
        (TypeFamily.INTEGER, False): _type_width,
        (TypeFamily.UNSIGNED, False): _type_width,
        (TypeFamily.FLOAT, False): _type_width,
        (TypeFamily.DATETIME, False): lambda column: column.external_length,
    }
)


class _Cell(NamedTuple):
    """A value of a NonStop record: the number of its column, its bytes, and their offset."""

    column: int
    value: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fixed-width columns of a table: the width of each, and its offset in a record."""

    widths: tuple[int, ...]

    @property
    def starts(self) -> list[int]:
        return list(accumulate(self.widths, initial=0))[:-1]

    @property
    def total(self) -> int:
        return sum(self.widths)


def rewrite_as_column_lists(
    source: TrailBytes, name: str, table: Table | None, areas: Spans, io_types: Octets, rows: Longs
) -> tuple[TrailBytes, Spans]:
    """Rewrite the data areas of some NonStop records of a table as lists of columns.

    ``rows`` are the indexes of their areas in ``areas``. Returns the bytes, extended by the lists,
    and all areas: the rewritten ones are the lists.

    Raises DecodeError if the table's columns do not fit the data.
    """
    fields = _fields_of(table)
    cells: list[_Cell] = []
    sizes = np.zeros(len(rows), np.int64)
    for at, row in enumerate(rows.tolist()):
        span = (int(areas.starts[row]), int(areas.ends[row]))
        if fields is None:
            problem = "the data are not a list of columns, and the widths of the table's columns are not known"
            raise source.error(problem, span, table=name, hint=HINT)
        read = (
            _rewrite_full_image
            if LAYOUT_OF[io_types[row]] == DataLayout.WHOLE
            else _rewrite_by_offset
        )
        found = read(source, name, fields, span)
        sizes[at] = sum(CELL_HEAD + INDICATOR_BYTES + len(cell.value) for cell in found)
        cells += found
    ends_of_lists = len(source.data) + np.cumsum(sizes)
    source = _append_cells(source, cells)
    starts, ends = areas.starts.copy(), areas.ends.copy()
    starts[rows], ends[rows] = ends_of_lists - sizes, ends_of_lists
    return source, replace(areas, starts=starts, ends=ends)


def _append_cells(source: TrailBytes, cells: list[_Cell]) -> TrailBytes:
    """Append values to the bytes, each after its column, its length and a null indicator of zeros.

    An error about any of these has the offset of the value in the record.
    """
    number, no_null = source.order.raw, bytes(INDICATOR_BYTES)
    heads = [number(one.column, 2) + number(len(one.value) + INDICATOR_BYTES, 2) for one in cells]
    raw = b"".join(head + no_null + one.value for head, one in zip(heads, cells, strict=True))
    runs = [(CELL_HEAD, INDICATOR_BYTES, len(one.value)) for one in cells]
    origins = np.repeat(np.array([one.offset for one in cells], np.int64), 3)
    return source.append(raw, np.array(runs, np.int64).ravel(), origins)


def _fields_of(table: Table | None) -> _Fields | None:
    """Return the widths of a table's columns, or None if the table is unknown or a width is not fixed."""
    widths = []
    for column in () if table is None else table.columns:
        width = _WIDTHS.get((column.family, column.type_row.fixed))
        if width is None or column.zoned:
            return None
        widths.append(width(column))
    return _Fields(tuple(widths)) if widths else None


def _rewrite_full_image(
    source: TrailBytes, name: str, fields: _Fields, span: tuple[int, int]
) -> list[_Cell]:
    """Return the values of the full image of one NonStop record: all values, one after another."""
    start, end = span
    if end - start != fields.total:
        problem = f"a full record image has {end - start} bytes, the table's columns {fields.total}"
        raise source.error(problem, span, table=name, hint=HINT)
    # Example: columns of 4 and 2 bytes: the image 31 32 33 34 41 42 becomes the cells 0 (31 32 33 34)
    # and 1 (41 42).
    raw = source.data[start:end].tobytes()
    return [
        _Cell(index, raw[at : at + width], start + at)
        for index, (at, width) in enumerate(zip(fields.starts, fields.widths, strict=True))
    ]


def _rewrite_by_offset(
    source: TrailBytes, name: str, fields: _Fields, span: tuple[int, int]
) -> list[_Cell]:
    """Return the values of the compressed Enscribe image of one record: offset, length and value of each."""
    # Example: with columns of 4, 2 and 2 bytes, 00 04 00 02 41 42 is the value "AB" of column 1,
    # whose offset is 4.
    offset, end = span
    number = source.order.number
    known = {start: index for index, start in enumerate(fields.starts)}
    cells = []
    while offset < end:
        head = source.data[offset : offset + CELL_HEAD].tobytes()
        stop = offset + CELL_HEAD + number(head[2:])
        index = known.get(number(head[:2]))
        if len(head) < CELL_HEAD or stop > end:
            raise source.error("a field runs over its data area", (offset, end), table=name)
        if index is None or fields.widths[index] != stop - offset - CELL_HEAD:
            problem = f"no column begins at offset {number(head[:2])} with {number(head[2:])} bytes"
            raise source.error(problem, (offset, stop), table=name, hint=HINT)
        value = offset + CELL_HEAD
        cells.append(_Cell(index, source.data[value:stop].tobytes(), value))
        offset = stop
    return cells


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
