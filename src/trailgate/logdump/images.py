"""A record's data as images and columns, where its type and its partition byte say that it is so.

The groups and fields of the file header as bytes, to be shown and copied (trail format §4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from trailgate.columnar.rows import octets
from trailgate.trail.format.record_layout import BEFORE_IMAGE, COLUMN_HEAD, FIELD_COMP, PIECE_HEAD
from trailgate.trail.format.record_types import IMAGE_WIDTHS, IO_LARGE_OBJECT, RECORD_TYPES, Role
from trailgate.trail.format.tokens import FRAME, NORMAL, ByteOrder
from trailgate.trail.records.record import Token, TrailRecord, tokens_between


@dataclass(frozen=True, slots=True)
class ColumnBytes:
    """One column as it is in the data: its index and its bytes, null indicator first."""

    index: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class RecordImage:
    """The columns of one image; ``length`` counts its bytes, with the length before it."""

    before: bool
    columns: tuple[ColumnBytes, ...]
    length: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a large object (trail format §11)."""

    column: int
    pieces: int
    number: int
    start: int
    raw: bytes


def images_of(record: TrailRecord) -> tuple[RecordImage, ...]:
    """Return the images that the data hold; none where they are not lists of columns."""
    row = RECORD_TYPES.get(record.io_type)
    data = (record.data or b"")[record.syskey_length :]
    if row is None or row.role is not Role.CHANGE or not record.partition & FIELD_COMP:
        return ()
    widths = IMAGE_WIDTHS[row.prefix]
    if not widths:
        return _one(data, record.order, before=record.image == BEFORE_IMAGE)
    for width in widths:
        found = _both(data, width, record.order)
        if found:
            return found
    return ()


def piece_of(record: TrailRecord) -> Piece | None:
    """Return the piece of a large object that a record is."""
    data = record.data or b""
    if record.io_type != IO_LARGE_OBJECT or len(data) < PIECE_HEAD:
        return None
    column, pieces, number, start, _ = (
        record.order.number(data[at : at + 4]) for at in range(0, PIECE_HEAD, 4)
    )
    return Piece(column, pieces, number, start, data[PIECE_HEAD:])


def read_columns(data: bytes, order: ByteOrder) -> tuple[ColumnBytes, ...] | None:
    """Return the columns that fill the data; None where they do not."""
    found = []
    place = 0
    while place < len(data):
        start = place + COLUMN_HEAD
        end = start + order.number(data[place + 2 : start])
        if start > len(data) or end > len(data):
            return None
        found.append(ColumnBytes(order.number(data[place : place + 2]), data[start:end]))
        place = end
    return tuple(found)


def _one(data: bytes, order: ByteOrder, *, before: bool) -> tuple[RecordImage, ...]:
    columns = read_columns(data, order)
    return () if columns is None else (RecordImage(before, columns, len(data)),)


def _both(data: bytes, width: int, order: ByteOrder) -> tuple[RecordImage, ...]:
    middle = width + order.number(data[:width])
    if len(data) < width or middle > len(data):
        return ()
    befores = read_columns(data[width:middle], order)
    afters = read_columns(data[middle:], order)
    if befores is None or afters is None:
        return ()
    return RecordImage(True, befores, middle), RecordImage(False, afters, len(data) - middle)


TRAIL_INFO: Final = 0x30  # a group (trail format §4.1)
FILE_SIZE: Final = 0x39  # a field of it


class HeaderGroup(NamedTuple):
    """A group: its own token, its fields, and where the payload of each field starts."""

    token: Token
    fields: tuple[Token, ...]
    starts: tuple[int, ...]


def header_order(raw: bytes) -> ByteOrder:
    """Return the byte order in which the header states its own length."""
    fits = (order for order in ByteOrder if order.number(raw[2:FRAME]) == len(raw))
    return next(fits, ByteOrder.BIG)


def header_groups(raw: bytes, order: ByteOrder) -> Iterator[HeaderGroup]:
    """Yield the header's groups; raises DecodeError."""
    data = octets(raw)
    for group, start in tokens_between(data, (FRAME, len(raw) - FRAME), order):
        fields = tokens_between(data, (start, start + len(group.payload)), order)
        yield HeaderGroup(group, tuple(field for field, _ in fields), tuple(at for _, at in fields))


def with_size(raw: bytes, size: int) -> bytes:
    """Return the header with another file size, or as it is if it states none."""
    order = header_order(raw)
    for group in header_groups(raw, order):
        for field, at in zip(group.fields, group.starts, strict=True):
            if (
                group.token.code == TRAIL_INFO
                and field.code == FILE_SIZE
                and len(field.payload) == 8
            ):
                frame = raw[at - FRAME : at - FRAME + 1] + bytes((NORMAL,)) + raw[at - 2 : at]
                return raw[: at - FRAME] + frame + order.raw(size, 8) + raw[at + 8 :]
    return raw
