"""Data of NonStop records that are not lists of columns, as lists of columns after the bytes of their chunk.

trail format §10.7: a full record image holds all values one after another, a compressed Enscribe image an offset, a length
and a value for each changed field. Offsets are those of the table's columns, each of which must have one width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets
from trailgate.model.tables import Column, Table
from trailgate.model.types import Family
from trailgate.trail.format.record_types import LAYOUT_OF, Layout
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.values.codec import CELL_HEAD, INDICATOR_BYTES
from trailgate.trail.values.text import fixed_width

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


def listed(
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
    source, places = source.appended(b"".join(parts), sizes, areas.starts[rows])
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
