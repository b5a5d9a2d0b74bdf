"""The records and the file header of the open file as results, with their names and settings."""

from __future__ import annotations

from dataclasses import replace

from trailgate.errors import OptionError, TrailgateError
from trailgate.logdump.records.file_header import header_order
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.session.results import ShownHeader, ShownRecord
from trailgate.logdump.session.session import Session
from trailgate.trail.format.file_header import decode_header
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.records.metadata import MetadataKind
from trailgate.trail.records.record import TrailRecord


def show_record(session: Session, portion: Portion, row: int) -> ShownRecord:
    """Return a record to show, and move the session to it."""
    record = session.trail.record(portion, row)
    forward = session.settings.forward
    session.current = record.offset
    session.position = record.offset + record.length if forward else record.offset
    return replace(_named(session, record), release=session.trail.release)


def show_file_header(session: Session) -> ShownHeader:
    """Return the file header to show, and move the session to the first record."""
    trail = session.trail
    if not trail.header_length:
        raise OptionError("this file has no header that can be read")
    raw = trail.read(0, trail.header_length).tobytes()
    try:
        header = decode_header(raw)[0]
    except TrailgateError:
        header = None
    session.position = trail.header_length
    return ShownHeader(raw, header, header_order(raw), session.settings)


def _named(session: Session, record: TrailRecord) -> ShownRecord:
    """Return a record with the names of its table and partition."""
    index, name, settings = record.table_index, record.name or "", session.settings
    metadata = record.io_type == IO_METADATA
    if index is None and not metadata:
        return ShownRecord(record, name, settings)
    known = session.trail.tables(record.offset + record.length)
    if metadata and record.node in (MetadataKind.TABLE, MetadataKind.TABLE_REFERENCE):
        own = (table for table in known.tables.values() if table.offset == record.offset)
        return ShownRecord(record, name, settings, table=next(own, None))
    table = known.tables.get(-1 if index is None else index)
    partition = -1 if record.partition_index is None else record.partition_index
    return ShownRecord(
        record,
        name if table is None else table.name,
        settings,
        partition=known.partitions.get((index or 0, partition)),
    )
