"""Split a record's data into its images and columns, a piece of a large object, or the fields of a DDL record (trail format §10 and §11).

An image is a list of columns: index u16, length u16, value. An update of the key has two images,
and begins with the length of the first image. `trailgate analyze` and Logdump's output and filters
use these values. Readers of operations find the same spans for many records at once
(``trail.reading``).

The data of a DDL record (160) are fields with codes as names: ``C5='7',B4='ORDERS',C1='create table
...'`` (trail format §10.6). Assumed: a backslash escapes ' , = ( ) and itself. The documentation
states that these characters are escaped, but not how.

Damaged columns do not raise an error: the result has the columns before the damage, the remaining
bytes, and a description of the problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import DecodeError, Where
from trailgate.trail.format.record_header import BEFORE_IMAGE, COLUMN_HEAD, FIELD_COMP, PIECE_HEAD
from trailgate.trail.format.record_types import (
    IMAGE_WIDTHS,
    IO_LARGE_OBJECT,
    RECORD_TYPES,
    ImagePrefix,
    RecordRole,
)
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.record import TrailRecord

# Codes and names: first those of a printed record, in its order, then the codes that it lacks.
FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "C5": "marker_sequence",
        "B7": "ddl_sequence",
        "B2": "object_id",
        "C21": "C21",
        "B3": "owner",
        "B4": "name",
        "C12": "master_owner",
        "C13": "master_name",
        "B5": "object_type",
        "B6": "ddl_type",
        "B8": "history_table",
        "B9": "login_user",
        "C7": "version",
        "C8": "compatibility",
        "C9": "valid",
        "C10": "instance_number",
        "C11": "instance_name",
        "C14": "object_table",
        "C15": "ignored",
        "C17": "nls_parameter",
        "C18": "nls_value",
        "C19": "nls_count",
        "C20": "xml_type_table",
        "G1": "history_statement",
        "C1": "statement",
    }
)
# ,B3='HR' in a DDL record: the code and the quote that begins the value
_BEGIN: Final = re.compile(r"[\s,]*([A-Z][0-9]{1,2})='")
# A quote ends a value only if another field or the end follows: statements contain quotes too.
_END: Final = re.compile(r"'(?=[\s,]*\x00*\Z|\s*,[\s,]*[A-Z][0-9]{1,2}=')")
# \' in a value is ', \= is =
_ESCAPED: Final = re.compile(r"\\([\\',=()])")


@dataclass(frozen=True, slots=True)
class ColumnBytes:
    """The bytes of one column in an image: its index, the offset of its header, and its value, which begins with the null indicator."""

    index: int
    start: int
    raw: bytes


class RecordImage(NamedTuple):
    """The columns of one image in a record's data, and the image's offset there (``start``).

    ``width`` is the width of the length field before the image (0 if it has none) and
    ``stated`` the value of that field. ``length`` is the size of the image with its length
    field. If some bytes are not columns, they are in ``rest``, and ``problem`` states why.
    """

    before: bool
    columns: tuple[ColumnBytes, ...]
    start: int
    length: int
    width: int = 0
    stated: int = 0
    rest: bytes = b""
    problem: str = ""


class LargeObjectPiece(NamedTuple):
    """One piece of a large object, parsed from the data of a piece record.

    It is piece ``number`` of ``pieces`` of a value of the column with index ``column``, and begins
    at offset ``start`` of the value. ``stated`` is the length field, which should be the size of
    ``raw``.
    """

    column: int
    pieces: int
    number: int
    start: int
    stated: int
    raw: bytes


def has_columns(io_type: int, partition: int) -> bool:
    """Return whether a record's data can be split into columns, by its type and partition byte."""
    row = RECORD_TYPES.get(io_type)
    return row is not None and row.role is RecordRole.CHANGE and bool(partition & FIELD_COMP)


def read_record_images(record: TrailRecord) -> tuple[RecordImage, ...]:
    """Return a record's images, without its system key, or () if its data are not lists of columns."""
    if not has_columns(record.io_type, record.partition):
        return ()
    data = (record.data or b"")[record.syskey_length :]
    prefix = RECORD_TYPES[record.io_type].prefix
    images = read_images(data, record.order, prefix, before=record.image == BEFORE_IMAGE)
    return () if any(image.problem for image in images) else images


