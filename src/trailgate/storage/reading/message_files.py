"""Message files as a list in name order, cut into ranges that can be read apart, and read in batches: whole files, lines, or lines of JSON.

A message belongs to the range in which its first byte lies. The list is columns: one of a hundred thousand files is sent to every task, which looks at
a few of them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, overload

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK, Longs, Octets
from trailgate.columnar.delimited import find_all
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.bounds import Problem
from trailgate.messages.messages import NO_HEADERS, MessageBatch, MessageCutter
from trailgate.storage.files.found_files import Addresses, FoundFile, even_cuts, find_files
from trailgate.storage.files.opened_file import CompressedFile, OpenedFile, codec_of
from trailgate.storage.files.quarantine import read_line


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A message file: its address, its size when it was found, and whether it is JSON lines.

    ``begin``: the messages before this byte are left out. ``codec``: Arrow's name of its compression; its messages then
    have places in what is unpacked.
    """

    path: str
    size: int
    json: bool = False
    begin: int = 0
    codec: str | None = None


_Kind = tuple[bool, str | None]  # whether it is JSON lines, and the codec


class FileList(Sequence[MessageFile]):
    """Message files in order, which are made when they are asked for.

    Paths are kept without what all of them begin with. A list takes a few bytes a file where it is pickled, and no time a file.
    """

    def __init__(self, files: Iterable[MessageFile]) -> None:
        files = tuple(files)
        paths = [file.path for file in files]
        self._prefix = os.path.commonprefix(paths)  # noqa: RUF071  of the strings, wherever it ends
        begin = len(self._prefix)
        self._paths = pa.array([path[begin:] for path in paths], pa.large_string())
        self._sizes: Longs = np.array([file.size for file in files], np.int64)
        self._begins: Longs = np.array([file.begin for file in files], np.int64)
        numbers: dict[_Kind, int] = {}
        kinds = (numbers.setdefault((f.json, f.codec), len(numbers)) for f in files)
        self._kind: Octets = np.fromiter(kinds, np.uint8, len(files))
        self._kinds: tuple[_Kind, ...] = tuple(numbers)

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, at: int) -> MessageFile: ...
    @overload
    def __getitem__(self, at: slice) -> FileList: ...
    def __getitem__(self, at: int | slice) -> MessageFile | FileList:
        if isinstance(at, slice):
            return FileList(self[number] for number in range(*at.indices(len(self))))
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
        return isinstance(other, FileList | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return how many files there are, and a digest of all that is known of them."""
        digest = hashlib.sha256(repr((self._prefix, self._kinds)).encode())
        for part in (self._sizes, self._begins, self._kind, *self._paths.buffers()):
            digest.update(b"" if part is None else part)
        return f"<{len(self)} message files {digest.hexdigest()}>"


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

    def is_lined(self, number: int) -> bool:
        """Return whether a file holds more than one message."""
        return self.per_line or self.files[number].json

    def splittable(self, number: int) -> bool:
        """Return whether a file can be read from a byte on that is not its first."""
        return self.is_lined(number) and self.files[number].codec is None


@dataclass(frozen=True, slots=True)
class MessageRange:
    """The messages whose first byte lies in [start, end)."""

    start: MessagePlace
    end: MessagePlace

    def move(self, files: int) -> MessageRange:
        """Return the range where files are numbered from another one on."""
        start, end = self.start, self.end
        return MessageRange(
            start._replace(file=start.file - files), end._replace(file=end.file - files)
        )


def place_of(batch: MessageBatch, message: int) -> MessagePlace:
    """Return where a message of a batch begins."""
    return MessagePlace(int(batch.files[message]), int(batch.offsets[message]))


def with_place(error: TrailgateError, files: MessageFiles, place: MessagePlace) -> TrailgateError:
    """Return the error with its file's name and, where that has more, its message's place."""
    where, path = error.where, files.files[place.file].path
    if files.is_lined(place.file):
        error.where = replace(where, source=path, message=None, begin=place.offset)
    else:  # the file is one message, or this is a part of it
        offset = where.offset if where.offset is None else where.offset + place.offset
        error.where = replace(where, source=path, message=None, offset=offset)
    return error


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


BATCH_MESSAGES: Final = 1 << 14  # messages of a batch, where each is a file
NEWLINE: Final = 10
RETURN: Final = 13
Reader = OpenedFile | CompressedFile


class ReadMessages(NamedTuple):
    """Messages as they are read; one that cannot be read has an empty body and a problem."""

    messages: MessageBatch
    problems: tuple[Problem, ...] = ()

    def part(self, begin: int, stop: int) -> ReadMessages:
        """Return the messages from ``begin`` to before ``stop``."""
        own = (p for p in self.problems if begin <= p.message < stop)
        problems = tuple(Problem(p.message - begin, p.error) for p in own)
        return ReadMessages(self.messages.slice(begin, stop), problems)


def read_messages(
    files: MessageFiles, start: MessagePlace = START, chunk: int = CHUNK
) -> Iterator[ReadMessages]:
    """Yield the messages from a place on, through all later files."""
    held: list[ReadMessages] = []
    size = count = 0
    for read in _read(files, start, chunk):
        own, number = int(read.messages.data.size), len(read.messages)
        if held and (size + own > chunk or count + number > BATCH_MESSAGES):
            yield join(held)
            held, size, count = [], 0, 0
        held.append(read)
        size += own
        count += number
    if held:
        yield join(held)


def _read(files: MessageFiles, start: MessagePlace, chunk: int) -> Iterator[ReadMessages]:
    for number in range(start.file, len(files.files)):
        file = files.files[number]
        offset = max(file.begin, start.offset if number == start.file else 0)
        with _open(file) as reader:
            if not files.is_lined(number):
                yield from _unlined(reader, files, MessagePlace(number, offset), chunk)
                continue
            parse = json_messages if file.json else line_messages
            for base, data in _lines(reader, offset, chunk, files.longest):
                read = parse(data, MessagePlace(number, base), file.path)
                if len(read.messages):
                    yield read


def _open(file: MessageFile) -> Reader:
    if file.codec is None:
        return OpenedFile(file.path, file.size, "messages")
    return CompressedFile(file.path, file.codec, "messages")


def _unlined(
    reader: Reader, files: MessageFiles, start: MessagePlace, chunk: int
) -> Iterator[ReadMessages]:
    """Yield the message that a file is, or its parts from a place on if it is cut."""
    number, offset = start
    file = files.files[number]
    cutter = files.cutter if files.cutter and _has_more(file, files.cut_from) else None
    why_not = "" if cutter is None else cutter.why_not()
    if cutter is None or why_not:
        if offset == 0:
            yield ReadMessages(_whole(reader, number, files.longest, chunk, why_not))
        return

    def chunks() -> Iterator[bytes]:
        place = 0
        with _open(file) as again:
            while data := bytes(again.read(place, CHUNK)):
                yield data
                place += len(data)

    try:
        for batch in cutter.cut(chunks, number, files.longest):
            later = int(np.searchsorted(batch.offsets, offset))
            if later < len(batch):
                yield ReadMessages(batch.slice(later, len(batch)))
    except DecodeError as error:
        raise error.with_place(source=reader.path) from None


def _has_more(file: MessageFile, size: int) -> bool:
    """Return whether a file has more bytes; a compressed one is unpacked to see it."""
    if file.codec is None:
        return file.size > size
    with _open(file) as reader:
        return bool(reader.read(size, 1))


def _whole(reader: Reader, number: int, longest: int, chunk: int, why_not: str) -> MessageBatch:
    size = chunk if isinstance(reader, CompressedFile) else min(reader.size, longest + 1)
    data = reader.read(0, size)
    while not reader.ended(data.size) and size <= longest:
        size = min(2 * size, longest + 1)
        data = reader.read(0, size)
    if data.size > longest:
        raise _too_long(reader.path, 0, longest, why_not)
    zero = np.zeros(1, np.int64)
    return MessageBatch(data, zero, zero + data.size, zero + number, zero)


def _lines(
    reader: Reader, offset: int, chunk: int, longest: int
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield whole lines: (offset, bytes). A line begins after a newline or at the file's start."""
    at = offset if offset == 0 else _after_newline(reader, offset - 1, chunk)
    size = chunk
    while not reader.ended(at):
        data = reader.read(at, size)
        if not data.size:
            return
        if not reader.ended(at + data.size):
            length = _whole_lines(data)
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
    """Return the length of the whole lines that bytes begin with."""
    # Lines are mostly short: the last newline is sought in the last bytes first.
    tail = max(0, int(data.size) - 4096)
    found = bytes(data[tail:]).rfind(b"\n")
    if found >= 0:
        return tail + found + 1
    last: int = bytes(data).rfind(b"\n")
    return last + 1


def _after_newline(reader: Reader, at: int, chunk: int) -> int:
    """Return the place after the first newline from a place on."""
    step = min(chunk, 1 << 16)
    while not reader.ended(at):
        data = bytes(reader.read(at, step))
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1
        if not data:
            break
        at += len(data)
    return at


def _too_long(path: str, at: int, longest: int, why_not: str = "") -> DecodeError:
    hint = "Is the file one message a line (--message-per line)?"
    return DecodeError(
        f"a message is longer than {longest} bytes",
        where=Where(source=path, offset=at),
        hint=f"It cannot be cut: {why_not}" if why_not else hint,
    )


def line_bounds(data: pa.Buffer) -> tuple[Longs, Longs]:
    """Return start and end of the lines that are not empty, without newline and return."""
    octets = np.frombuffer(data, np.uint8)
    newlines = find_all(octets, b"\n")
    if len(octets) and octets[-1] != NEWLINE:
        newlines = np.append(newlines, len(octets))
    ends = newlines.astype(np.int64)
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    ends = ends - ((ends > starts) & (octets[np.maximum(ends - 1, 0)] == RETURN))
    filled = ends > starts
    return starts[filled], ends[filled]


def line_messages(data: pa.Buffer, begin: MessagePlace, _: str = "") -> ReadMessages:
    """Return each line as a message; ``begin`` is the data's place."""
    starts, ends = line_bounds(data)
    files = np.full(len(starts), begin.file, np.int64)
    return ReadMessages(MessageBatch(data, starts, ends, files, starts + begin.offset))


def json_messages(data: pa.Buffer, begin: MessagePlace, source: str = "") -> ReadMessages:
    """Return the body and headers of each JSON line; ``begin`` is the data's place."""
    starts, ends = line_bounds(data)
    view = memoryview(data)
    bodies, headers, problems = [], [], []
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            body, header = read_line(bytes(view[start:end]))
        except TrailgateError as error:
            body, header = b"", NO_HEADERS
            offset = begin.offset + start
            problems.append(Problem(i, error.with_place(source=source, offset=offset)))
        bodies.append(body)
        headers.append(header)
    bounds = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum([len(body) for body in bodies], out=bounds[1:])
    messages = MessageBatch(
        pa.py_buffer(b"".join(bodies)),
        bounds[:-1],
        bounds[1:],
        np.full(len(starts), begin.file, np.int64),
        starts + begin.offset,
        tuple(headers),
    )
    return ReadMessages(messages, tuple(problems))


def join(parts: Sequence[ReadMessages]) -> ReadMessages:
    """Return messages of several files together; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    batches = [part.messages for part in parts]
    counts = np.cumsum([0, *(len(batch) for batch in batches[:-1])]).tolist()
    problems = tuple(
        Problem(problem.message + count, problem.error)
        for part, count in zip(parts, counts, strict=True)
        for problem in part.problems
    )
    return ReadMessages(MessageBatch.join(batches), problems)
