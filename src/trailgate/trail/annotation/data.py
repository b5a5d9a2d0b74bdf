"""Explain the data of a record: columns, images, large objects, metadata (trail format §10 to §12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final

from trailgate.errors import TrailgateError
from trailgate.model.tables import Column, Table
from trailgate.trail.annotation.elements import Area, Part, printable
from trailgate.trail.annotation.values import explain_value
from trailgate.trail.format.record_layout import FIELD_COMP
from trailgate.trail.format.record_types import (
    IO_DDL,
    IO_LARGE_OBJECT,
    IO_METADATA,
    RECORD_TYPES,
    Prefix,
    Role,
)
from trailgate.trail.records.metadata import TDR_HEAD, MetadataKind, read_table
from trailgate.trail.records.record import TrailRecord

PARTITION_AT: Final = 1  # in GHDR, as the next two
IO_TYPE_AT: Final = 6
NODE_AT: Final = 7
ANY_NODE: Final = -1
PIECE_WORDS: Final = (
    "Column {}",
    "Number of pieces = {}",
    "Record number {}",
    "Start offset {} bytes",
    "{} bytes",
)
WORD: Final = 4
COLUMN_HEAD: Final = 4
IMAGE_WIDTHS: Final[Mapping[Prefix, tuple[int, ...]]] = MappingProxyType(
    {Prefix.NONE: (), Prefix.SHORT: (2,), Prefix.LONG: (4,), Prefix.EITHER: (2, 4)}
)


def explain_data(area: Area, head: bytes) -> Iterator[Part]:
    """Yield the parts of D; ``head`` is the fixed part of GHDR."""
    io_type, node = head[IO_TYPE_AT], head[NODE_AT]
    row = RECORD_TYPES.get(io_type)
    special = _SPECIAL.get((io_type, node)) or _SPECIAL.get((io_type, ANY_NODE))
    if special is not None:
        yield from special(area)
    elif row is not None and row.role is Role.CHANGE and head[PARTITION_AT] & FIELD_COMP:
        yield from _images(area, row.prefix)
    elif row is not None and row.role is Role.CHANGE:
        yield from area.bytes("not in the form index, length, value")
    else:
        yield from area.bytes("layout not public")


def _images(area: Area, prefix: Prefix) -> Iterator[Part]:
    """Yield one list of columns, or the two of a record with both images."""
    widths = IMAGE_WIDTHS[prefix]
    if not widths:
        yield from _columns(area)
        return
    fitting = [width for width in widths if _fits(area, width)]
    width = (fitting or widths)[0]
    if len(area.raw) < width:
        yield from area.bytes(problem="the length of the before image is missing")
        return
    length = area.number(0, width)
    assumed = ", its width is assumed" if len(widths) > 1 else ""
    yield from area.part(0, width).bytes(f"Before image, Length {length}{assumed}")
    before, after = area.part(width, width + length), area.part(width + length)
    if len(before.raw) < length:
        yield from before.bytes(problem=f"the before image should have {length} bytes")
        return
    yield from _columns(before, level=1)
    yield from _columns(after)


def _fits(area: Area, width: int) -> bool:
    """Return whether both images are lists of columns that end exactly (trail format §10.4)."""
    length = area.number(0, width)
    if width + length > len(area.raw):
        return False
    halves = (area.part(width, width + length), area.part(width + length))
    return all(not getattr(part, "problem", "") for half in halves for part in _columns(half))


def _columns(area: Area, level: int = 0) -> Iterator[Part]:
    place = 0
    while place < len(area.raw):
        start = place + COLUMN_HEAD
        if start > len(area.raw):
            yield from area.part(place).bytes(problem="no column fits here", level=level)
            return
        index, length = area.number(place, 2), area.number(place + 2, 2)
        if start + length > len(area.raw):
            problem = f"column {index} of {length} bytes is longer than the data"
            yield from area.part(place).bytes(problem=problem, level=level)
            return
        yield from area.part(place, start).bytes(f"Column {index}, Length {length}", level=level)
        yield from explain_value(area.part(start, start + length), level + 1)
        place = start + length


def _piece(area: Area) -> Iterator[Part]:
    head = WORD * len(PIECE_WORDS)
    if len(area.raw) < head:
        yield from area.bytes(problem=f"a piece of a large object has at least {head} bytes")
        return
    for at, meaning in enumerate(PIECE_WORDS):
        word = area.part(WORD * at, WORD * (at + 1))
        yield from word.bytes(meaning.format(word.number(0, WORD)))
    stated, rest = area.number(head - WORD, WORD), area.part(head)
    wrong = stated != len(rest.raw)
    yield from rest.bytes(problem=f"{stated} bytes expected" if wrong else "")


def _text(area: Area) -> Iterator[Part]:
    for part in area.bytes():
        yield replace(part, label="Text", text=printable(part.raw))


def _table(area: Area) -> Iterator[Part]:
    """Yield a table definition column by column, if the assumed layout fits exactly."""
    record = TrailRecord(IO_METADATA, data=area.raw, order=area.order)
    try:
        table = read_table("", record)
    except TrailgateError:
        table = None
    parts = None if table is None else _table_parts(area, table)
    yield from area.bytes("layout not public") if parts is None else parts


# Assumed (trail format §12): as in ``trail.format.metadata``, whose columns these are.
ATTRIBUTE_BYTES: Final = 2
ATTRIBUTES: Final = tuple(field.name for field in fields(Column))[1:]


def _table_parts(area: Area, table: Table) -> list[Part] | None:
    parts: list[Part] = [*area.part(0, TDR_HEAD).bytes("Head of the definition, layout assumed")]
    place = TDR_HEAD
    for column in table.columns:
        name = column.name.encode()
        start = place + 2 + len(name)
        if area.raw[place + 2 : start] != name:
            return None
        parts += area.part(place, start).bytes(f"Column {column.name}")
        for at, attribute in enumerate(ATTRIBUTES):
            field = area.part(start + 2 * at, start + 2 * at + 2)
            parts += field.bytes(f"{attribute} {int(getattr(column, attribute))}", level=1)
        place = start + ATTRIBUTE_BYTES * len(ATTRIBUTES)
        end = place + 2 + area.number(place, 2)
        parts += area.part(place, end).bytes("remarks", level=1)
        place = end
    return parts if place == len(area.raw) else None


_Explain = Callable[[Area], Iterator[Part]]
# By IOType and OrigNode.
_SPECIAL: Final[Mapping[tuple[int, int], _Explain]] = MappingProxyType(
    {
        (IO_LARGE_OBJECT, ANY_NODE): _piece,
        (IO_DDL, ANY_NODE): _text,
        (IO_METADATA, int(MetadataKind.TABLE)): _table,
    }
)
