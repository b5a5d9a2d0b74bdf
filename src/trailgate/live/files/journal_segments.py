"""The files of a journal: segments of messages, and id files of segments whose messages are in the trail.

Both consist of frames. A frame is the magic ``TGJ1``, a payload length, the first message's number,
a CRC-32, and some messages in Arrow's stream format. An interrupted write leaves an incomplete
frame at the end of the file, which readers ignore.
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
# After the magic, big-endian: the payload's length in bytes, the number of the first message, and the
# CRC-32 of both and the payload.
_CHECKED: Final = Struct(">QQ")
_SUM: Final = Struct(">I")
_END_OF_STREAM: Final = b"\xff\xff\xff\xff" + bytes(4)  # the end marker of Arrow streams
HEAD: Final = len(MAGIC) + _CHECKED.size + _SUM.size

RESTORE: Final = "Restore the journal: messages that are not in the trail yet exist nowhere else"
SEGMENT: Final = "segment"
IDS: Final = "ids"
# 0000000042.segment, or 0000000042.ids
_NAME: Final = re.compile(r"(\d{10})\.(segment|ids)")


class JournalFrame(NamedTuple):
    """A frame read from a file of a journal: its first message's number, its start and end, its messages."""

    number: int
    begin: int
    end: int
    batch: pa.RecordBatch


def encode_frame(number: int, batch: pa.RecordBatch) -> tuple[Any, ...]:
    """Encode messages as a journal frame: its head, and the three parts of an Arrow stream with one batch."""
    # Arrow's stream writer would copy the batch into a growing buffer.
    payload = (batch.schema.serialize(), batch.serialize(), _END_OF_STREAM)
    checked = _CHECKED.pack(sum(map(len, payload)), number)
    total = zlib.crc32(checked)
    for part in payload:
        total = zlib.crc32(part, total)
    return MAGIC + checked + _SUM.pack(total), *payload


def read_frames(path: Path, begin: int = 0, *, check: bool = True) -> Iterator[JournalFrame]:
    """Yield the frames of a journal file from an offset on, up to the first incomplete frame.

    With ``check``, raises StorageError if a complete frame follows the incomplete one, because the
    file is then damaged.
    """
    with _open(path) as file:
        while (frame := _read(file, begin)) is not None:
            yield frame
            begin = frame.end
        if check:
            _check_torn(file, path, begin)


def walk_heads(path: Path, begin: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield the first message number, start and end of each frame of a journal segment, from an offset on.

    Only the heads are read; payloads are not checked.
    """
    with _open(path) as file:
        while (head_fields := _head(file, begin)) is not None:
            number, size, _ = head_fields
            if size > _bytes_left(file):
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
    """Return a journal frame's first message number, payload size, and head.

    Returns None if there is no complete head at the offset.
    """
    file.seek(begin)
    head = file.read(HEAD)
    if len(head) < HEAD or head[: len(MAGIC)] != MAGIC:
        return None
    size, number = _CHECKED.unpack(head[len(MAGIC) : len(MAGIC) + _CHECKED.size])
    return number, size, head


def _read(file: BinaryIO, begin: int) -> JournalFrame | None:
    """Return the journal frame at an offset, or None if it is incomplete or its checksum is wrong."""
    head_fields = _head(file, begin)
    if head_fields is None:
        return None
    number, size, head = head_fields
    checked = head[len(MAGIC) : len(MAGIC) + _CHECKED.size]
    if size > _bytes_left(file):
        return None
    payload = file.read(size)
    if zlib.crc32(payload, zlib.crc32(checked)) != _SUM.unpack(head[-_SUM.size :])[0]:
        return None
    with pa.ipc.open_stream(pa.py_buffer(payload)) as stream:
        batch = stream.read_next_batch()
    return JournalFrame(number, begin, begin + HEAD + size, batch)


def _bytes_left(file: BinaryIO) -> int:
    at = file.tell()
    end = file.seek(0, 2)
    file.seek(at)
    return end - at


def _check_torn(file: BinaryIO, path: Path, begin: int) -> None:
    """Raise StorageError if a complete journal frame follows the incomplete one at ``begin``.

    An interrupted write can only leave an incomplete frame at the end, so this is damage.
    """
    file.seek(begin)
    rest = file.read()
    at = rest.find(MAGIC, 1)
    while at >= 0:
        if _read(file, begin + at) is not None:
            raise StorageError(
                "the journal is damaged: a complete frame follows an incomplete one",
                where=Where(source=str(path), offset=begin, raw=rest[:HEAD]),
                hint=RESTORE,
            )
        at = rest.find(MAGIC, at + 1)


@dataclass(frozen=True, slots=True)
class JournalFile:
    """One file of a journal: its path, its number, and whether it is a segment or an id file (``kind``).

    ``kind`` is ``SEGMENT`` or ``IDS``. The id file of a deleted segment has the segment's number.
    """

    path: Path
    number: int
    kind: str


def journal_files(folder: Path) -> list[JournalFile]:
    """Return the files of a journal, in order. Raises StorageError if a segment is missing."""
    files_by_number: dict[int, JournalFile] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        matched = _NAME.fullmatch(path.name)
        if matched is not None:
            number, kind = int(matched[1]), matched[2]
            # If the id file exists, the segment was about to be deleted, and counts as deleted.
            if files_by_number.get(number) is None or kind == IDS:
                files_by_number[number] = JournalFile(path, number, kind)
    files = [files_by_number[number] for number in sorted(files_by_number)]
    for before, after in pairwise(files):
        if after.number != before.number + 1 or (before.kind, after.kind) == (SEGMENT, IDS):
            problem = (
                f"the journal lacks a segment between {before.path.name} and {after.path.name}"
            )
            raise StorageError(problem, where=Where(source=str(folder)), hint=RESTORE)
    return files


def segment_frames(folder: Path) -> Iterator[tuple[JournalFile, JournalFrame]]:
    """Yield the frames of all segments of a journal, each with its file."""
    for file in journal_files(folder):
        if file.kind == SEGMENT:
            for frame in read_frames(file.path):
                yield file, frame


def file_path(folder: Path, number: int, kind: str) -> Path:
    """Return the path of a journal's file, such as ``0000000042.segment``."""
    return folder / f"{number:010d}.{kind}"


class GrowingSegment:
    """The last segment of a journal, to which frames are appended.

    When it is opened, the file is truncated to ``size`` bytes, or created.
    """

    def __init__(self, folder: Path, number: int, size: int) -> None:
        self.path, self.number, self.size = file_path(folder, number, SEGMENT), number, size
        self._file = WrittenFile(self.path)
        self._file.truncate(size)
        self._file.sync()

    def append(self, *parts: Any) -> None:
        """Append bytes to the journal's last segment and sync them.

        If this fails, the segment is restored to its old size.
        """
        begin = self.size
        try:
            for part in parts:
                self._file.write(self.size, part)
                self.size += len(part)
            self._file.sync()
        # Remove the incomplete frame, so that the next one is appended after the last complete one.
        except BaseException:
            self.size = begin
            self._file.truncate(begin)
            raise

    def close(self) -> None:
        """Close the file of the journal's last segment."""
        self._file.close()
