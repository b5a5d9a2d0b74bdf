"""Messages of a journal by their numbers, for readers that follow it, and as tables and lines for those that look at it.

Nothing is locked and nothing removed: a journal that is being written can be read.
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
from trailgate.live.files.journal import Stored
from trailgate.live.files.journal_segments import (
    IDS,
    SEGMENT,
    file_path,
    journal_files,
    read_frames,
    segment_frames,
    walk_heads,
)
from trailgate.storage.files.listing import files_on_disk
from trailgate.storage.files.quarantine import write_line

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
    """Return the folder of a journal, which its path or its trail's prefix names; raises StorageError."""
    for folder in (Path(path), Path(f"{path}.journal")):
        if folder.is_dir() and journal_files(folder):
            return folder
    hint = "Name the folder, or the prefix of the trail: dirdat/ot for dirdat/ot.journal"
    if "://" in path:
        hint = "Name the journal's folder, and not the broker"
    elif files_on_disk(path):
        hint = (
            "There is a trail of this name, and no journal beside it: a capture from Kafka keeps none, "
            "since the broker keeps the messages; nor does one from files"
        )
    raise StorageError("there is no journal here", where=Where(source=path), hint=hint)


def segments_of(folder: Path) -> pa.RecordBatch:
    """Return a row for each file: its first message's number and, of a segment, the time at which its last one was received."""
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


def messages_of(folder: Path, number: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the messages from a number on: number, id, time of receipt, headers, body as text, and why it has none."""
    for _, frame in segment_frames(folder):
        left_out = max(0, number - frame.number)
        batch = frame.batch.slice(left_out)
        if not len(batch):
            continue
        first = frame.number + left_out
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


def lines_of(folder: Path, number: int = 0) -> Iterator[bytes]:
    """Yield the messages from a number on as the JSON lines that a capture reads."""
    for file, frame in segment_frames(folder):
        for at, row in enumerate(frame.batch.to_pylist(), frame.number):
            if at >= number:
                place = (file.path.name, file.number, at - frame.number)
                yield write_line(row["body"], dict(row["headers"]), place, row["fault"] or "")


class Held(NamedTuple):
    """The messages that a journal has: from the first number on, up to before ``end``."""

    first: int
    end: int


class FramePlace(NamedTuple):
    """Where a frame begins: the number of its first message, its segment, and its bytes there."""

    number: int
    segment: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class JournalRange:
    """The messages of [begin, end), of which the first is in the frame at a byte of a segment."""

    folder: Path
    segment: int
    offset: int
    begin: int
    end: int

    def read(self) -> Iterator[Stored]:
        """Yield the messages, of whatever segments; raises StorageError where they are not all there."""
        number, segment, offset = self.begin, self.segment, self.offset
        while number < self.end:
            path = file_path(self.folder, segment, SEGMENT)
            for frame in read_frames(path, offset):
                if frame.number + len(frame.batch) <= number:
                    continue
                stored = Stored(frame.number, segment, frame.begin, frame.batch).after(number)
                surplus = stored.end - self.end
                if surplus > 0:
                    kept = stored.messages.slice(0, len(stored.messages) - surplus)
                    stored = replace(stored, messages=kept)
                if stored.number != number:
                    problem = f"message {stored.number} follows {number - 1} in the journal"
                    where = Where(source=str(path), offset=frame.begin)
                    raise StorageError(problem, where=where)
                yield stored
                number = stored.end
                if number >= self.end:
                    return
            segment, offset = segment + 1, 0


@dataclass(slots=True)
class JournalIndex:
    """Where the frames of a journal are, which is looked up once for each frame as the journal grows."""

    folder: Path
    _frames: list[FramePlace] = field(default_factory=list)
    _end: int = 0

    def held(self) -> Held:
        """Return which messages the journal has now."""
        files = journal_files(self.folder)
        segments = [file.number for file in files if file.kind == SEGMENT]
        self._forget(segments[0] if segments else None)
        for number in segments:
            if not self._frames or number >= self._frames[-1].segment:
                self._look_through(number)
        if not self._frames:
            self._end = max(self._end, _end_of_ids(files[-1].path)) if files else 0
            return Held(self._end, self._end)
        return Held(self._frames[0].number, self._end)

    def _forget(self, first: int | None) -> None:
        """Forget the frames of segments that were removed."""
        if first is None:
            self._frames.clear()
        elif self._frames and self._frames[0].segment < first:
            self._frames = [frame for frame in self._frames if frame.segment >= first]

    def _look_through(self, segment: int) -> None:
        """Note the frames of a segment that are not known yet; the last one is read, for its end."""
        path = file_path(self.folder, segment, SEGMENT)
        if not path.exists():
            return  # removed since the files were listed
        known = self._frames[-1] if self._frames and self._frames[-1].segment == segment else None
        begin = 0 if known is None else known.end
        found = [
            FramePlace(number, segment, start, end)
            for number, start, end in walk_heads(path, begin)
        ]
        while found:
            last = next(read_frames(path, found[-1].begin, check=False), None)
            if last is not None:
                self._frames += found
                self._end = last.number + len(last.batch)
                return
            found.pop()  # its bytes are not all written

    def range(self, begin: int, end: int) -> JournalRange:
        """Return a range of messages; raises StorageError where some were removed, or never there."""
        held = self.held()
        if begin >= end:
            return JournalRange(self.folder, 0, 0, begin, begin)
        if begin < held.first:
            problem = f"messages {begin} to {held.first - 1} were removed from the journal before they were read"
            hint = "A capture into a trail removes what its trail has: give the stream a journal of its own"
            raise StorageError(problem, where=Where(source=str(self.folder)), hint=hint)
        if end > held.end:
            problem = f"the journal ends before message {held.end}, and messages up to {end - 1} are asked for"
            hint = "It is not the journal that belongs to the stream's checkpoint: restore that one"
            raise StorageError(problem, where=Where(source=str(self.folder)), hint=hint)
        frame = self._frames[self._at(begin)]
        return JournalRange(self.folder, frame.segment, frame.begin, begin, end)

    def _at(self, number: int) -> int:
        return bisect_right(self._frames, number, key=lambda frame: frame.number) - 1

    def cuts(self, begin: int, end: int, size: int) -> list[int]:
        """Return numbers between which about ``size`` bytes of messages of [begin, end) are."""
        found: list[int] = []
        gathered = 0
        for frame in self._frames[max(0, self._at(begin)) :]:
            if frame.number >= end:
                break
            if gathered >= size and frame.number > begin:
                found.append(frame.number)
                gathered = 0
            gathered += frame.end - frame.begin
        return found


def _end_of_ids(path: Path) -> int:
    """Return the number after the last message whose id a file of ids has."""
    last = next(read_frames(path), None) if path.suffix == f".{IDS}" else None
    return 0 if last is None else last.number + len(last.batch)
