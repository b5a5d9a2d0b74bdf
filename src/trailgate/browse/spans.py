"""Decode the operations of one span of a trail, starting from the state that the index stores for it.

Damage is shown instead of raised: if decoding a span fails, it is split in halves again and again
until the unreadable operations are isolated. Each becomes an ``UnreadOperations`` in place of its
values.
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

FIRST: Final = 1024  # operations of a span that are decoded first, because a page may need no more
UNREAD: Final = 16  # after this many unreadable operations in a span, larger parts count as one


@dataclass(frozen=True, slots=True)
class UnreadOperations:
    """Operations that cannot be decoded: the position of the first one (``place``), and the reason."""

    place: TrailPosition
    problem: str


def records_of(index: TrailIndex, span: IndexSpan) -> tuple[TrailBytes, RecordColumns]:
    """Read the bytes of a span of the index, and parse its records into columns. Raises StorageError if the file has changed."""
    with TrailFileReader(index.file(span.number)) as reader:
        data = reader.read(span.start, span.end - span.start)
    source = wrap_trail_bytes(data, span.start, span.state.order)
    return source, view_records(source, find_records_until_damage(data, span.state.order)[0])


def read_span(
    index: TrailIndex,
    span: IndexSpan,
    selection: ReadSelection,
    place: TrailPosition | None = None,
    *,
    back: bool = False,
) -> Iterator[ChangeBatch | UnreadOperations]:
    """Decode the operations of a span of the index. Yields them in order, or none if the file no longer exists.

    With ``place``, yield only the operations from that position on, or with ``back`` those before
    it.
    """
    try:
        source, view = records_of(index, span)
    except StorageError:
        if span.number in index.find_gone_files():
            return
        raise
    state = replace(span.state, gives_open=True)
    # A span is read alone, so a restart record inside it cannot be matched with the records that it
    # undoes. The index marks these (``undone``).
    view = view.take(np.flatnonzero(~is_restart_record(view)))
    skipped = replace(selection, columns=frozenset[str]())
    parts, failures = _parts(view, span, place, back=back), 0
    while parts:
        part, is_shown = parts.pop()
        if not len(part):
            continue
        try:
            decoded = decode(
                source.buffer,
                index.definitions,
                file_number=span.number,
                base_offset=source.base,
                state=replace(state, wanted=selection if is_shown else skipped),
                finish=True,
                records=part,
            )
        except TrailgateError as error:
            begins = operation_begins(part)
            if len(begins) > 1 and failures < UNREAD:
                # Halves begin at an operation's first record: an update's two records must stay
                # together. The first half is pushed last, so it is decoded next.
                middle = int(begins[len(begins) // 2])
                halves = part.take(slice(middle, len(part))), part.take(slice(middle))
                parts += [(half, is_shown) for half in halves]
                continue
            # At most ``UNREAD`` operations are isolated. After that whole parts are skipped, so
            # that a damaged span does not cost a decoding for each operation.
            failures += 1
            place_of = TrailPosition(span.number, span.start + int(part.offsets[0]))
            found: ChangeBatch | UnreadOperations = UnreadOperations(place_of, str(error))
        else:
            state, found = decoded.state, decoded.batch
        if is_shown:
            yield found


def _parts(
    view: RecordColumns, span: IndexSpan, place: TrailPosition | None, *, back: bool
) -> list[tuple[RecordColumns, bool]]:
    """Divide a span's records into parts, each with whether its operations are wanted.

    The parts are in reverse order: the last one is decoded first. Operations before the position
    are not wanted, but change the state of the reader, such as the open transaction. The first
    operations after the position are a separate part, because a page may need no more.
    """
    begins, cut = operation_begins(view), 0
    if place is not None and span.begin < place < span.stop:
        # Example: operations begin at offsets 0, 80, 200 of the span; for a place at 100 the cut is
        # at 200.
        at = int(np.searchsorted(view.offsets[begins], place.offset - span.start))
        cut = int(begins[at]) if at < len(begins) else len(view)
    if back:
        return [(view.take(slice(cut or len(view))), True)]
    first = begins[begins > cut][FIRST - 1 : FIRST].tolist()
    few = first[0] if first else len(view)
    return [
        (view.take(slice(few, len(view))), True),
        (view.take(slice(cut, few)), True),
        (view.take(slice(cut)), False),
    ]


def operation_begins(view: RecordColumns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the rows of a span's records at which an operation may begin.

    Excluded are later pieces of a long record, and the after image that follows the before image of
    an update.
    """
    starts = np.flatnonzero((view.role == RecordRole.CHANGE) | (view.role >= RecordRole.METADATA))
    # an after image comes after the before image of an update, and after the pieces of that
    before = (view.is_before & (view.io_type == IO_UPDATE))[starts]
    return np.delete(starts, np.flatnonzero(before[:-1]) + 1)
