"""What a trail file begins with: its header, and the metadata that say what table indexes mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trailgate.errors import EncodeError, Where
from trailgate.model.tables import Definitions
from trailgate.trail.format.file_header import FileHeader, encode_header
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import MAX_LENGTH
from trailgate.trail.records.metadata import FIRST_INDEX, MetadataKind, database_data, table_data
from trailgate.trail.records.record import TrailRecord, encode_record
from trailgate.trail.writing.trail_format import RELEASES, TrailFormat

DATABASE_INDEX: Final = 1  # a file has one database definition


def header_of(header: FileHeader, trail_format: TrailFormat) -> FileHeader:
    """Return a header that names the format of its file."""
    release = RELEASES[trail_format.release]
    producer = replace(header.producer, major_version=release.major, minor_version=release.minor)
    trail = replace(header.trail, compatibility=trail_format.level)
    return replace(header, trail=trail, producer=producer, order=trail_format.order)


def file_begin(header: FileHeader, trail_format: TrailFormat, definitions: Definitions) -> bytes:
    """Return the bytes before a file's first operation; raises EncodeError.

    Tables are described in the order of the definitions, so that an index means the same in all files of a run.
    """
    begin = encode_header(header_of(header, trail_format)) if trail_format.has_header else b""
    if not trail_format.by_index:
        return begin
    return begin + metadata_bytes(definitions, trail_format, header.trail.creation_time)


def metadata_bytes(definitions: Definitions, trail_format: TrailFormat, time: int) -> bytes:
    """Return the records of the database and of all tables."""
    records = metadata_records(definitions, trail_format, time)
    return b"".join(map(encode_record, records))


def metadata_records(
    definitions: Definitions, trail_format: TrailFormat, time: int
) -> list[TrailRecord]:
    """Return the records of the database and of all tables; raises EncodeError."""
    order = trail_format.order
    if len(definitions) > MAX_LENGTH - FIRST_INDEX:
        raise EncodeError(f"{len(definitions)} tables are more than an index can name")
    model = TrailRecord(IO_METADATA, io_time=time, order=order)
    database = database_data(definitions.database, order)
    records = [
        replace(
            model,
            node=MetadataKind.DATABASE,
            audit_rba=_indexes(DATABASE_INDEX, 0, trail_format),
            data=database,
        )
    ]
    for index, table in enumerate(definitions, FIRST_INDEX):
        data = table_data(table, order)
        if len(data) > MAX_LENGTH:
            problem = f"a table definition of {len(data)} bytes does not fit in a record"
            raise EncodeError(problem, where=Where(table=table.name))
        pair = _indexes(DATABASE_INDEX, index, trail_format)
        records.append(
            replace(model, node=MetadataKind.TABLE, name=table.name, audit_rba=pair, data=data)
        )
    return records


def _indexes(first: int, second: int, trail_format: TrailFormat) -> int:
    """Return two indexes as AuditRBA holds them (trail format §5.3)."""
    order = trail_format.order
    return order.number(order.raw(first, 2) + order.raw(second, 2))
