"""The files of a journal: segments of messages, and the ids of segments whose messages are in the trail.

Both consist of frames: some messages in Arrow's stream format, with their number, length and checksum.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import WrittenFile

MAGIC: Final = b"TGJ1"
# After the magic, big-endian: bytes of the payload, the first message's number, and the CRC-32 of both and the payload.
_CHECKED: Final = Struct(">QQ")
_SUM: Final = Struct(">I")
_END_OF_STREAM: Final = b"\xff\xff\xff\xff" + bytes(4)  # Arrow's
HEAD: Final = len(MAGIC) + _CHECKED.size + _SUM.size


class Frame(NamedTuple):
    """A frame that was read: the number of its first message, and where it begins and ends in its segment."""

    number: int
    begin: int
    end: int
    batch: pa.RecordBatch


def encode_frame(number: int, batch: pa.RecordBatch) -> tuple[Any, ...]:
    """Return the parts of a frame: its head, and the three of an Arrow stream of one batch."""
    # A stream writer would copy the batch into a buffer that grows.
    payload = (batch.schema.serialize(), batch.serialize(), _END_OF_STREAM)
    checked = _CHECKED.pack(sum(map(len, payload)), number)
    total = zlib.crc32(checked)
    for part in payload:
        total = zlib.crc32(part, total)
    return MAGIC + checked + _SUM.pack(total), *payload


def read_frames(path: Path, begin: int = 0, *, check: bool = True) -> Iterator[Frame]:
    """Yield the frames of a segment from a byte on, where one begins, up to the first that is not whole.

    With ``check`` raises StorageError where whole ones follow it.
    """
    with _open(path) as file:
        while (frame := _read(file, begin)) is not None:
            yield frame
            begin = frame.end
        if check:
            _check_torn(file, path, begin)


def walk_heads(path: Path, begin: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield of each frame from a byte on its first message's number, where it begins and where it ends; nothing is checked but heads."""
    with _open(path) as file:
        while (found := _head(file, begin)) is not None:
            number, size, _ = found
            if size > _left(file):
                return
            yield number, begin, begin + HEAD + size
            begin += HEAD + size


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        problem = f"cannot open the journal: {error.strerror}"
        raise StorageError(problem, where=Where(source=str(path))) from error


def _head(file: BinaryIO, begin: int) -> tuple[int, int, bytes] | None:
    """Return the number, the size and the bytes of a frame's head, None where there is none."""
    file.seek(begin)
    head = file.read(HEAD)
    if len(head) < HEAD or head[: len(MAGIC)] != MAGIC:
        return None
    size, number = _CHECKED.unpack(head[len(MAGIC) : len(MAGIC) + _CHECKED.size])
    return number, size, head


def _read(file: BinaryIO, begin: int) -> Frame | None:
    """Return the frame at a place, None where there is none that is whole."""
    found = _head(file, begin)
    if found is None:
        return None
    number, size, head = found
    checked = head[len(MAGIC) : len(MAGIC) + _CHECKED.size]
    if size > _left(file):
        return None
    payload = file.read(size)
    if zlib.crc32(payload, zlib.crc32(checked)) != _SUM.unpack(head[-_SUM.size :])[0]:
        return None
    with pa.ipc.open_stream(pa.py_buffer(payload)) as stream:
        batch = stream.read_next_batch()
    return Frame(number, begin, begin + HEAD + size, batch)


def _left(file: BinaryIO) -> int:
    at = file.tell()
    end = file.seek(0, 2)
    file.seek(at)
    return end - at


def _check_torn(file: BinaryIO, path: Path, begin: int) -> None:
    """Raise StorageError where a whole frame follows what is not one: then it is not an interrupted write."""
    file.seek(begin)
    rest = file.read()
    at = rest.find(MAGIC, 1)
    while at >= 0:
        if _read(file, begin + at) is not None:
            raise StorageError(
                "the journal is damaged: a whole frame follows one that is not",
                where=Where(source=str(path), offset=begin, raw=rest[:HEAD]),
                hint="Restore the file; what is not in the trail yet is nowhere else",
            )
        at = rest.find(MAGIC, at + 1)


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


def segment_frames(folder: Path) -> Iterator[tuple[JournalFile, Frame]]:
    """Yield the frames of messages that a journal has, each with its segment."""
    for file in journal_files(folder):
        if file.kind == SEGMENT:
            for frame in read_frames(file.path):
                yield file, frame


def file_path(folder: Path, number: int, kind: str) -> Path:
    """Return the path of a journal's file."""
    return folder / f"{number:010d}.{kind}"


class GrowingSegment:
    """The last segment of a journal, which is written to."""

    def __init__(self, folder: Path, number: int, size: int) -> None:
        self.path, self.number, self.size = file_path(folder, number, SEGMENT), number, size
        self._file = WrittenFile(self.path)
        self._file.truncate(size)
        self._file.sync()

    def append(self, *parts: Any) -> None:
        """Add bytes; they last when this returns. Where that fails the segment is as it was."""
        begin = self.size
        try:
            for part in parts:
                self._file.write(self.size, part)
                self.size += len(part)
            self._file.sync()
        except BaseException:
            self.size = begin
            self._file.truncate(begin)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()
