"""Read records of a Logdump session's open file and turn them into results, while moving its position.

``chunks`` reads from the position in the session's direction; ``find_record`` shows the next record
that passes a test; ``show_record`` and ``show_file_header`` add names and settings to a record or
header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trailgate.arrays import CHUNK, Mask
from trailgate.errors import OptionError, TrailgateError, mask_logins
from trailgate.logdump.open_trail import SMALL, OpenTrail, trail_file_exists
from trailgate.logdump.record_chunks import LogdumpChunk
from trailgate.logdump.record_tests import RecordTest
from trailgate.logdump.results import NoteResult, Result, ShownHeader, ShownRecord
from trailgate.logdump.session import LogdumpSession
from trailgate.logdump.times import time_text
from trailgate.storage.files.addresses import name_of
from trailgate.trail.format.file_header import decode_header, detect_header_order
from trailgate.trail.format.record_types import IO_METADATA
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.record import TrailRecord
from trailgate.trail.records.table_metadata import MetadataType


def show_record(session: LogdumpSession, chunk: LogdumpChunk, row: int) -> ShownRecord:
    """Read a record of a chunk as the result that Logdump prints, and move the session past it."""
    record = session.trail.record(chunk, row)
    forward = session.settings.forward
    session.current = record.offset
    # In reverse, the next record is the one that ends where this one starts.
    session.position = record.offset + record.length if forward else record.offset
    return replace(
        _name(session, record),
        damage=chunk.damage_at(row),
        release=session.trail.release,
    )


def show_file_header(session: LogdumpSession) -> ShownHeader:
    """Read the file header as the result that Logdump prints, and move the session to the first record.

    Raises OptionError if the file has no readable header.
    """
    trail = session.trail
    if not trail.header_length:
        raise OptionError("this file has no header that can be read")
    raw = trail.read(0, trail.header_length).tobytes()
    try:
        header = decode_header(raw)[0]
    except TrailgateError:
        header = None
    session.position = trail.header_length
    order = detect_header_order(raw) or ByteOrder.BIG
    return ShownHeader(raw, header, order, session.settings)


def _name(session: LogdumpSession, record: TrailRecord) -> ShownRecord:
    """Build the Logdump result of a record, with the names of its table and partition."""
    index, name, settings = record.table_index, record.name or "", session.settings
    metadata = record.io_type == IO_METADATA
    if index is None and not metadata:
        return ShownRecord(record, name, settings)
    tables = session.trail.tables(record.offset + record.length)
    if metadata and record.node in (MetadataType.TABLE, MetadataType.TABLE_REFERENCE):
        return ShownRecord(record, name, settings, table=tables.defined_at(record.offset))
    table = None if index is None else tables.table_at(index, record.offset)
    partition = -1 if record.partition_index is None else record.partition_index
    return ShownRecord(
        record,
        name if table is None else table.name,
        settings,
        partition=tables.partition_at((index or 0, partition), record.offset),
    )


def chunks(session: LogdumpSession, size: int = CHUNK) -> Iterator[LogdumpChunk]:
    """Yield chunks of records from the session's position in its direction, and move the session.

    The session is moved past a chunk only when the next one is requested.
    """
    session.position = session.start
    if session.settings.forward:
        for chunk in session.trail.forward(session.position, size):
            yield chunk
            session.position = chunk.end
    else:
        for chunk in session.trail.backward(session.position, size):
            yield chunk
            session.position = chunk.rba(0)


def selected_rows(session: LogdumpSession, mask: Mask) -> list[int]:
    """Return the selected rows of a Logdump chunk, in the session's direction."""
    rows: list[int] = np.flatnonzero(mask).tolist()
    return rows if session.settings.forward else rows[::-1]


def find_record(session: LogdumpSession, test: RecordTest) -> Iterator[Result]:
    """Yield the next record that passes the test and the session's filters, and move past it.

    If there is none, yields a note about the end of the file.
    """
    scanned = 0
    for chunk in chunks(session, SMALL):
        rows = selected_rows(session, test(chunk) & session.filters.mask(chunk))
        if rows:
            yield show_record(session, chunk, rows[0])
            return
        scanned += len(chunk)
        yield from report_progress(session, chunk, scanned)
    yield from report_end(session, f"not found in {scanned} records")


def report_progress(session: LogdumpSession, chunk: LogdumpChunk, scanned: int) -> Iterator[Result]:
    """Yield a note about the records scanned so far, if NOTIFY is set and due."""
    every = session.settings.notify
    # true once a multiple of ``every`` lies within this chunk
    if every and scanned // every > (scanned - len(chunk)) // every:
        rba = chunk.rba(-1)
        time = time_text(int(chunk.view.io_time[-1]), session.settings.time_offset)
        values = {"scanned": scanned, "rba": rba}
        yield NoteResult(f"Scanned {scanned:>10} records, RBA {rba}, {time}", values)


def report_end(session: LogdumpSession, problem: str = "") -> Iterator[Result]:
    """Yield a note that the session has reached the end of the file (or its beginning, if it reads backwards).

    The note begins with ``problem``. It also states the size of an incomplete record, and which
    file NEXTTRAIL would open.
    """
    rba = session.position
    before = f"{problem}; " if problem else ""
    if not session.settings.forward:
        yield NoteResult(_sentence(f"{before}beginning of the file"), {"end": "begin", "rba": rba})
        return
    left = session.trail.size - rba
    more = f", {left} bytes of an unfinished record" if left else ""
    following = session.trail.next_path
    if following is not None and trail_file_exists(following):
        more += f"; NEXTTRAIL opens {name_of(following)}"
    yield NoteResult(
        _sentence(f"{before}end of the file at RBA {rba}{more}"),
        {"end": "end", "rba": rba, "unfinished_bytes": left},
    )
    yield from report_size(session.trail)


def report_size(trail: OpenTrail) -> Iterator[Result]:
    """Yield a note if the open file that Logdump reads is empty, or its size differs from the size in its header."""
    for sentence in trail.wrong_size:
        path = mask_logins(trail.path)
        yield NoteResult(
            f"{sentence}. trailgate check {path} lists the damage",
            {"path": path, "size": trail.size, "size_problem": sentence},
        )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
