"""A growing folder of message files as a stream: files are taken in the order of their names, each once.

An offset names the last file that was taken, how many files there were up to it, a sum over their names and sizes, and when
the last of them was modified: enough to give the same batch again, and to notice what must not be. Files must appear whole
(written elsewhere, or under a name that begins with a point, and renamed), with names that sort after those before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.found_files import FoundFile


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """How much a batch may hold; one transaction is never torn, so that it may hold more."""

    files: int | None = None
    bytes: int | None = None


NO_LIMIT: Final = BatchLimit()


WRAP: Final = 1 << 64
HINT: Final = "Files are taken in the order of their names: give a new file a name that sorts after the others, and do not change old ones"


@dataclass(frozen=True, slots=True)
class MessageOffset:
    """The files up to one, which is the last that was taken; ``file`` is empty before the first one."""

    file: str = ""
    count: int = 0
    check: int = 0
    modified: int = 0

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> Self:
        """Return the offset of its JSON form."""
        check = int(str(offset["check"]), 16)
        return cls(str(offset["file"]), int(offset["count"]), check, int(offset["modified"]))

    def json(self) -> dict[str, Any]:
        """Return the offset as JSON; Spark compares the text, so the order of keys is fixed."""
        return {
            "file": self.file,
            "count": self.count,
            "check": f"{self.check:016x}",
            "modified": self.modified,
        }

    def after(self, files: Sequence[FoundFile]) -> MessageOffset:
        """Return the offset when these files are taken too."""
        if not files:
            return self
        check = sum(map(_check, files), self.check) % WRAP
        modified = max((file.modified or 0 for file in files), default=0)
        return MessageOffset(
            name_of(files[-1].path),
            self.count + len(files),
            check,
            max(self.modified, modified),
        )


BEGIN: Final = MessageOffset()


class MessageStream:
    """Finds the ends of batches, and their files; ``find`` lists the folder as it is now."""

    def __init__(self, find: Callable[[], Sequence[FoundFile]]) -> None:
        self._find = find
        self._target: str | None = None
        self._taken: frozenset[str] | None = (
            None  # names up to the last offset, as this process saw them
        )
        self._at = ""

    def stop_at_present_end(self) -> None:
        """Let no later batch take a file that is not there now."""
        files = self._sort()
        self._target = name_of(files[-1].path) if files else ""

    def latest(self, start: MessageOffset, limit: BatchLimit = NO_LIMIT) -> MessageOffset:
        """Return where the next batch ends; raises StorageError for a file that came too late to be taken."""
        files = self._sort()
        self._check_order(start, files)
        later = [file for file in files if name_of(file.path) > start.file]
        if self._target is not None:
            target = self._target
            later = list(takewhile(lambda file: name_of(file.path) <= target, later))
        end = start.after(list(_bound(later, limit)))
        self._at = end.file
        self._taken = frozenset(
            name for name in map(name_of, (file.path for file in files)) if name <= end.file
        )
        return end

    def files(self, start: MessageOffset, end: MessageOffset) -> list[FoundFile]:
        """Return the files of a batch; raises StorageError where they are not those of its offsets."""
        found = [file for file in self._sort() if start.file < name_of(file.path) <= end.file]
        now = start.after(found)
        if (now.count, now.check) != (end.count, end.check):
            problem = (
                f"the batch from {start.file or 'the beginning'} to {end.file} had {end.count - start.count} files, "
                f"and now has {len(found)}, or files of other sizes"
            )
            raise StorageError(problem, hint="Put back the files of the batch as they were")
        return found

    def _sort(self) -> list[FoundFile]:
        return sorted(self._find(), key=lambda file: name_of(file.path))

    def _check_order(self, start: MessageOffset, files: Sequence[FoundFile]) -> None:
        """Raise where a file that sorts before the offset's came after it; files may have been removed."""
        before = [file for file in files if name_of(file.path) <= start.file]
        late: list[FoundFile] = []
        if self._taken is not None and self._at == start.file:
            late = [file for file in before if name_of(file.path) not in self._taken]
        late += [file for file in before if (file.modified or 0) > start.modified]
        if late:
            problem = (
                f"the file came, or was changed, after {start.file} was taken, which sorts after it"
            )
            raise StorageError(problem, where=Where(source=late[0].path), hint=HINT)
        if len(before) > start.count:
            problem = (
                f"{len(before)} files sort up to {start.file}, of which {start.count} were taken"
            )
            raise StorageError(problem, hint=HINT)


def _check(file: FoundFile) -> int:
    text = f"{name_of(file.path)}\n{file.size}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _bound(files: Sequence[FoundFile], limit: BatchLimit) -> Iterator[FoundFile]:
    """Yield the files of a batch: never none, if there is one."""
    room = limit.bytes
    for number, file in enumerate(files):
        full = limit.files is not None and number >= limit.files
        if number and (full or (room is not None and file.size > room)):
            return
        yield file
        room = None if room is None else room - file.size
