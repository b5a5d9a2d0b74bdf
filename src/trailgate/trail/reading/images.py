"""Images of many records: the columns of a table in their three states.

The data of key updates and unified updates hold both images. They begin with the length of the before image (trail format §10.4): a u16 in type 115, a u32
in type 117, and in 134 and 135 whichever of the two makes both images fit.

Data of NonStop records are not lists of columns (trail format §10.7): a full record image holds all values one after another, a compressed Enscribe image an offset,
a length and a value for each changed field. They are made lists of columns, after the bytes of their batch. Offsets are those of the table's columns, each of which must
have one width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets
from trailgate.columnar.rows import words
from trailgate.model.changes import ABSENT, Image, StateColumn
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family
from trailgate.trail.format.record_types import LAYOUT_OF, Layout, Prefix
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values.cells import CellPlaces, find_cells, split_images
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES, NULL, Cells, ValueCodec
from trailgate.trail.values.codecs import codecs_of, unreadable
from trailgate.trail.values.lenient import decode_leniently
from trailgate.trail.values.text import fixed_width


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tables, and which columns of them in lower case; None: all.

    Cells of other columns are found and checked, but their values are not decoded. So are ``tokens``, the ``ids`` of
    transactions and ``positions``, each of which may be left out; the latter two are null then. Without ``values`` their indicators and lengths are checked, and no value is decoded.
    Without ``undone`` operations that are the backout of another one are left out.
    With ``lenient`` a value that cannot be decoded is null, and its column has its problem; otherwise it raises.
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
        """Return whether a table's operations are decoded."""
        return self.tables is None or self.tables.fits(name)

    def has_column(self, column: Column) -> bool:
        """Return whether a column's values are decoded."""
        return self.columns is None or column.name.casefold() in self.columns


EVERYTHING: Final = Wanted()


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
    if not wanted.lenient:
        return _in_states(_values(codec, cells), None, found, images)
    values, problems = decode_leniently(partial(_values, codec), cells)
    return _in_states(values, problems, found, images)


def _in_states(
    values: pa.Array, problems: pa.Array | None, found: CellPlaces, images: ImageAreas
) -> StateColumn:
    if len(found) == images.count:
        return StateColumn(values, None, problems)
    rows = _rows(found, images)
    missing = np.ones(images.count, bool)
    missing[rows] = False
    slots = np.zeros(images.count, np.int64)
    slots[rows] = np.arange(len(rows))
    taken = pa.array(slots, mask=missing)
    return StateColumn(
        values.take(taken), missing, None if problems is None else problems.take(taken)
    )


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


# Prefix.EITHER is assumed: the one of both widths for which both images are lists of columns that end exactly at their
# borders; the short one where both do.


def both_images(
    source: TrailBytes, areas: Spans, kinds: Octets, name: str, columns: int
) -> tuple[Spans, Spans]:
    """Return where before and after images lie in these areas; both the whole area where it holds one image.

    ``kinds`` are the ``Prefix`` of each area's record; ``name`` and ``columns`` are the table's.
    """
    widths, borders, bad = split_images(source, areas, kinds, columns)
    if bad >= 0:
        span = (int(areas.starts[bad]), int(areas.ends[bad]))
        if kinds[bad] == Prefix.EITHER:
            problem = "a unified update's images fit neither a u16 nor a u32 length"
            raise source.error(problem, span, table=name)
        raise source.error("a key update's before image runs over its data area", span)
    starts = areas.starts + widths
    afters = starts.copy()
    afters[widths > 0] = borders[widths > 0]
    return Spans(starts, borders), Spans(afters, areas.ends)


HINT: Final = (
    "Such data are read where the definitions give all columns of the table, each of a fixed width"
)


def _type_width(column: Column) -> int:
    return column.type_row.width or 0


