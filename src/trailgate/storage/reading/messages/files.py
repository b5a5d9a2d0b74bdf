"""Message files: found in name order, and cut into ranges that can be read apart.

A message belongs to the range in which its first byte lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from trailgate.messages.parsing.cutting import MessageCutter
from trailgate.storage.files.compressed_file import codec_of
from trailgate.storage.files.even_cuts import even_cuts
from trailgate.storage.files.found_files import Addresses, FoundFile, find_files
from trailgate.storage.reading.messages.file_list import FileList, MessageFile

SPLIT_BYTES: Final = 128 << 20  # of a range: a task's start costs little beside its work
LEAST_BYTES: Final = 16 << 20  # of a range: a task's start costs as much as a shorter one
SHARED: Final = 4  # ranges into which less input is cut, so that a few cores have work
LONGEST: Final = 256 << 20  # a message is held in memory: longer ones are an option
CUT_FROM: Final = 100 << 20  # a message of more bytes is cut, where its kind can be


class MessagePlace(NamedTuple):
    """A file's number and a byte offset in it; places compare in the order of messages."""

    file: int
    offset: int


START: Final = MessagePlace(0, 0)


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """Message files in order; ``per_line``: each line of a file is a message.

    A file that is one message of more than ``cut_from`` bytes is cut, if there is a ``cutter``.
    """

    files: Sequence[MessageFile]
    per_line: bool = False
    longest: int = LONGEST
    cutter: MessageCutter | None = None
    cut_from: int = CUT_FROM

    @property
    def start(self) -> MessagePlace:
        """Return the place of the first message."""
        return MessagePlace(0, self.files[0].begin if self.files else 0)

    @property
    def end(self) -> MessagePlace:
        """Return the place after everything."""
        return MessagePlace(len(self.files), 0)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)

    def window(self, own: MessageRange) -> MessageFiles:
        """Return the files that a range begins in, up to the one that it ends in: all that it needs where messages are not read on after it."""
        return replace(self, files=self.files[own.start.file : own.end.file + 1])

    def lined(self, number: int) -> bool:
        """Return whether a file holds more than one message."""
        return self.per_line or self.files[number].json

    def splittable(self, number: int) -> bool:
        """Return whether a file can be read from a byte on that is not its first."""
        return self.lined(number) and self.files[number].codec is None


@dataclass(frozen=True, slots=True)
class MessageRange:
    """The messages whose first byte lies in [start, end)."""

    start: MessagePlace
    end: MessagePlace

    def moved(self, files: int) -> MessageRange:
        """Return the range where files are numbered from another one on."""
        start, end = self.start, self.end
        return MessageRange(
            start._replace(file=start.file - files), end._replace(file=end.file - files)
        )


def find_messages(
    path: Addresses,
    per_line: bool = False,
    longest: int = LONGEST,
    cutter: MessageCutter | None = None,
) -> MessageFiles:
    """Return the message files at an address or several, as ``find_files`` does.

    Raises StorageError where there are none.
    """
    found = find_files(path, "messages", "no messages here")
    return messages_of(found, per_line, longest, cutter)


def messages_of(
    found: Iterable[FoundFile],
    per_line: bool = False,
    longest: int = LONGEST,
    cutter: MessageCutter | None = None,
) -> MessageFiles:
    """Return files that were found as message files."""
    files = FileList(_file(file.path, file.size) for file in found)
    return MessageFiles(files, per_line, longest, cutter)


def _file(path: str, size: int) -> MessageFile:
    codec, name = codec_of(path), path.casefold()
    if codec is not None:
        name = name.rpartition(".")[0]
    return MessageFile(path, size, name.endswith(".jsonl"), codec=codec)


def plan_ranges(
    messages: MessageFiles, split_bytes: int = SPLIT_BYTES, *, apart: bool = True
) -> tuple[MessageRange, ...]:
    """Return consecutive ranges of about one size that cover everything; only files of lines are split, and not compressed ones.

    There is one range where messages cannot be read ``apart`` from those before them.

    A range has at most ``split_bytes``. Where that makes fewer than ``SHARED`` ranges, there are so many of at least
    ``LEAST_BYTES``. The ranges depend on the input alone, so that the files made of them are the same on any number of cores.
    """
    if not messages.files:
        return ()
    if not apart:
        return (MessageRange(messages.start, messages.end),)
    cuts = [messages.start]
    sizes = [max(file.size - file.begin, 1) for file in messages.files]
    shared = max(LEAST_BYTES, -(-sum(sizes) // SHARED))
    for number, offset in even_cuts(sizes, min(split_bytes, shared)):
        size = messages.files[number].size
        if messages.splittable(number):
            place = MessagePlace(number, messages.files[number].begin + offset)
        else:  # the nearer end of the file
            place = MessagePlace(number if 2 * offset < size else number + 1, 0)
        if cuts[-1] < place < messages.end:
            cuts.append(place)
    return tuple(MessageRange(*ends) for ends in pairwise([*cuts, messages.end]))
