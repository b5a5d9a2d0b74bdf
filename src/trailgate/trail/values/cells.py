"""Where the values of a table's columns lie in the data areas of many records, and whether cells fill these.

A data area is a run of cells: column index u16, length u16, value (trail format §10.1). A column that is not in it is
missing, which is different from NULL.

Tables that nothing defines have columns named #0, #1, ... and values as their bytes look (trail format §10.2, "Without a TDR"): a guess, value by value, so that how
the input is cut changes nothing. What is text is given as text, what is not, or may be a number as well, as 0x and upper-case hexadecimal digits; a text that itself
begins with 0x is given so too, so that what begins with 0x is always digits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import gather
from trailgate.columnar.rows import words
from trailgate.errors import DecodeError
from trailgate.model.tables import Column, Table
from trailgate.model.types import NUMBERED
from trailgate.trail.records.framing import Spans, TrailBytes
from trailgate.trail.values import read_kernels
from trailgate.trail.values.codec import (
    CELL_HEAD,
    INDICATOR_BYTES,
    NULL,
    VARIABLE_HEAD,
    Cells,
    CellWriter,
    RecordValues,
    TargetColumn,
)

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
    return _sort(source, areas, _count(source, table, areas))


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


def _sort(source: TrailBytes, areas: Spans, counts: Longs) -> list[CellPlaces]:
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
        return error.with_place(field=field)
    span = (place, place + CELL_HEAD)
    return source.error("a column appears twice", span, table=table.name).with_place(field=field)


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


MAX_COLUMNS: Final = (
    4096  # no table of a common database has more; a greater index is a damaged one
)
NOT_DEFINED: Final = "nothing defines the table: its columns are numbered"
_DATETIME: Final = re.compile(rb"\d{4}-\d\d-\d\d(:\d\d:\d\d:\d\d(\.\d{1,9})?)?", re.ASCII)
_BETWEEN: Final = 10  # offset of what separates date and time
_INTEGER_SIZES: Final = (4, 8)
_NUMBER_SIZES: Final = (2, 4, 8)  # of integers and floats
_HEX: Final = "0x"


def _text_bytes() -> Mask:
    table = np.zeros(256, bool)
    table[0x20:0x7F] = True
    table[[0x09, 0x0A, 0x0D]] = True
    table.setflags(write=False)
    return table


_TEXT_BYTE: Final = _text_bytes()
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def numbered_table(name: str, columns: int) -> Table:
    """Return a table of so many columns, marked as a guess."""
    found = tuple(Column(f"#{i}", NUMBERED.code, 0) for i in range(columns))
    return Table(name, found, guessed=True)


def columns_used(source: TrailBytes, areas: Spans) -> int:
    """Return one more than the greatest column index in these data areas.

    An area that cells do not fill counts as far as it holds cells: whoever reads it reports what is wrong.
    """
    return int(
        read_kernels.count_columns(source.data, areas.starts, areas.ends, source.big, MAX_COLUMNS)
    )


def decode_numbered(cells: Cells) -> pa.Array:
    """Return what the values of a column look like; NULL is FF FF, whatever follows."""
    nulls = check_numbered(cells)
    frames = cells.source.order.words(cells.source.data, "u4")[cells.starts]
    counted = frames == cells.source.order.pair(0, cells.lengths - VARIABLE_HEAD)
    ends = cells.starts + cells.lengths
    skipped = np.where(counted, VARIABLE_HEAD, INDICATOR_BYTES)
    raw = gather(cells.source.buffer, cells.starts + skipped, ends, nulls=nulls)
    if counted[~nulls].all():
        return _shown(raw, cells.source.charset, counted=True)
    slots = pa.array(np.asarray(counted, bool))
    strings = [_shown(raw, cells.source.charset, counted=kind) for kind in (True, False)]
    return pc.if_else(slots, *strings)


def check_numbered(cells: Cells) -> Mask:
    """Return which values are NULL; raises for one without an indicator."""
    head = words(cells.source.data, "u2")[cells.starts]
    nulls = np.asarray(head == NULL, bool)
    cells.require(nulls | (head == 0), "a null indicator must be 00 00 or ff ff")
    return nulls


def decode_large_numbered(cells: Cells) -> pa.Array:
    """Return what large objects look like."""
    raw = gather(cells.source.buffer, cells.starts, cells.starts + cells.lengths)
    return _shown(raw, cells.source.charset, counted=True)


def encode_numbered(target: TargetColumn, _: RecordValues) -> CellWriter:
    """Refuse: what only looks like a value is not written back."""
    raise target.error(f"{NOT_DEFINED}, and cannot be written")


def _shown(values: pa.Array, charset: str, *, counted: bool) -> pa.Array:
    if counted and charset == "utf-8" and _plain(values):
        return values.view(pa.string())
    distinct = values.dictionary_encode()
    show = _counted_text if counted else _bare
    strings = [show(raw, charset) for raw in distinct.dictionary.to_pylist()]
    return pa.array(strings, pa.string()).take(distinct.indices)


def _plain(values: pa.Array) -> bool:
    """Return whether all values are printable ASCII that does not begin with 0x."""
    if not len(values):
        return True
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int32)[[values.offset, values.offset + len(values)]]
    content = np.frombuffer(data or b"", np.uint8)[ends[0] : ends[1]]
    if not _TEXT_BYTE[content].all():
        return False
    return not pc.any(pc.starts_with(values.view(pa.string()), _HEX)).as_py()


def _counted_text(raw: bytes, charset: str) -> str:
    """Return bytes after a length: text if they can be, else hex."""
    text = _text(raw, charset)
    return _digits(raw) if text is None else text


def _bare(raw: bytes, charset: str) -> str:
    """Return bytes without a length: a date time, a padded text, a binary integer, else hex.

    Bytes that are a text and may be a number are given in hex, which is right for both.
    """
    if _DATETIME.fullmatch(raw):
        text = raw.decode()
        return text[:_BETWEEN] + text[_BETWEEN:].replace(":", " ", 1)
    padded = _text(raw, charset)
    if padded is not None:
        return _digits(raw) if len(raw) in _NUMBER_SIZES else padded.rstrip(" ")
    if len(raw) in _INTEGER_SIZES and not raw.startswith(_HEX.encode()):
        # Binary values are big-endian in either order of a trail (trail format §3).
        return str(int.from_bytes(raw, "big", signed=True))
    return _digits(raw)


def _text(raw: bytes, charset: str) -> str | None:
    try:
        text = raw.decode(charset)
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) or text.startswith(_HEX) else text


def _digits(raw: bytes) -> str:
    return _HEX + raw.hex().upper()
