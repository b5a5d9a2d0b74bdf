"""Messages of a journal by their numbers, for readers that follow it; nothing is locked and nothing removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from trailgate.errors import StorageError, Where
from trailgate.storage.files.journal.frames import read_frames
from trailgate.storage.files.journal.segments import SEGMENT, journal_files


class Held(NamedTuple):
    """The messages that a journal has: from the first number on, up to before ``end``."""

    first: int
    end: int


def held_in(folder: Path) -> Held:
    """Return which messages a journal has, of which the last segment alone is read through."""
    files = journal_files(folder)
    if not files:
        return Held(0, 0)
    end = 0
    for file in reversed(files):
        ends = [frame.number + len(frame.batch) for frame in read_frames(file.path)]
        if ends:
            end = ends[-1]
            break
    for file in files:
        if file.kind == SEGMENT:
            first = next((frame.number for frame in read_frames(file.path)), None)
            if first is not None:
                return Held(first, end)
    return Held(end, end)


def segments_between(folder: Path, begin: int, end: int) -> list[Path]:
    """Return the segments that have messages of [begin, end); raises StorageError where some were removed."""
    first = held_in(folder).first
    if begin < first and begin < end:
        problem = (
            f"messages {begin} to {first - 1} were removed from the journal before they were read"
        )
        hint = "A capture into a trail removes what its trail has: give the stream a journal of its own"
        raise StorageError(problem, where=Where(source=str(folder)), hint=hint)
    found: list[Path] = []
    for file in reversed(journal_files(folder)):
        number = next((f.number for f in read_frames(file.path)), None)
        if file.kind != SEGMENT or number is None or number >= end:
            continue
        found.append(file.path)
        if number <= begin:
            break
    return found[::-1]


def messages_between(path: Path, begin: int, end: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield a segment's messages of [begin, end), each batch with its first number."""
    for frame in read_frames(path):
        if frame.number >= end:
            return
        start, stop = max(begin - frame.number, 0), min(end - frame.number, len(frame.batch))
        if start < stop:
            yield frame.number + start, frame.batch.slice(start, stop - start)
