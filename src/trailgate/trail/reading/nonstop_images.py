"""Rewrite the images of NonStop records as lists of columns, so that one decoder can read all images.

The data of NonStop records are not lists of columns (trail format §10.7). A full record image has
all values one after another. A compressed Enscribe image has an offset, a length and a value for
each changed field. Both are rewritten as lists of columns at the end of the batch's bytes. The
offsets follow from the widths of the table's columns, which must all be fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.model.tables import Column, Table
from trailgate.model.types import TypeFamily
from trailgate.trail.format.record_types import LAYOUT_OF, DataLayout
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES
from trailgate.trail.values.text import fixed_width

HINT: Final = "Such data can only be read if the definitions have all columns of the table, each of a fixed width"


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
    """Rewrite the data areas of some NonStop records of a table as lists of columns, the form of all other images.

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
