"""Describe the rest of a trail after its last complete transaction: an open transaction, or an incomplete record.

Readers of complete transactions do not return these bytes. A caller that reads a trail to its end
reports their number (``TrailRest.notices``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from trailgate.errors import DecodeError, StorageError, TruncatedError, Where, mask_logins
from trailgate.model.kernels import APART, UNDOES
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPosition
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.transaction_spans import find_last_end, read_runs_from
from trailgate.trail.records.damage import UNFINISHED

# If more bytes than this follow the last complete transaction, they are not searched: metadata and
# restart records alone are never that many, so there must be an open transaction.
SCANNED: Final = 64 << 20
OPEN: Final = "{:,} bytes from position {}:{} on are not read: their transaction has not ended"
PARTLY: Final = "the transaction from position {}:{} on has not ended: only part of it is read"
TORN: Final = "{:,} bytes at the end of {} are not read: the record at byte {} is not complete. It is still being written, or the file was cut"
GONE: Final = "file number {} existed when the trail was last read, but is missing now"
EMPTY: Final = "{} is empty: its writer has not begun it yet, or its content is lost"
SHORTER: Final = "the file has {:,} bytes, {:,} fewer than its header states. The header does not show where bytes are missing"
LONGER: Final = (
    "the file has {:,} bytes, {:,} more than its header states. Some records may be repeated"
)
FIRST: Final = "the trail begins at file number {}: operations of earlier files are missing"
INSIDE: Final = (
    "the trail begins inside a transaction, at file number {}: its first operations are missing"
)


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
    last = trail.files[-1]
    since = max(trail.begin, TrailPosition(last.number, max(0, last.size - SCANNED - 1)))
    rest = find_trail_rest(trail, since)
    partly = (PARTLY.format(*rest.since),) if rest.open_bytes else ()
    return (*partly, *replace(rest, open_bytes=0, missing_files="").notices)


def check_file_ends(trail: TrailFiles, begin: TrailPosition) -> None:
    """Check that each trail file from a position on has its number and ends with a complete record.

    Only the last file may end inside a record. Raises TruncatedError if a file before the last one
    ends inside a record, DecodeError if records follow a damaged length, and StorageError if the
    number in a file's header differs from the number in its name.
    """
    for file in trail.files_from(begin.number):
        with TrailFileReader(file) as reader:
            reader.check_number()
            end = reader.end_of_records()
        if end < file.size and file.number < trail.end.number:
            raise TruncatedError(
                f"{UNFINISHED}, and another file follows",
                where=Where(source=file.path, offset=end),
                hint="Its end is missing: copy the file again",
            )


def check_numbers(files: Iterable[TrailFile]) -> None:
    """Raise StorageError if the number in a trail file's header differs from the number in its name."""
    for file in files:
        with TrailFileReader(file) as reader:
            reader.check_number()


def check_last_files(trail: TrailFiles) -> None:
    """Raise StorageError if the manifest lists files after the last one that exists.

    The first files may be missing, because they were purged.
    """
    problem = trail.describe_missing(last=True)
    if problem:
        raise StorageError(
            problem,
            where=Where(source=trail.prefix),
            hint=f"Restore the file. trailgate check {mask_logins(trail.prefix)} lists all missing files",
        )


def check_stated_size(file: TrailFile) -> None:
    """Raise StorageError if a trail file does not have the size that its header states, although another file follows."""
    with TrailFileReader(file) as reader:
        problem = describe_size(reader)
    if problem:
        raise StorageError(
            f"{problem}. Another file follows, so it is not being written any more",
            where=Where(source=file.path),
            hint="Copy the file again",
        )


def describe_wrong_size(reader: TrailFileReader) -> list[str]:
    """Return a list with an error message if the file is empty or does not have the size that its header states.

    The message names the file. Otherwise, or if the header is damaged, the list is empty.
    """
    file = mask_logins(reader.file.path)
    if not reader.file.size:
        return [EMPTY.format(file)]
    try:
        problem = describe_size(reader)
    except DecodeError:
        return []  # the header is damaged, or is still being written
    return [f"{file}: {problem}"] if problem else []


def describe_size(reader: TrailFileReader) -> str:
    """Return a sentence if a trail file does not have the size that its header states, or "".

    A file without a stated size is still being written; for it, the result is "".
    """
    file, header = reader.file, reader.header
    stated = 0 if header is None else header.trail.file_size or 0
    # If the header was written after the file was listed, it states the file's new size.
    if stated > file.size and stated > (size := reader.size_now()):
        return SHORTER.format(size, stated - size)
    if 0 < stated < file.size:
        return LONGER.format(file.size, file.size - stated)
    return ""


def first_file_notices(trail: TrailFiles) -> tuple[str, ...]:
    """Return notices if the first files of a trail are missing, and if it begins inside a transaction."""
    number = trail.begin.number
    if not number:
        return ()
    for run in read_runs_from(trail, trail.begin):
        rows = np.flatnonzero(~run.has(APART | UNDOES))
        if len(rows):
            inside = not run.begins_transaction(int(rows[0]))
            return (FIRST.format(number), *([INSIDE.format(number)] if inside else []))
    return (FIRST.format(number),)


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
        """Return the notices of a trail's rest if it has not changed for some time and was not reported yet."""
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
