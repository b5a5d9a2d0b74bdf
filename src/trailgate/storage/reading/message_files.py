"""Message files in name order, cut into ranges that can be read in parallel, and read in batches.

A file contains one message, or a message per line, or per line a JSON object with body and headers.
A message belongs to the range that contains its first byte. The list of files is stored as columns,
because a list of a hundred thousand files is sent to every task, which needs only a few of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import CHUNK, Longs, Octets
from trailgate.columnar.rows import distinct_numbers
from trailgate.errors import DecodeError, TrailgateError, Where, shown_source
from trailgate.messages.error_columns import ErrorColumns
from trailgate.messages.message_batch import MessageBatch, MessageCutter
from trailgate.storage.files.addresses import Addresses
from trailgate.storage.files.even_parts import even_cuts
from trailgate.storage.files.file_search import ListedFile, describe_empty_files, find_files
from trailgate.storage.files.opened_file import (
    CompressedFile,
    OpenedFile,
    codec_of,
    is_empty_file,
)
from trailgate.storage.reading.message_lines import (
    MessagePosition,
    ReadMessages,
    join_messages,
    json_messages,
    line_messages,
)

# The maximum range: starting a task costs little compared to it.
MESSAGE_SPLIT_BYTES: Final = 128 << 20
LEAST_BYTES: Final = 16 << 20  # the minimum range: starting a task costs as much as reading it
# The number of ranges to aim for with less input, so that several cores have work.
SHARED: Final = 4
LONGEST: Final = 256 << 20  # the default maximum of a message, as it must fit memory
CUT_FROM: Final = 100 << 20  # larger messages are cut into transactions, if their format can be

BATCH_MESSAGES: Final = 1 << 14  # the most messages in a batch if each is a file


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A message file: its address, its size when it was listed, and whether it is JSON lines.

    Messages before the byte ``begin`` are skipped. ``codec`` is Arrow's name of its compression;
    offsets of its messages then refer to the uncompressed bytes.
    """

    path: str
    size: int
    json: bool = False
    begin: int = 0
    codec: str | None = None


_Kind = tuple[bool, str | None]  # True for JSON lines, and the codec


