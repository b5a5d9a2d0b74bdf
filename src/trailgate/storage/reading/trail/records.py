"""The record level of a split: every record that begins in it, transactions or not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from trailgate.arrays import PORTION
from trailgate.errors import TruncatedError
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPlace
from trailgate.storage.reading.trail.notices import UNBEGUN, UNFINISHED, Notices
from trailgate.storage.reading.trail.splits import TrailSplit
from trailgate.storage.reading.trail.trail_file import TrailFileReader
from trailgate.storage.reading.trail.transaction_spans import record_begin
from trailgate.trail.format.file_header import ORACLE
from trailgate.trail.reading.record_table import record_table
from trailgate.trail.records.metadata import NO_TABLES
from trailgate.trail.records.trail_bytes import trail_bytes


def read_records(
    trail: TrailFiles, split: TrailSplit, notices: Notices | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records that begin in a split, what a restart undid among them; memory stays flat."""
    notices = notices or Notices()
    begin = split.start if split.whole else record_begin(trail, split.start)
    for file in trail.following(begin.number):
        start = begin.offset if file.number == begin.number else 0
        if TrailPlace(file.number, start) >= split.end:
            return
        with TrailFileReader(file) as reader:
            limit, may_grow = _limit(file, split.end), trail.may_grow(file)
            for batch in _records(reader, start, limit, may_grow, notices):
                notices.of_header(reader)
                yield batch


def _limit(file: TrailFile, end: TrailPlace) -> int:
    return end.offset if file.number == end.number else file.size


def _records(
    reader: TrailFileReader, start: int, limit: int, may_grow: bool, notices: Notices
) -> Iterator[pa.RecordBatch]:
    try:
        place = max(start, reader.begin)
    except TruncatedError:
        if may_grow:
            notices.once(UNBEGUN, reader.file.path, reader.file.size)
            return
        raise
    header = reader.header
    oracle = header is not None and header.database.vendor == ORACLE
    tables = reader.tables(place) if place > reader.begin else NO_TABLES
    while place < limit:
        data = reader.read(place, PORTION)
        at_end = place + len(data) >= reader.file.size
        view = reader.view(data, place, finish=at_end and not may_grow)
        if at_end and place + view.end < limit:
            notices.once(UNFINISHED, reader.file.path, place + view.end)
        own = int((place + view.offsets < limit).sum())
        if not own:
            return
        source = trail_bytes(data, place, reader.order)
        found = record_table(
            source, view.take(slice(own)), reader.file.number, tables, oracle=oracle
        )
        yield found.batch
        tables = found.tables
        place += view.end
