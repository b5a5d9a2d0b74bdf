"""Message files: found in name order, and cut into ranges that can be read apart.

A message belongs to the range in which its first byte lies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from pyarrow import fs

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import Address, locate
from trailgate.storage.files.even_cuts import even_cuts

SPLIT_BYTES: Final = 128 << 20  # of a range: a task's start costs little beside its work
LONGEST: Final = 256 << 20  # a message is held in memory: longer ones are an option


class MessagePlace(NamedTuple):
    """A file's number and a byte offset in it; places compare in the order of messages."""

    file: int
    offset: int


START: Final = MessagePlace(0, 0)


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A message file: its address, its size when it was found, and whether it is JSON lines."""

    path: str
    size: int
    json: bool = False


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """Message files in order; ``per_line``: each line of a file is a message."""

    path: str
    files: tuple[MessageFile, ...]
    per_line: bool = False
    longest: int = LONGEST

    @property
    def end(self) -> MessagePlace:
        """Return the place after everything."""
        return MessagePlace(len(self.files), 0)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)

    def lined(self, number: int) -> bool:
        """Return whether a file holds more than one message."""
        return self.per_line or self.files[number].json


@dataclass(frozen=True, slots=True)
class MessageRange:
    """The messages whose first byte lies in [start, end)."""

    start: MessagePlace
    end: MessagePlace


def find_messages(path: Address, per_line: bool = False, longest: int = LONGEST) -> MessageFiles:
    """Return the message files of a directory in name order, or one file.

    Hidden files are not taken. Raises StorageError where there is nothing.
    """
    asked = os.fspath(path)
    store, place = locate(asked)
    info = store.get_file_info(place)
    if info.type == fs.FileType.File:
        return MessageFiles(asked, (_file(asked, info.size),), per_line, longest)
    if info.type != fs.FileType.Directory:
        raise StorageError("no messages here", where=Where(source=asked))
    entries = store.get_file_info(fs.FileSelector(place))
    found = sorted(
        (entry.base_name, entry.size)
        for entry in entries
        if entry.type == fs.FileType.File and not entry.base_name.startswith(".")
    )
    if not found:
        raise StorageError("no message files in the folder", where=Where(source=asked))
    folder = asked.rstrip("/")
    files = tuple(_file(f"{folder}/{name}", size) for name, size in found)
    return MessageFiles(asked, files, per_line, longest)


def _file(path: str, size: int) -> MessageFile:
    return MessageFile(path, size, path.casefold().endswith(".jsonl"))


def plan_ranges(messages: MessageFiles, split_bytes: int = SPLIT_BYTES) -> tuple[MessageRange, ...]:
    """Return consecutive ranges of about one size that cover everything; only files of lines are split."""
    cuts = [START]
    for number, offset in even_cuts([max(file.size, 1) for file in messages.files], split_bytes):
        size = messages.files[number].size
        if messages.lined(number):
            place = MessagePlace(number, offset)
        else:  # the nearer end of the file
            place = MessagePlace(number if 2 * offset < size else number + 1, 0)
        if cuts[-1] < place < messages.end:
            cuts.append(place)
    return tuple(MessageRange(*ends) for ends in pairwise([*cuts, messages.end]))
