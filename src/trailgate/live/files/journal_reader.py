"""Read messages of a journal by number, as batches for readers and as tables and lines for display.

Nothing is locked or removed, so a journal can be read while it is being written. ``JournalIndex``
locates frames incrementally as the journal grows; ``JournalRange`` reads a range of messages.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.errors import StorageError, Where
from trailgate.live.files.journal_segments import (
    IDS,
    RESTORE,
    SEGMENT,
    file_path,
    journal_files,
    read_frames,
    segment_frames,
    walk_heads,
)
from trailgate.live.files.journal_writer import StoredMessages
from trailgate.storage.files.quarantine import format_quarantine_line
from trailgate.storage.files.trail_files import files_on_disk

RECEIPT = pa.timestamp("us", "UTC")
SEGMENTS = pa.schema(
    [
        ("file", pa.string()),
        ("kind", pa.string()),
        ("first", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("received", RECEIPT),
    ]
)


def find_journal(path: str) -> Path:
    """Find the folder of a journal to read, by its path or its trail's prefix.

    Raises StorageError if it does not exist, or has no files.
    """
    for folder in (Path(path), Path(f"{path}.journal")):
        if folder.is_dir() and journal_files(folder):
            return folder
    hint = "Name the folder, or the prefix of the trail: dirdat/ot for dirdat/ot.journal"
    if "://" in path:
        hint = "Name the journal's folder, not the broker"
    elif files_on_disk(path):
        hint = (
            "The trail of this name has no journal: a capture from Kafka needs none, since the broker "
            "keeps the messages, and neither does a capture of files"
        )
    raise StorageError("there is no journal here", where=Where(source=path), hint=hint)


def list_journal_files(folder: Path) -> pa.RecordBatch:
    """Read a row about each file of a journal, as ``trailgate journal list`` shows them.

    The row has the number of the file's first message and, for a segment, the time at which its
    last message was received.
    """
    rows: list[dict[str, object]] = []
    for file in journal_files(folder):
        frames = [(frame.number, len(frame.batch), frame.batch) for frame in read_frames(file.path)]
        last = None
        if frames and file.kind == SEGMENT:
            last = frames[-1][2]["received"][-1].as_py()
        rows.append(
            {
                "file": file.path.name,
                "kind": file.kind,
                "first": frames[0][0] if frames else None,
                "messages": sum(count for _, count, _ in frames),
                "bytes": file.path.stat().st_size,
                "received": last,
            }
        )
    return pa.RecordBatch.from_pylist(rows, SEGMENTS)


def read_journal_messages(folder: Path, number: int = 0) -> Iterator[pa.RecordBatch]:
    """Read the messages of a live capture's journal, from a number on, as Arrow batches.

    The columns are number, id, time of receipt, headers, body as text, and the fault of a message
    that cannot be read, or null.
    """
    for _, frame in segment_frames(folder):
        skipped = max(0, number - frame.number)
        batch = frame.batch.slice(skipped)
        if not len(batch):
            continue
        first = frame.number + skipped
        bodies = [body.decode("utf-8", "backslashreplace") for body in batch["body"].to_pylist()]
        columns = {
            "number": np.arange(first, first + len(batch)),
            "id": batch["id"],
            "received": batch["received"].cast(RECEIPT),
            "headers": batch["headers"],
            "body": pa.array(bodies, pa.string()),
            "fault": batch["fault"],
        }
        yield pa.RecordBatch.from_pydict(columns)


def read_journal_lines(folder: Path, number: int = 0) -> Iterator[bytes]:
    """Yield the journal's messages from a number on as JSON lines, which a capture can read.

    Their positions are those that lines of the trail's quarantine have.
    """
    for file, frame in segment_frames(folder):
        stored = StoredMessages(frame.number, file.number, frame.begin, frame.batch)
        if stored.end <= number:
            continue
        rest = stored.after(number)
        for row, offset in zip(rest.messages.to_pylist(), rest.offsets.tolist(), strict=True):
            place = (file.path.name, file.number, offset)
            yield format_quarantine_line(
                row["body"], dict(row["headers"]), place, row["fault"] or ""
            )


class JournalExtent(NamedTuple):
    """The range of messages in a journal, from number ``first`` to before ``end``."""

    first: int
    end: int


class FrameLocation(NamedTuple):
    """The location of a journal frame: its first message's number, its segment, its bytes [begin, end)."""

    number: int
    segment: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class JournalRange:
    """The journal's messages with the numbers [begin, end).

    The first of them is in the frame that begins at the byte ``offset`` of the file ``segment``.
    """

    folder: Path
    segment: int
    offset: int
    begin: int
    end: int

    def read(self) -> Iterator[StoredMessages]:
        """Yield the messages of the range, across segments. Raises StorageError if a message is missing."""
        number, segment, offset = self.begin, self.segment, self.offset
        while number < self.end:
            path = file_path(self.folder, segment, SEGMENT)
            for frame in read_frames(path, offset):
                if frame.number + len(frame.batch) <= number:
                    continue
                stored = StoredMessages(frame.number, segment, frame.begin, frame.batch).after(
                    number
                )
                # The last frame of the range may have messages after it.
                excess = stored.end - self.end
                if excess > 0:
                    limited = stored.messages.slice(0, len(stored.messages) - excess)
                    stored = replace(stored, messages=limited)
                if stored.number != number:
                    problem = f"message {stored.number} follows {number - 1} in the journal"
                    where = Where(source=str(path), offset=frame.begin)
                    raise StorageError(problem, where=where, hint=RESTORE)
                yield stored
                number = stored.end
                if number >= self.end:
                    return
            segment, offset = segment + 1, 0


