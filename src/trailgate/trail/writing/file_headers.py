"""The start of a trail file: write its header and metadata records, or change fields of a header.

A file of level 5 or higher begins with the file header, a record for the database, and one record
per table. Data records then name a table by its index, which is its position among the definitions.
`patch_header` rewrites a header, for example after a damaged file was repaired; fields that do not
describe the file itself stay unchanged. `encode_header_patches` changes the fields of a header that become
known when its file is closed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from trailgate.arrays import octets
from trailgate.errors import EncodeError, Where
from trailgate.model.tables import Definitions
from trailgate.trail.format.file_header import (
    TRAIL_FIELDS,
    FileHeader,
    HeaderField,
    detect_header_order,
    encode_header,
    encode_header_field,
    header_groups,
)
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import (
    FILE_HEADER,
    FRAME,
    MAX_LENGTH,
    NORMAL,
    UNSET,
    ByteOrder,
    RecordToken,
    encode_outer_object,
    read_tokens_between,
    token,
)
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.records.table_metadata import (
    FIRST_INDEX,
    MetadataType,
    encode_database_definition,
    encode_table_definition,
)
from trailgate.trail.writing.trail_format import RELEASES, TrailFormat

DATABASE_INDEX: Final = 1  # a file has one database definition

TRAIL_GROUP: Final = 0x30
TRAIL_INFO: Final = 0x30  # a group (trail format §4.1)
FILE_SIZE: Final = 0x39  # a field of that group


def fill_in_format(header: FileHeader, trail_format: TrailFormat) -> FileHeader:
    """Return the file header with the release, level and byte order of its trail's format."""
    release = RELEASES[trail_format.release]
    producer = replace(header.producer, major_version=release.major, minor_version=release.minor)
    trail = replace(header.trail, compatibility=trail_format.level)
    return replace(header, trail=trail, producer=producer, order=trail_format.order)


def encode_file_start(
    header: FileHeader, trail_format: TrailFormat, definitions: Definitions
) -> bytes:
    """Encode the start of a trail file, before its first operation: the file header, and from level 5 metadata records.

    Tables are in the order of the definitions, so that a table index means the same table in all
    files that are written with these. Raises EncodeError if a table does not fit in a record.
    """
    begin = encode_header(fill_in_format(header, trail_format)) if trail_format.has_header else b""
    if not trail_format.by_index:
        return begin
    return begin + encode_metadata(definitions, trail_format, header.trail.creation_time)


def encode_metadata(definitions: Definitions, trail_format: TrailFormat, time: int) -> bytes:
    """Encode the metadata records at the start of a trail file: of the database and of all tables, with the IO time ``time``."""
    records = make_metadata_records(definitions, trail_format, time)
    return b"".join(map(encode_record, records))


def make_metadata_records(
    definitions: Definitions, trail_format: TrailFormat, time: int
) -> list[TrailRecord]:
    """Build the metadata records that follow the header of a written trail file: of the database and of all tables.

    Raises EncodeError if a definition does not fit in a record, or if there are too many tables.
    """
    order = trail_format.order
    if len(definitions) > MAX_LENGTH - FIRST_INDEX:
        raise EncodeError(f"{len(definitions)} tables are too many for a table index of two bytes")
    model = TrailRecord(IO_METADATA, io_time=time, order=order)
    database = encode_database_definition(definitions.database, order)
    records = [
        replace(
            model,
            node=MetadataType.DATABASE,
            audit_rba=_indexes(DATABASE_INDEX, 0, trail_format),
            data=database,
        )
    ]
    for index, table in enumerate(definitions, FIRST_INDEX):
        data = encode_table_definition(table, order)
        if len(data) > MAX_LENGTH:
            problem = f"a table definition of {len(data)} bytes does not fit in a record"
            raise EncodeError(problem, where=Where(table=table.name))
        pair = _indexes(DATABASE_INDEX, index, trail_format)
        records.append(
            replace(model, node=MetadataType.TABLE, name=table.name, audit_rba=pair, data=data)
        )
    return records


def _indexes(first: int, second: int, trail_format: TrailFormat) -> int:
    """Combine the two indexes of a metadata record into the value of its AuditRBA (trail format §5.3)."""
    order = trail_format.order
    return order.number(order.raw(first, 2) + order.raw(second, 2))


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """The fields of a file header that describe the file itself, named as in ``TrailInfo``. None means unknown."""

    filename: str
    seqno: int
    file_size: int | None = None
    first_csn: str | None = None
    last_csn: str | None = None
    first_io_time: int | None = None
    last_io_time: int | None = None


_FACTS: Final = {field.name for field in fields(HeaderFacts)}
_FIELDS: Final = {field.code: field for field in TRAIL_FIELDS if field.name in _FACTS}


def patch_header(raw: bytes, order: ByteOrder, facts: HeaderFacts) -> bytes:
    """Return an encoded file header with the fields of ``facts`` replaced. Only a different file name changes its length."""
    data = octets(raw)
    inner = b""
    for group, start in read_tokens_between(data, (FRAME, len(raw) - FRAME), order):
        payload = group.payload
        if group.code == TRAIL_GROUP:
            span = (start, start + len(payload))
            fields = read_tokens_between(data, span, order)
            payload = b"".join(_field(field, order, facts) for field, _ in fields)
        inner += token(group.code, payload, group.info, order)
    return encode_outer_object(FILE_HEADER, inner, raw[1], order)


def _field(field_token: RecordToken, order: ByteOrder, facts: HeaderFacts) -> bytes:
    field = _FIELDS.get(field_token.code)
    if field is None:
        return token(field_token.code, field_token.payload, field_token.info, order)
    payload = _encode(field, order, facts)
    if payload is None:
        return token(field_token.code, field.codec.unset or field_token.payload, UNSET, order)
    return token(field_token.code, payload, NORMAL, order)


def _encode(field: HeaderField, order: ByteOrder, facts: HeaderFacts) -> bytes | None:
    """Encode the value of a header field from ``facts``.

    Returns None if the value is unknown, or is a damaged value that cannot be encoded.
    """
    value = getattr(facts, field.name)
    try:
        return None if value is None else field.codec.encode(value, order)
    except EncodeError:
        return None


def with_file_size(raw: bytes, size: int) -> bytes:
    """Return the file header with another file size, or unchanged if it does not contain a size."""
    order = detect_header_order(raw) or ByteOrder.BIG
    for group in header_groups(raw, order):
        for field, at in zip(group.fields, group.starts, strict=True):
            if (
                group.token.code == TRAIL_INFO
                and field.code == FILE_SIZE
                and len(field.payload) == 8
            ):
                # The field becomes a normal value of 8 bytes, with its id and its length unchanged.
                frame = raw[at - FRAME : at - FRAME + 1] + bytes((NORMAL,)) + raw[at - 2 : at]
                return raw[: at - FRAME] + frame + order.raw(size, 8) + raw[at + 8 :]
    return raw


def encode_header_patches(header: FileHeader) -> list[tuple[int, bytes]]:
    """Encode the patches of a trail file's header, (offset, bytes) pairs that change it in place.

    They cover the fields that become known when a file is closed or published: file name, sequence
    number, size, first and last CSN, first and last IO time, and LogBSN. The header must keep its
    length, so a new file name must be as long as the old one.
    """
    # Encode the fields again: their sizes give the offset of each in the encoded header.
    patches = []
    offset = 2 * FRAME  # after the frames of F and of group 30, which comes first
    for field in TRAIL_FIELDS:
        encoded = encode_header_field(header, header.trail, field)
        if field.patched and encoded:
            patches.append((offset, encoded))
        offset += len(encoded)
    return patches
