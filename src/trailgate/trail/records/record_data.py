"""What a record's data hold: images with their columns, or a piece of a large object (trail format §10 and §11).

A record is read so where its type and its partition byte say that its data are laid out like this. ``trailgate analyze``, Logdump's
output and its filters print from these values; readers of operations find the same places for many records at once (``trail.reading``).
Damaged data give the columns before the damage, the rest of the bytes, and what is wrong with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from trailgate.trail.format.record_layout import BEFORE_IMAGE, COLUMN_HEAD, FIELD_COMP, PIECE_HEAD
from trailgate.trail.format.record_types import (
    IMAGE_WIDTHS,
    IO_LARGE_OBJECT,
    RECORD_TYPES,
    Prefix,
    Role,
)
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.record import TrailRecord


@dataclass(frozen=True, slots=True)
class ColumnBytes:
    """One column as it is in the data: its index, where its head begins, and its bytes, null indicator first."""

    index: int
    start: int
    raw: bytes


class RecordImage(NamedTuple):
    """The columns of one image, whose length is stated in ``width`` bytes before it (0: nowhere).

    ``length`` counts its bytes with those of the stated length; ``rest`` are the bytes that are not columns, and ``problem``
    is what is wrong with them.
    """

    before: bool
    columns: tuple[ColumnBytes, ...]
    start: int
    length: int
    width: int = 0
    stated: int = 0
    rest: bytes = b""
    problem: str = ""


class Piece(NamedTuple):
    """A piece of a large object; ``stated`` is the length that it states, of ``raw``."""

    column: int
    pieces: int
    number: int
    start: int
    stated: int
    raw: bytes


def has_columns(io_type: int, partition: int) -> bool:
    """Return whether a record's type and its partition byte say that its data are columns."""
    row = RECORD_TYPES.get(io_type)
    return row is not None and row.role is Role.CHANGE and bool(partition & FIELD_COMP)


def images_of(record: TrailRecord) -> tuple[RecordImage, ...]:
    """Return the images that the data after a system key hold; none where they are not lists of columns."""
    if not has_columns(record.io_type, record.partition):
        return ()
    data = (record.data or b"")[record.syskey_length :]
    prefix = RECORD_TYPES[record.io_type].prefix
    images = read_images(data, record.order, prefix, before=record.image == BEFORE_IMAGE)
    return () if any(image.problem for image in images) else images


def read_images(
    data: bytes, order: ByteOrder, prefix: Prefix, *, before: bool = False
) -> tuple[RecordImage, ...]:
    """Return the one image of the data, or both where a prefix states the length of the first.

    The prefix has the first of its widths with which both images end exactly (trail format §10.4).
    """
    widths = IMAGE_WIDTHS[prefix]
    if not widths:
        return (_image(data, order, before=before),)
    found = [_both(data, width, order) for width in widths]
    return next((both for both in found if not any(one.problem for one in both)), found[0])


def _both(data: bytes, width: int, order: ByteOrder) -> tuple[RecordImage, ...]:
    if len(data) < width:
        problem = "the length of the before image is missing"
        return (RecordImage(True, (), 0, len(data), rest=data, problem=problem),)
    stated = order.number(data[:width])
    middle = width + stated
    if middle > len(data):
        problem = f"the before image should have {stated} bytes"
        return (RecordImage(True, (), 0, len(data), width, stated, data[width:], problem),)
    first = _image(data[:middle], order, before=True, width=width)
    return first._replace(stated=stated), _image(data, order, before=False, start=middle)


def _image(
    data: bytes, order: ByteOrder, *, before: bool, start: int = 0, width: int = 0
) -> RecordImage:
    columns = []
    place, problem = start + width, ""
    while place < len(data):
        value = place + COLUMN_HEAD
        if value > len(data):
            problem = "no column fits here"
            break
        index, length = order.number(data[place : place + 2]), order.number(data[place + 2 : value])
        if value + length > len(data):
            problem = f"column {index} of {length} bytes is longer than the data"
            break
        columns.append(ColumnBytes(index, place, data[value : value + length]))
        place = value + length
    return RecordImage(
        before,
        tuple(columns),
        start,
        len(data) - start,
        width,
        rest=data[place:],
        problem=problem,
    )


def piece_of(record: TrailRecord) -> Piece | None:
    """Return the piece of a large object that a record is."""
    return None if record.io_type != IO_LARGE_OBJECT else read_piece(record.data, record.order)


def read_piece(data: bytes | None, order: ByteOrder) -> Piece | None:
    """Return the piece of a large object that the data are; None where they are too short."""
    if data is None or len(data) < PIECE_HEAD:
        return None
    column, pieces, number, start, stated = (
        order.number(data[at : at + 4]) for at in range(0, PIECE_HEAD, 4)
    )
    return Piece(column, pieces, number, start, stated, data[PIECE_HEAD:])