# Assumed (trail format §10.7): values have the widths that they have in lists of columns.
_WIDTHS: Final[Mapping[tuple[Family, bool], Callable[[Column], int]]] = MappingProxyType(
    {
        (Family.TEXT, True): fixed_width,
        (Family.NUMBER_TEXT, True): fixed_width,
        (Family.BYTES, True): fixed_width,
        (Family.INTEGER, False): _type_width,
        (Family.UNSIGNED, False): _type_width,
        (Family.FLOAT, False): _type_width,
        (Family.DATETIME, False): lambda column: column.external_length,
    }
)


@dataclass(frozen=True, slots=True)
class _Fields:
    """The columns of a table in its records: the width of each, and where it begins."""

    widths: tuple[int, ...]

    @property
    def starts(self) -> list[int]:
        return list(accumulate(self.widths, initial=0))[:-1]

    @property
    def total(self) -> int:
        return sum(self.widths)


def list_names(
    source: TrailBytes, name: str, table: Table | None, areas: Spans, io_types: Octets, rows: Longs
) -> tuple[TrailBytes, Spans]:
    """Return areas of which those of some rows are lists of columns, in bytes that hold these at their end.

    Raises DecodeError where the table's columns do not fit the data.
    """
    fields = _fields_of(table)
    parts = []
    for row in rows.tolist():
        span = (int(areas.starts[row]), int(areas.ends[row]))
        if fields is None:
            problem = "the data are not a list of columns, and the widths of the table's columns are not known"
            raise source.error(problem, span, table=name, hint=HINT)
        read = _whole if LAYOUT_OF[io_types[row]] == Layout.WHOLE else _by_offset
        parts.append(read(source, name, fields, span))
    sizes = np.array([len(part) for part in parts], np.int64)
    source, places = source.append(b"".join(parts), sizes, areas.starts[rows])
    starts, ends = areas.starts.copy(), areas.ends.copy()
    starts[rows], ends[rows] = places, places + sizes
    return source, replace(areas, starts=starts, ends=ends)


def _fields_of(table: Table | None) -> _Fields | None:
    """Return where the columns of a table are; None where one has no fixed width, or none is known."""
    widths = []
    for column in () if table is None else table.columns:
        width = _WIDTHS.get((column.family, column.type_row.fixed))
        if width is None or column.zoned:
            return None
        widths.append(width(column))
    return _Fields(tuple(widths)) if widths else None


def _whole(source: TrailBytes, name: str, fields: _Fields, span: tuple[int, int]) -> bytes:
    """Return the list of columns of a full record image."""
    start, end = span
    if end - start != fields.total:
        problem = f"a full record image has {end - start} bytes, the table's columns {fields.total}"
        raise source.error(problem, span, table=name, hint=HINT)
    raw = source.data[start:end].tobytes()
    return b"".join(
        _cell(source, index, raw[at : at + width])
        for index, (at, width) in enumerate(zip(fields.starts, fields.widths, strict=True))
    )


def _by_offset(source: TrailBytes, name: str, fields: _Fields, span: tuple[int, int]) -> bytes:
    """Return the list of columns of a compressed Enscribe image."""
    place, end = span
    number = source.order.number
    known = {place: index for index, place in enumerate(fields.starts)}
    cells = []
    while place < end:
        head = source.data[place : place + CELL_HEAD].tobytes()
        stop = place + CELL_HEAD + number(head[2:])
        index = known.get(number(head[:2]))
        if len(head) < CELL_HEAD or stop > end:
            raise source.error("a field runs over its data area", (place, end), table=name)
        if index is None or fields.widths[index] != stop - place - CELL_HEAD:
            problem = f"no column begins at offset {number(head[:2])} with {number(head[2:])} bytes"
            raise source.error(problem, (place, stop), table=name, hint=HINT)
        cells.append(_cell(source, index, source.data[place + CELL_HEAD : stop].tobytes()))
        place = stop
    return b"".join(cells)


def _cell(source: TrailBytes, index: int, value: bytes) -> bytes:
    raw = source.order.raw
    return raw(index, 2) + raw(len(value) + INDICATOR_BYTES, 2) + bytes(INDICATOR_BYTES) + value