def read_images(
    data: bytes, order: ByteOrder, prefix: ImagePrefix, *, before: bool = False
) -> tuple[RecordImage, ...]:
    """Split the data of one record into one image, or into two if a prefix states the length of the first image.

    If the width of the prefix is unknown, the first width with which both images end exactly is
    used (trail format §10.4).
    """
    widths = IMAGE_WIDTHS[prefix]
    if not widths:
        return (_image(data, order, before=before),)
    candidates = [_both(data, width, order) for width in widths]
    return next(
        (both for both in candidates if not any(one.problem for one in both)), candidates[0]
    )


def _both(data: bytes, width: int, order: ByteOrder) -> tuple[RecordImage, ...]:
    if len(data) < width:
        problem = "the length of the before image is missing"
        return (RecordImage(True, (), 0, len(data), rest=data, problem=problem),)
    stated = order.number(data[:width])
    middle = width + stated
    if middle > len(data):
        problem = f"the before image should have {stated} bytes"
        return (
            RecordImage(
                before=True,
                columns=(),
                start=0,
                length=len(data),
                width=width,
                stated=stated,
                rest=data[width:],
                problem=problem,
            ),
        )
    first = _image(data[:middle], order, before=True, width=width)
    return first._replace(stated=stated), _image(data, order, before=False, start=middle)


def _image(
    data: bytes, order: ByteOrder, *, before: bool, start: int = 0, width: int = 0
) -> RecordImage:
    columns = []
    offset, problem = start + width, ""
    while offset < len(data):
        # A column is its index (2 bytes), its length (2 bytes) and its bytes. In big-endian order
        # 00 01 00 03 00 C8 41 is the column 1 with three bytes.
        value = offset + COLUMN_HEAD
        if value > len(data):
            problem = "no column fits here"
            break
        index, length = (
            order.number(data[offset : offset + 2]),
            order.number(data[offset + 2 : value]),
        )
        if value + length > len(data):
            problem = f"column {index} of {length} bytes is longer than the data"
            break
        columns.append(ColumnBytes(index, offset, data[value : value + length]))
        offset = value + length
    return RecordImage(
        before,
        tuple(columns),
        start,
        len(data) - start,
        width,
        rest=data[offset:],
        problem=problem,
    )


def read_record_piece(record: TrailRecord) -> LargeObjectPiece | None:
    """Split the data of a `TrailRecord` as a `LargeObjectPiece`, or return None if the record is not such a piece."""
    return None if record.io_type != IO_LARGE_OBJECT else read_piece(record.data, record.order)


def read_piece(data: bytes | None, order: ByteOrder) -> LargeObjectPiece | None:
    """Split the data of a record that is a `LargeObjectPiece` into its five numbers and its bytes, or return None if the data are too short."""
    if data is None or len(data) < PIECE_HEAD:
        return None
    column, pieces, number, start, stated = (
        order.number(data[at : at + 4]) for at in range(0, PIECE_HEAD, 4)
    )
    return LargeObjectPiece(
        column=column,
        pieces=pieces,
        number=number,
        start=start,
        stated=stated,
        raw=data[PIECE_HEAD:],
    )


def read_ddl(text: bytes) -> dict[str, str]:
    """Parse the data of a DDL record into fields. Returns their values by name, such as "statement".

    A field with an unknown code has the code as its name. Raises DecodeError.
    """
    try:
        rest = text.decode()
    except UnicodeDecodeError as error:
        where = Where(offset=error.start, raw=text[error.start : error.start + 32])
        raise DecodeError("the text of a DDL record is not UTF-8", where=where) from None
    values: dict[str, str] = {}
    offset = 0
    while rest[offset:].strip(" \t\r\n,\0"):
        begin = _BEGIN.match(rest, offset)
        end = _end(rest, begin.end()) if begin else None
        if begin is None or end is None:
            raw = rest[offset : offset + 32].encode()
            where = Where(offset=len(rest[:offset].encode()), raw=raw)
            raise DecodeError("a field CODE='value' was expected in a DDL record", where=where)
        name = FIELDS.get(begin[1], begin[1])
        values.setdefault(name, _ESCAPED.sub(r"\1", rest[begin.end() : end]))
        offset = end + 1
    return values


def read_ddl_statement(text: bytes) -> str:
    """Return the statement of a DDL record, or its complete text if it has no statement field."""
    try:
        fields = read_ddl(text)
    except DecodeError:
        fields = {}
    return fields.get("statement", text.decode("utf-8", "backslashreplace")).strip(" \0")


def _end(text: str, start: int) -> int | None:
    """Return the index of the quote that ends a DDL field's value, which begins at ``start``, or None."""
    for match in _END.finditer(text, start):
        before = text[start : match.start()]
        # After an odd number of backslashes the quote is escaped: \' is, \\' is not.
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return match.start()
    return None
