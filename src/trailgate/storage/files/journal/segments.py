"""The files of a journal: segments of messages, and the ids of segments whose messages are in the trail."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import sync_folder, writing

SEGMENT: Final = "segment"
IDS: Final = "ids"
_NAME: Final = re.compile(r"(\d{10})\.(segment|ids)")


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file of a journal: its number, and whether it is a segment or only has its ids."""

    path: Path
    number: int
    kind: str


def journal_files(folder: Path) -> list[JournalFile]:
    """Return the files of a journal in their order; raises StorageError where a segment is missing."""
    found: dict[int, JournalFile] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        matched = _NAME.fullmatch(path.name)
        if matched is not None:
            number, kind = int(matched[1]), matched[2]
            # A segment whose ids were written, but which was not removed yet, counts as removed.
            if found.get(number) is None or kind == IDS:
                found[number] = JournalFile(path, number, kind)
    files = [found[number] for number in sorted(found)]
    for before, after in pairwise(files):
        if after.number != before.number + 1 or (before.kind, after.kind) == (SEGMENT, IDS):
            problem = (
                f"the journal lacks a segment between {before.path.name} and {after.path.name}"
            )
            raise StorageError(problem, where=Where(source=str(folder)))
    return files


def file_path(folder: Path, number: int, kind: str) -> Path:
    """Return the path of a journal's file."""
    return folder / f"{number:010d}.{kind}"


class GrowingSegment:
    """The last segment of a journal, which is written to."""

    def __init__(self, folder: Path, number: int, size: int) -> None:
        self.path, self.number, self.size = file_path(folder, number, SEGMENT), number, size
        with writing(self.path):
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            os.ftruncate(self._handle, size)
            os.fsync(self._handle)
            sync_folder(folder)

    def append(self, *parts: Any) -> None:
        """Add bytes; they last when this returns. Where that fails the segment is as it was."""
        begin = self.size
        try:
            with writing(self.path):
                at = begin
                for part in parts:
                    rest = memoryview(part)
                    while rest:
                        written = os.pwrite(self._handle, rest, at)
                        at, rest = at + written, rest[written:]
                os.fsync(self._handle)
        except BaseException:
            os.ftruncate(self._handle, begin)
            raise
        self.size = at

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)