@dataclass(slots=True)
class JournalIndex:
    """The locations of a journal's frames. Each frame is located once, as the journal grows.

    ``extent`` and ``range`` update the index first; ``cuts`` uses it as it is.
    """

    folder: Path
    _frames: list[FrameLocation] = field(default_factory=list)
    _end: int = 0

    def extent(self) -> JournalExtent:
        """Return the range of messages that are in the journal now."""
        files = journal_files(self.folder)
        segments = [file.number for file in files if file.kind == SEGMENT]
        self._forget(segments[0] if segments else None)
        for number in segments:
            # The last indexed segment may have grown. Earlier ones are complete.
            if not self._frames or number >= self._frames[-1].segment:
                self._index_segment(number)
        if not self._frames:
            # Without segments, only the last id file shows how many messages the journal has had.
            self._end = max(self._end, _end_of_ids(files[-1].path)) if files else 0
            return JournalExtent(self._end, self._end)
        return JournalExtent(self._frames[0].number, self._end)

    def _forget(self, first: int | None) -> None:
        """Remove the frames of deleted segments from the index; ``first`` is the first segment left."""
        if first is None:
            self._frames.clear()
        elif self._frames and self._frames[0].segment < first:
            self._frames = [frame for frame in self._frames if frame.segment >= first]

    def _index_segment(self, segment: int) -> None:
        """Add the new frames of a journal segment to the index.

        The last frame is read, because only the message numbers of the following frames show how
        many messages a frame has. A last frame that is still being written is not added.
        """
        path = file_path(self.folder, segment, SEGMENT)
        if not path.exists():
            return  # deleted since the files were listed
        known = self._frames[-1] if self._frames and self._frames[-1].segment == segment else None
        begin = 0 if known is None else known.end
        new_frames = [
            FrameLocation(number, segment, start, end)
            for number, start, end in walk_heads(path, begin)
        ]
        while new_frames:
            # The last frame may still be incomplete. ``check`` would then search the rest of the
            # file for damage.
            last = next(read_frames(path, new_frames[-1].begin, check=False), None)
            if last is not None:
                self._frames += new_frames
                self._end = last.number + len(last.batch)
                return
            new_frames.pop()  # this frame is still being written

    def range(self, begin: int, end: int) -> JournalRange:
        """Locate a range of journal messages. Raises StorageError if some are deleted, or do not exist."""
        stored = self.extent()
        if begin >= end:
            return JournalRange(self.folder, 0, 0, begin, begin)
        if begin < stored.first:
            problem = f"messages {begin} to {stored.first - 1} were deleted from the journal before they were read"
            hint = "A capture deletes messages that its trail contains: use a separate journal for the stream"
            raise StorageError(problem, where=Where(source=str(self.folder)), hint=hint)
        if end > stored.end:
            problem = f"the journal ends before message {stored.end}, but messages up to {end - 1} are needed"
            hint = "The journal does not belong to the stream's checkpoint: restore the right one"
            raise StorageError(problem, where=Where(source=str(self.folder)), hint=hint)
        frame = self._frames[self._at(begin)]
        return JournalRange(self.folder, frame.segment, frame.begin, begin, end)

    def _at(self, number: int) -> int:
        return bisect_right(self._frames, number, key=lambda frame: frame.number) - 1

    def cuts(self, begin: int, end: int, size: int) -> list[int]:
        """Return message numbers that divide the messages [begin, end) into pieces of about ``size`` bytes.

        A piece consists of complete journal frames, except for the first and the last one.
        ``begin`` and ``end`` are not among the numbers.
        """
        numbers: list[int] = []
        gathered = 0
        # ``_at`` returns -1 if ``begin`` is before the first frame.
        for frame in self._frames[max(0, self._at(begin)) :]:
            if frame.number >= end:
                break
            if gathered >= size and frame.number > begin:
                numbers.append(frame.number)
                gathered = 0
            gathered += frame.end - frame.begin
        return numbers


def _end_of_ids(path: Path) -> int:
    """Return the number after the last message in a journal's id file, or 0 for a segment."""
    last = next(read_frames(path), None) if path.suffix == f".{IDS}" else None
    return 0 if last is None else last.number + len(last.batch)