class MessageFileList(Sequence[MessageFile]):
    """A compact sequence of message files. Each `MessageFile` is created on access.

    Paths are stored without their common prefix. A pickled list takes a few bytes per file, and no
    time per file.
    """

    def __init__(self, files: Iterable[MessageFile]) -> None:
        files = tuple(files)
        paths = [file.path for file in files]
        self._prefix = os.path.commonprefix(paths)  # noqa: RUF071  of the strings, wherever it ends
        begin = len(self._prefix)
        self._paths = pa.array([path[begin:] for path in paths], pa.large_string())
        self._sizes: Longs = np.array([file.size for file in files], np.int64)
        self._begins: Longs = np.array([file.begin for file in files], np.int64)
        # There are only a few combinations of format and codec, so each file stores a number.
        numbers: dict[_Kind, int] = {}
        kinds = (numbers.setdefault((f.json, f.codec), len(numbers)) for f in files)
        self._kind: Octets = np.fromiter(kinds, np.uint8, len(files))
        self._kinds: tuple[_Kind, ...] = tuple(numbers)

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, at: int) -> MessageFile: ...
    @overload
    def __getitem__(self, at: slice) -> MessageFileList: ...
    def __getitem__(self, at: int | slice) -> MessageFile | MessageFileList:
        if isinstance(at, slice):
            return MessageFileList(self[number] for number in range(*at.indices(len(self))))
        number = range(len(self))[at]  # raises IndexError
        json, codec = self._kinds[self._kind[number]]
        path = self._prefix + self._paths[number].as_py()
        return MessageFile(path, int(self._sizes[number]), json, int(self._begins[number]), codec)

    def __iter__(self) -> Iterator[MessageFile]:
        numbers = (self._sizes.tolist(), self._kind.tolist(), self._begins.tolist())
        for path, size, kind, begin in zip(self._paths.to_pylist(), *numbers, strict=True):
            json, codec = self._kinds[kind]
            yield MessageFile(self._prefix + path, size, json, begin, codec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageFileList | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return the number of message files and a digest of all their attributes."""
        digest = hashlib.sha256(repr((self._prefix, self._kinds)).encode())
        for part in (self._sizes, self._begins, self._kind, *self._paths.buffers()):
            digest.update(b"" if part is None else part)
        return f"<{len(self)} message files {digest.hexdigest()}>"


START: Final = MessagePosition(0, 0)


@dataclass(frozen=True, slots=True)
class MessageFiles:
    """Message files in order. With ``per_line``, each line of a file is a message.

    A file that is a single message of more than ``cut_from`` bytes is cut into parts if there is a
    ``cutter``. A message or part may have at most ``longest`` bytes.
    """

    files: Sequence[MessageFile]
    per_line: bool = False
    longest: int = LONGEST
    cutter: MessageCutter | None = None
    cut_from: int = CUT_FROM

    @property
    def start(self) -> MessagePosition:
        """The position of the first message in the message files."""
        return MessagePosition(0, self.files[0].begin if self.files else 0)

    @property
    def end(self) -> MessagePosition:
        """The position after the last message in the message files."""
        return MessagePosition(len(self.files), 0)

    @property
    def size(self) -> int:
        """The total size of all message files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def empty_note(self) -> str:
        """A sentence that names the empty message files, or "" if there are none."""
        files = ((file.path, file.size) for file in self.files)
        empty = [path for path, size in files if is_empty_file(path, size, "messages")]
        return describe_empty_files(empty)

    def window(self, range_: MessageRange) -> MessageFiles:
        """Return only the message files that are needed to read a range.

        Messages after the range cannot be read from the result.
        """
        return replace(self, files=self.files[range_.start.file : range_.end.file + 1])

    def is_lined(self, number: int) -> bool:
        """Return True if the message file ``number`` may contain several messages, as JSON lines or one per line."""
        return self.per_line or self.files[number].json

    def splittable(self, number: int) -> bool:
        """Return True if a message file can be read from a byte other than its first."""
        return self.is_lined(number) and self.files[number].codec is None


@dataclass(frozen=True, slots=True)
class MessageRange:
    """A range of messages: all messages whose first byte is in [start, end)."""

    start: MessagePosition
    end: MessagePosition

    def move(self, files: int) -> MessageRange:
        """Return the range with file indexes reduced by ``files``, for a list without its first files."""
        start, end = self.start, self.end
        return MessageRange(
            start._replace(file=start.file - files), end._replace(file=end.file - files)
        )


def position_of(batch: MessageBatch, message: int) -> MessagePosition:
    """Return the position in the message files at which a message of a batch begins."""
    return MessagePosition(int(batch.files[message]), int(batch.offsets[message]))


def with_message_place(
    error: TrailgateError, files: MessageFiles, position: MessagePosition
) -> TrailgateError:
    """Add to a message's error the name of its message file and, if the file has several messages, its offset."""
    where, path = error.where, shown_source(files.files[position.file].path)
    if files.is_lined(position.file):
        error.where = replace(where, source=path, message=None, begin=position.offset)
    else:  # the file is a single message, or this is a part of it
        offset = where.offset if where.offset is None else where.offset + position.offset
        error.where = replace(where, source=path, message=None, offset=offset)
    return error


def with_message_places(
    errors: ErrorColumns, files: MessageFiles, numbers: Longs, offsets: Longs
) -> ErrorColumns:
    """Add the message files and offsets to the errors of several messages, as `with_message_place` does for one."""
    known, which = distinct_numbers(numbers)
    names = [shown_source(files.files[number].path) for number in known.tolist()]
    paths = pa.array(names, pa.string())
    lined = np.array([files.is_lined(number) for number in known.tolist()], bool)[which]
    source = paths[0] if len(paths) == 1 else paths.take(pa.array(which))
    begin, within = errors.columns.get("begin"), errors.columns.get("offset")
    # In a file of one message per line, a place has two offsets: where the line begins, and the
    # offset within it. In other files it has one, from the start of the file.
    if lined.any():
        begin = pa.array(offsets, mask=~lined)
    if not lined.all() and within is not None:
        within = pc.add(within, pa.array(np.where(lined, 0, offsets)))
    return errors.replace(source=source, message=None, begin=begin, offset=within)


def find_messages(
    path: Addresses,
    per_line: bool = False,
    longest: int = LONGEST,
    cutter: MessageCutter | None = None,
) -> MessageFiles:
    """Find the message files at one or several addresses, as ``find_files`` does.

    The other arguments are attributes of the result. Raises StorageError if there are no files.
    """
    found = find_files(path, "messages", "no messages here")
    return messages_of(found, per_line, longest, cutter)


def messages_of(
    parts: Iterable[ListedFile],
    per_line: bool = False,
    longest: int = LONGEST,
    cutter: MessageCutter | None = None,
) -> MessageFiles:
    """Convert listed files to ``MessageFiles``; JSON lines and codecs are known by the files' names."""
    files = MessageFileList(_file(file.path, file.size) for file in parts)
    return MessageFiles(files, per_line, longest, cutter)


def _file(path: str, size: int) -> MessageFile:
    codec, name = codec_of(path), path.casefold()
    if codec is not None:
        name = name.rpartition(".")[0]
    return MessageFile(path, size, name.endswith(".jsonl"), codec=codec)


def plan_ranges(
    messages: MessageFiles, split_bytes: int = MESSAGE_SPLIT_BYTES, *, independent: bool = True
) -> tuple[MessageRange, ...]:
    """Divide message files into consecutive ranges of about equal size, at most ``split_bytes``.

    Only uncompressed files with one message per line (also as JSON lines) are divided. If messages
    are not ``independent``, because each can only be parsed after all earlier ones, there is a
    single range. Small inputs are divided into ``SHARED`` ranges of at least ``LEAST_BYTES``. Ranges
    depend only on the input, so that output files are the same on any number of cores.
    """
    if not messages.files:
        return ()
    if not independent:
        return (MessageRange(messages.start, messages.end),)
    cuts = [messages.start]
    sizes = [max(file.size - file.begin, 1) for file in messages.files]
    # At least SHARED ranges, unless they would be too small.
    shared = max(LEAST_BYTES, -(-sum(sizes) // SHARED))
    for number, offset in even_cuts(sizes, min(split_bytes, shared)):
        size = messages.files[number].size
        if messages.splittable(number):
            place = MessagePosition(number, messages.files[number].begin + offset)
        else:  # the nearer end of the file
            place = MessagePosition(number if 2 * offset < size else number + 1, 0)
        if cuts[-1] < place < messages.end:
            cuts.append(place)
    return tuple(MessageRange(*ends) for ends in pairwise([*cuts, messages.end]))


Reader = OpenedFile | CompressedFile


def read_messages(
    files: MessageFiles, start: MessagePosition = START, chunk: int = CHUNK
) -> Iterator[ReadMessages]:
    """Read the messages of message files from a position to the end, in batches of about ``chunk`` bytes."""
    pending: list[ReadMessages] = []
    size = count = 0
    for read in _read(files, start, chunk):
        read_bytes, number = int(read.messages.data.size), len(read.messages)
        # Small files are combined into one batch.
        if pending and (size + read_bytes > chunk or count + number > BATCH_MESSAGES):
            yield join_messages(pending)
            pending, size, count = [], 0, 0
        pending.append(read)
        size += read_bytes
        count += number
    if pending:
        yield join_messages(pending)


def _read(files: MessageFiles, start: MessagePosition, chunk: int) -> Iterator[ReadMessages]:
    for number in range(start.file, len(files.files)):
        file = files.files[number]
        offset = max(file.begin, start.offset if number == start.file else 0)
        with _open(file) as reader:
            if not files.is_lined(number):
                yield from _read_unlined(reader, files, MessagePosition(number, offset), chunk)
                continue
            parse = json_messages if file.json else line_messages
            for base, data in _read_lines(reader, offset, chunk, files.longest):
                read = parse(data, MessagePosition(number, base), file.path)
                if len(read.messages):
                    yield read


def read_file_lines(
    file: MessageFile, longest: int = LONGEST, *, having: bytes = b""
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a message file that contain ``having``, without their newlines and with their numbers from 1.

    Lines before the byte ``file.begin`` are skipped, but counted. Raises DecodeError if a line is
    longer than ``longest`` bytes.
    """
    number = 0
    with _open(file) as reader:
        for base, data in _read_lines(reader, 0, CHUNK, longest):
            begin, lines = base, bytes(data)
            # Searching a whole chunk at once is much faster than dividing it into lines.
            if having not in lines:
                number += lines.count(b"\n")
                continue
            for line in lines.removesuffix(b"\n").split(b"\n"):
                number += 1
                if begin >= file.begin and having in line:
                    yield number, line
                begin += len(line) + 1


def _open(file: MessageFile) -> Reader:
    if file.codec is None:
        return OpenedFile(file.path, file.size, "messages")
    return CompressedFile(file.path, file.codec, "messages")


def _read_unlined(
    reader: Reader, files: MessageFiles, start: MessagePosition, chunk: int
) -> Iterator[ReadMessages]:
    """Yield the single message of a message file, or its parts from an offset on if it is cut."""
    number, offset = start
    file = files.files[number]
    cutter = files.cutter if files.cutter and _has_more(file, files.cut_from) else None
    why_not = "" if cutter is None else cutter.why_not()
    if cutter is None or why_not:
        if offset == 0:
            yield ReadMessages(_read_complete(reader, number, files.longest, chunk, why_not))
        return

    def chunks() -> Iterator[bytes]:
        place = 0
        with _open(file) as again:
            while data := bytes(again.read(place, CHUNK)):
                yield data
                place += len(data)

    try:
        for batch in cutter.cut(chunks, number, files.longest):
            # The offsets are in ascending order: skip the parts before the position where an
            # earlier run ended.
            later = int(np.searchsorted(batch.offsets, offset))
            if later < len(batch):
                yield ReadMessages(batch.slice(later, len(batch)))
    except DecodeError as error:
        raise error.with_place(source=reader.path) from None


def _has_more(file: MessageFile, size: int) -> bool:
    """Return True if a message file has more than ``size`` bytes.

    To find out, a compressed file is unpacked.
    """
    if file.codec is None:
        return file.size > size
    with _open(file) as reader:
        return bool(reader.read(size, 1))


def _read_complete(
    reader: Reader, number: int, longest: int, chunk: int, why_not: str
) -> MessageBatch:
    """Read a message file as one message. ``number`` is the index of the file.

    Raises DecodeError if the message is longer than ``longest`` bytes. ``why_not`` explains in the
    error why the message cannot be read in parts.
    """
    # The size of a compressed file's content is unknown, so double the buffer until all is read.
    size = chunk if isinstance(reader, CompressedFile) else min(reader.size, longest + 1)
    data = reader.read(0, size)
    while not reader.is_at_end(data.size) and size <= longest:
        size = min(2 * size, longest + 1)
        data = reader.read(0, size)
    if data.size > longest:
        raise _too_long(reader.path, 0, longest, why_not)
    zero = np.zeros(1, np.int64)
    return MessageBatch(data, zero, zero + data.size, zero + number, zero)


def _read_lines(
    reader: Reader, offset: int, chunk: int, longest: int
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield blocks of complete lines of a message file, with their offsets.

    The first line is the first one that starts at or after ``offset``; lines start after a newline,
    or at the start of the file.
    """
    # A line that starts exactly at the offset follows a newline at offset - 1.
    at = offset if offset == 0 else _after_newline(reader, offset - 1, chunk)
    size = chunk
    while not reader.is_at_end(at):
        data = reader.read(at, size)
        if not data.size:
            return
        if not reader.is_at_end(at + data.size):
            length = _whole_lines(data)
            # A line is longer than the buffer: read more.
            if not length:
                if data.size > longest:
                    raise _too_long(reader.path, at, longest)
                size = min(2 * size, longest + 1)
                continue
            data = data.slice(0, length)
        yield at, data
        at += data.size
        size = chunk


def _whole_lines(data: pa.Buffer) -> int:
    """Return the length of the complete lines at the start of bytes of a message file."""
    # Lines are usually short, so search the last bytes for a newline first.
    tail = max(0, int(data.size) - 4096)
    newline = bytes(data[tail:]).rfind(b"\n")
    if newline >= 0:
        return tail + newline + 1
    last: int = bytes(data).rfind(b"\n")
    return last + 1


def _after_newline(reader: Reader, at: int, chunk: int) -> int:
    """Return the offset after the first newline at or after an offset, or the file's end."""
    step = min(chunk, 1 << 16)
    while not reader.is_at_end(at):
        data = bytes(reader.read(at, step))
        newline = data.find(b"\n")
        if newline >= 0:
            return at + newline + 1
        if not data:
            break
        at += len(data)
    return at


def _too_long(path: str, at: int, longest: int, why_not: str = "") -> DecodeError:
    hint = "Does the file have one message per line (--message-per line)?"
    return DecodeError(
        f"a message is longer than {longest} bytes",
        where=Where(source=path, offset=at),
        hint=f"It cannot be cut: {why_not}" if why_not else hint,
    )
