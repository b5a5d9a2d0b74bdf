"""Decode the operations of one span of a trail, starting from the state that the index keeps for it.

Damage is shown and not raised: if decoding a span fails, it is split in halves again and again
until the unreadable operations are isolated. Each becomes an ``UnreadOperations`` in place of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trailgate.browse.index import IndexSpan, TrailIndex
from trailgate.errors import StorageError, TrailgateError
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.format.record_types import IO_UPDATE, RecordRole
from trailgate.trail.reading.images import ReadSelection
from trailgate.trail.reading.reader import decode
from trailgate.trail.records.framing import TrailBytes, find_records_until_damage, wrap_trail_bytes
from trailgate.trail.records.record_view import RecordColumns, view_records
from trailgate.trail.records.transactions import is_restart_record

UNREAD: Final = 16  # after this many unreadable operations in a span, larger parts count as one


@dataclass(frozen=True, slots=True)
class UnreadOperations:
    """Unreadable operations: the position of the first, and the reason."""

    place: TrailPosition
    problem: str


def records_of(index: TrailIndex, span: IndexSpan) -> tuple[TrailBytes, RecordColumns]:
    """Read a span's bytes and index its records. Raises StorageError if the file has changed."""
    with TrailFileReader(index.file(span.number)) as reader:
        data = reader.read(span.start, span.end - span.start)
    source = wrap_trail_bytes(data, span.start, span.state.order)
    return source, view_records(source, find_records_until_damage(data, span.state.order)[0])


def read_span(
    index: TrailIndex, span: IndexSpan, selection: ReadSelection
) -> Iterator[ChangeBatch | UnreadOperations]:
    """Yield the operations of a span in order, or none if its file is gone."""
    try:
        source, view = records_of(index, span)
    except StorageError:
        if span.number in index.look_for_gone():
            return
        raise
    state = replace(span.state, wanted=selection, gives_open=True)
    view = view.take(np.flatnonzero(~is_restart_record(view)))
    parts, failures = [view], 0
    while parts:
        part = parts.pop()
        if not len(part):
            continue
        try:
            decoded = decode(
                source.buffer,
                index.definitions,
                file_number=span.number,
                base_offset=source.base,
                state=state,
                finish=True,
                records=part,
            )
        except TrailgateError as error:
            begins = _begins(part)
            if len(begins) > 1 and failures < UNREAD:
                middle = int(begins[len(begins) // 2])
                # parts is a stack: the first half must be on top, to be decoded first
                parts += [part.take(slice(middle, len(part))), part.take(slice(middle))]
                continue
            failures += 1
            yield UnreadOperations(
                TrailPosition(span.number, span.start + int(part.offsets[0])), str(error)
            )
        else:
            state = decoded.state
            yield decoded.batch


def _begins(view: RecordColumns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows at which an operation may begin: neither a piece of one, nor an after image."""
    starts = (view.role == RecordRole.CHANGE) | (view.role >= RecordRole.METADATA)
    # an after image is the record after the before image of an update
    before = view.is_before & (view.io_type == IO_UPDATE)
    starts[1:] &= ~before[:-1]
    return np.flatnonzero(starts)
