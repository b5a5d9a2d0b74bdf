"""Describe the rest of a trail after its last complete transaction: an open transaction, or an incomplete record.

Readers of complete transactions do not return these bytes. A caller that reads a trail to its end
reports their number (``TrailRest.notices``).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trailgate.errors import mask_logins
from trailgate.model.kernels import APART, UNDOES
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.record_runs import read_runs_from
from trailgate.storage.reading.trail_file import TrailFileReader, describe_size
from trailgate.storage.reading.trail_file_checks import EMPTY
from trailgate.storage.reading.transaction_spans import find_last_end

# If more bytes than this follow the last complete transaction, they are not searched: metadata and
# restart records alone are never that many, so there must be an open transaction.
SCANNED: Final = 64 << 20
OPEN: Final = "{:,} bytes from position {}:{} on are not read: their transaction has not ended"
PARTLY: Final = "the transaction from position {}:{} on has not ended: only part of it is read"
TORN: Final = "{:,} bytes at the end of {} are not read: the record at byte {} is not complete. It is still being written, or the file was cut"
GONE: Final = "file number {} existed when the trail was last read, but is missing now"


@dataclass(frozen=True, slots=True)
class TrailRest:
    """The bytes at a trail's end that are not part of complete transactions.

    ``file`` is the last file. ``since`` is the position at which the open transaction begins, and
    ``open_bytes`` the number of bytes from there to the end of the last complete record. If none is
    open, ``since`` is the end of the last complete transaction. ``torn_at`` and ``torn_bytes`` are
    the offset and size of an incomplete record at the end of the last file.

    ``size_problem`` is a sentence if the last file does not have the size that its header states,
    and ``is_empty`` means that it has no bytes. ``missing_file`` is the number of a file that was
    read before and no longer exists. ``missing_files`` is a sentence about files at the end of the
    trail that only the manifest lists.
    """

    file: str
    since: TrailPosition
    open_bytes: int = 0
    torn_at: int = 0
    torn_bytes: int = 0
    size_problem: str = ""
    is_empty: bool = False
    missing_file: int | None = None
    missing_files: str = ""

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences about the unread bytes: one per cause, such as an open transaction or an incomplete record."""
        file = mask_logins(self.file)
        sentences = []
        if self.missing_file is not None:
            sentences.append(GONE.format(self.missing_file))
        if self.missing_files:
            sentences.append(self.missing_files)
        if self.is_empty:
            sentences.append(EMPTY.format(file))
        if self.open_bytes:
            sentences.append(OPEN.format(self.open_bytes, *self.since))
        if self.torn_bytes:
            sentences.append(TORN.format(self.torn_bytes, file, self.torn_at))
        if self.size_problem:
            sentences.append(f"{file}: {self.size_problem}")
        return tuple(sentences)


def find_trail_rest(trail: TrailFiles, since: TrailPosition) -> TrailRest:
    """Find the bytes after a trail's last complete transaction, which ends at ``since`` or later.

    Raises TrailgateError if bytes are damaged.
    """
    file = trail.files[-1]
    with TrailFileReader(file) as reader:
        end = TrailPosition(file.number, reader.end_of_records())
        problem = describe_size(reader) if end.offset else ""
    since = max(since, trail.begin)
    # Move ``since`` forward to the last transaction end.
    if since < end:
        since = find_last_end(trail, end, since) or since
    begin = _open_transaction(trail, since, end) if since < end else None
    waiting = 0 if begin is None else _bytes_between(trail, begin, end)
    return TrailRest(
        file=file.path,
        since=begin or since,
        open_bytes=waiting,
        torn_at=end.offset,
        torn_bytes=file.size - end.offset,
        size_problem=problem,
        is_empty=not file.size,
        missing_file=since.number if since.number > end.number else None,
        missing_files=trail.describe_missing(last=True),
    )


def notices_of_end(trail: TrailFiles) -> tuple[str, ...]:
    """Return notices about the end of a trail for a job that reads the trail to its end.

    Such a job also returns operations of an open transaction, which is one of the notices. Missing
    files are not among them: the caller reports these also if it does not read to the end. Raises
    TrailgateError if bytes near the end are damaged.
    """
    if not trail.files:
        return ()
    last = trail.files[-1]
    since = max(trail.begin, TrailPosition(last.number, max(0, last.size - SCANNED - 1)))
    rest = find_trail_rest(trail, since)
    partly = (PARTLY.format(*rest.since),) if rest.open_bytes else ()
    return (*partly, *replace(rest, open_bytes=0, missing_files="").notices)


def _open_transaction(
    trail: TrailFiles, since: TrailPosition, end: TrailPosition
) -> TrailPosition | None:
    """Return the position at which the transaction begins that is open at the trail's end, or None.

    The caller has checked that no transaction ends after ``since``. If more than ``SCANNED`` bytes
    follow ``since``, they are not read, and ``since`` is returned.
    """
    if _bytes_between(trail, since, end) > SCANNED:
        return since
    open_since: TrailPosition | None = None
    for run in read_runs_from(trail, since):
        undone = np.flatnonzero(run.has(UNDOES))
        plain = np.flatnonzero(~run.has(APART | UNDOES))
        # A restart undoes everything before it.
        if len(undone):
            open_since, plain = None, plain[plain > undone[-1]]
        if open_since is None and len(plain):
            open_since = TrailPosition(run.number, int(run.starts[plain[0]]))
    return open_since


def _bytes_between(trail: TrailFiles, begin: TrailPosition, end: TrailPosition) -> int:
    """Return the number of bytes between two positions of a trail."""
    if begin.number == end.number:
        return end.offset - begin.offset
    before_end = sum(
        file.size for file in trail.files_from(begin.number) if file.number < end.number
    )
    return before_end - begin.offset + end.offset


class RestTimer:
    """Reports unread bytes at a trail's end only if they have stayed unchanged for some time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._rest: TrailRest | None = None
        self._since = 0.0
        self._reported = False

    def due(self, rest: TrailRest) -> tuple[str, ...]:
        """Return the notices about the unread rest at the end of a trail, once: if the rest has not changed for some time; else ()."""
        now = time.monotonic()
        if rest != self._rest:
            self._rest, self._since, self._reported = rest, now, False
        if self._reported or now - self._since < self._seconds:
            return ()
        self._reported = True
        return rest.notices


def count_bytes_after(trail: TrailFiles, position: TrailPosition) -> int:
    """Return the number of bytes between a trail position and the end of the last complete transaction."""
    if position >= trail.end:
        return 0
    end = find_last_end(trail, trail.end, max(position, trail.begin))
    if end is None or end <= position:
        return 0
    sizes = {
        one.number: one.size for one in trail.files if position.number <= one.number <= end.number
    }
    # All files from the position to the end, minus the last file's bytes after the end and the first
    # file's bytes before the position. A purged first file has no size here.
    return (
        sum(sizes.values())
        - (sizes[end.number] - end.offset)
        - min(position.offset, sizes.get(position.number, 0))
    )
