"""A growing folder of message files as a stream: files are read in name order, each once.

An offset contains the last file that was read, the number of files up to it, a checksum of their
names and sizes, and the latest modification time. This is enough to repeat a batch exactly, and to
detect forbidden changes. Files must be complete when they appear (written elsewhere, or under a
name that starts with a dot, and then renamed), with names that sort after all earlier ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.file_search import ListedFile

WRAP: Final = 1 << 64
HINT: Final = "Files are read in name order: name a new file so that it sorts after the others, and do not change old ones"


@dataclass(frozen=True, slots=True)
class BatchLimit:
    """The maximum number of files and of bytes of a stream's batch (None: no limit).

    A batch has more bytes only if its first file of messages, or in a trail its first transaction,
    is larger.
    """

    files: int | None = None
    bytes: int | None = None


NO_LIMIT: Final = BatchLimit()


@dataclass(frozen=True, slots=True)
class MessageOffset:
    """The offset of a stream of message files: it covers all files up to ``file``, or none if ``file`` is "".

    ``count`` is the number of these files, ``check`` a hash of them, and ``modified`` the latest
    modification time. They reveal whether files have changed after they were read.
    """

    file: str = ""
    count: int = 0
    check: int = 0
    modified: int = 0

    @classmethod
    def read(cls, offset: Mapping[str, Any]) -> Self:
        """Parse the offset of a message stream from its JSON form."""
        check = int(str(offset["check"]), 16)
        return cls(str(offset["file"]), int(offset["count"]), check, int(offset["modified"]))

    def json(self) -> dict[str, Any]:
        """Format the offset of a message stream as JSON.

        Spark compares the text, so the order of keys is fixed.
        """
        return {
            "file": self.file,
            "count": self.count,
            "check": f"{self.check:016x}",
            "modified": self.modified,
        }

    def after(self, files: Sequence[ListedFile]) -> MessageOffset:
        """Return the offset of the stream after these message files."""
        if not files:
            return self
        # A sum does not depend on the order, and can be extended by later files.
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
    """A stream of message files: finds the ends of batches, and their files.

    ``find`` lists the folder as it is now.
    """

    def __init__(self, find: Callable[[], Sequence[ListedFile]]) -> None:
        self._find = find
        self._target: str | None = None
        # The names up to the last offset, as this process saw them.
        self._taken: frozenset[str] | None = None
        self._at = ""

    def stop_at_present_end(self) -> None:
        """Limit all later batches to message files that exist now (Spark's ``availableNow``)."""
        files = self._sorted_files()
        self._target = name_of(files[-1].path) if files else ""

    def latest(self, start: MessageOffset, limit: BatchLimit = NO_LIMIT) -> MessageOffset:
        """Return the end of the next batch of message files.

        Raises StorageError if a file has arrived too late to be included.
        """
        files = self._sorted_files()
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

    def files(self, start: MessageOffset, end: MessageOffset) -> list[ListedFile]:
        """Return the message files of a batch. Raises StorageError if they have changed since the batch was planned."""
        batch_files = [
            file for file in self._sorted_files() if start.file < name_of(file.path) <= end.file
        ]
        now = start.after(batch_files)
        if (now.count, now.check) != (end.count, end.check):
            problem = (
                f"the batch from {start.file or 'the beginning'} to {end.file} had {end.count - start.count} files, "
                f"but now has {len(batch_files)}, or files of other sizes"
            )
            raise StorageError(problem, hint="Restore the files of the batch as they were")
        return batch_files

    def _sorted_files(self) -> list[ListedFile]:
        return sorted(self._find(), key=lambda file: name_of(file.path))

    def _check_order(self, start: MessageOffset, files: Sequence[ListedFile]) -> None:
        """Raise StorageError if a file has arrived too late: it sorts before the offset's file.

        Files that were already read may be removed.
        """
        before = [file for file in files if name_of(file.path) <= start.file]
        late: list[ListedFile] = []
        if self._taken is not None and self._at == start.file:
            late = [file for file in before if name_of(file.path) not in self._taken]
        # A file that changed after the last batch must not be taken again.
        late += [file for file in before if (file.modified or 0) > start.modified]
        if late:
            problem = (
                f"the file was added or changed after {start.file} was read, which sorts after it"
            )
            raise StorageError(problem, where=Where(source=late[0].path), hint=HINT)
        if len(before) > start.count:
            problem = f"{len(before)} files sort up to {start.file}, but only {start.count} of them were read"
            raise StorageError(problem, hint=HINT)


def _check(file: ListedFile) -> int:
    text = f"{name_of(file.path)}\n{file.size}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def _bound(files: Sequence[ListedFile], limit: BatchLimit) -> Iterator[ListedFile]:
    """Yield the first of ``files`` up to the limit of a batch, but at least one if there is any."""
    room = limit.bytes
    for number, file in enumerate(files):
        full = limit.files is not None and number >= limit.files
        if number and (full or (room is not None and file.size > room)):
            return
        yield file
        room = None if room is None else room - file.size
