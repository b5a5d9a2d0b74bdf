"""Message files: found in name order, cut into ranges that can be read apart, read in batches.

A place is (file number, byte offset). A message belongs to the range in which its first byte
lies. Reading goes on through all later files, so that whoever owns a transaction reaches its end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import fs

from trailgate.arrays import Longs
from trailgate.errors import DecodeError, OptionError, StorageError, TrailgateError, Where
from trailgate.messages.capture import MessageBatch, Problem
from trailgate.storage.files.addresses import locate
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.files.quarantine import read_line

SPLIT_BYTES: Final = 128 << 20  # of a range: a task's start costs little beside its work
PORTION: Final = 4 << 20  # bytes of a batch: its integer arrays stay in cache
BATCH_MESSAGES: Final = 1 << 14  # messages of a batch, where each is a file
LONGEST: Final = 256 << 20  # a message is held in memory: who has longer ones says so
NEWLINE: Final = 10
RETURN: Final = 13
NO_HEADERS: Final[Mapping[str, str]] = {}

Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A message file: its address, its size when it was found, and whether it is JSON lines."""

    path: str
    size: int
    json: bool = False


@dataclass(frozen=True, slots=True)
class MessageSource:
    """Message files in order; ``per_line`` says that each line of a file is a message."""

    path: str
    files: tuple[SourceFile, ...]
    per_line: bool = False
    longest: int = LONGEST

    @property
    def end(self) -> Place:
        """Return the place behind everything."""
        return len(self.files), 0

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(file.size for file in self.files)

    def lined(self, number: int) -> bool:
        """Return whether a file holds more than one message."""
        return self.per_line or self.files[number].json


@dataclass(frozen=True, slots=True)
class Range:
    """The messages whose first byte lies in [start, end)."""

    start: Place
    end: Place


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one file: body bounds in ``data``, and where each begins in the file."""

    data: pa.Buffer
    starts: Longs
    ends: Longs
    file: int
    offsets: Longs
    headers: tuple[Mapping[str, str], ...] | None = None
    problems: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """Return the bytes held."""
        return int(self.data.size)


def find_messages(
    path: str | os.PathLike[str], per_line: bool = False, longest: int = LONGEST
) -> MessageSource:
    """Return the message files of a directory in name order, or one file.

    Hidden files are not taken. Raises StorageError where there is nothing.
    """
    asked = os.fspath(path)
    store, place = locate(asked)
    info = store.get_file_info(place)
    if info.type == fs.FileType.File:
        return MessageSource(asked, (_file(asked, info.size),), per_line, longest)
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
    return MessageSource(asked, files, per_line, longest)


def _file(path: str, size: int) -> SourceFile:
    return SourceFile(path, size, path.casefold().endswith(".jsonl"))


def plan_ranges(source: MessageSource, split_bytes: int = SPLIT_BYTES) -> tuple[Range, ...]:
    """Return consecutive ranges that cover everything: small files packed, large ones split."""
    if split_bytes < 1:
        raise OptionError(f"a split of {split_bytes} bytes is too small")
    cuts: list[Place] = [(0, 0)]
    held = 0
    for number, file in enumerate(source.files):
        if held and held + file.size > split_bytes:
            cuts.append((number, 0))
            held = 0
        if source.lined(number) and file.size > split_bytes:
            cuts += [(number, at) for at in range(split_bytes, file.size, split_bytes)]
            held = file.size - cuts[-1][1]
        else:
            held += max(file.size, 1)
    return tuple(Range(*ends) for ends in pairwise([*cuts, source.end]))


def read_messages(
    source: MessageSource, start: Place = (0, 0), portion: int = PORTION
) -> Iterator[tuple[MessageBatch, tuple[Problem, ...]]]:
    """Yield the messages from a place on, and what cannot be read as one.

    A message that cannot be read (a JSON line that is none) has an empty body and a problem.
    """
    held: list[Messages] = []
    size = count = 0
    for messages in _messages(source, start, portion):
        if held and (size + messages.size > portion or count + len(messages) > BATCH_MESSAGES):
            yield batch_of(held)
            held, size, count = [], 0, 0
        held.append(messages)
        size += messages.size
        count += len(messages)
    if held:
        yield batch_of(held)


def _messages(source: MessageSource, start: Place, portion: int) -> Iterator[Messages]:
    for number in range(start[0], len(source.files)):
        file = source.files[number]
        offset = start[1] if number == start[0] else 0
        with OpenedFile(file.path, file.size, "messages") as reader:
            if not source.lined(number):
                if offset == 0:
                    yield _whole(reader, number, source.longest)
                continue
            parse = json_messages if file.json else line_messages
            for base, data in _lines(reader, offset, portion, source.longest):
                messages = parse(data, number, base, file.path)
                if len(messages):
                    yield messages


def _whole(reader: OpenedFile, number: int, longest: int) -> Messages:
    if reader.size > longest:
        raise _too_long(reader.path, 0, longest)
    data = reader.read(0, reader.size)
    zero = np.zeros(1, np.int64)
    return Messages(data, zero, zero + data.size, number, zero)


def _lines(
    reader: OpenedFile, offset: int, portion: int, longest: int
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield whole lines: (offset, bytes). A line begins behind a newline or at the begin."""
    at = offset if offset == 0 else _behind_newline(reader, offset - 1, portion)
    size = portion
    while at < reader.size:
        data = reader.read(at, size)
        if at + data.size < reader.size:
            length = _whole_lines(data)
            if not length:
                if data.size > longest:
                    raise _too_long(reader.path, at, longest)
                size = min(2 * size, longest + 1)
                continue
            data = data.slice(0, length)
        yield at, data
        at += data.size
        size = portion


def _whole_lines(data: pa.Buffer) -> int:
    """Return the length of the whole lines that bytes begin with."""
    # Lines are mostly short: the last newline is sought in the last bytes first.
    tail = max(0, int(data.size) - 4096)
    found = bytes(data[tail:]).rfind(b"\n")
    if found >= 0:
        return tail + found + 1
    last: int = bytes(data).rfind(b"\n")
    return last + 1


def _behind_newline(reader: OpenedFile, at: int, portion: int) -> int:
    """Return the place behind the first newline from a place on."""
    step = min(portion, 1 << 16)
    while at < reader.size:
        data = bytes(reader.read(at, step))
        found = data.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(data)
    return at


def _too_long(path: str, at: int, longest: int) -> DecodeError:
    return DecodeError(
        f"a message is longer than {longest} bytes",
        where=Where(source=path, offset=at),
        hint="Is the file one message a line (--message-per line)?",
    )


def line_bounds(data: pa.Buffer) -> tuple[Longs, Longs]:
    """Return start and end of the lines that are not empty, without newline and return."""
    octets = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(octets == NEWLINE)
    if len(octets) and octets[-1] != NEWLINE:
        newlines = np.append(newlines, len(octets))
    ends = newlines.astype(np.int64)
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    ends = ends - ((ends > starts) & (octets[np.maximum(ends - 1, 0)] == RETURN))
    filled = ends > starts
    return starts[filled], ends[filled]


def line_messages(data: pa.Buffer, file: int, base: int, _: str = "") -> Messages:
    """Return each line as a message."""
    starts, ends = line_bounds(data)
    return Messages(data, starts, ends, file, starts + base)


def json_messages(data: pa.Buffer, file: int, base: int, source: str = "") -> Messages:
    """Return the body and headers of each JSON line."""
    starts, ends = line_bounds(data)
    view = memoryview(data)
    bodies, headers, problems = [], [], []
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            body, header = read_line(bytes(view[start:end]))
        except TrailgateError as error:
            body, header = b"", NO_HEADERS
            problems.append(Problem(i, error.located(source=source, offset=base + start)))
        bodies.append(body)
        headers.append(header)
    bounds = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum([len(body) for body in bodies], out=bounds[1:])
    joined = pa.py_buffer(b"".join(bodies))
    return Messages(
        joined, bounds[:-1], bounds[1:], file, starts + base, tuple(headers), tuple(problems)
    )


def batch_of(pieces: Iterable[Messages]) -> tuple[MessageBatch, tuple[Problem, ...]]:
    """Return messages of several files as one batch; a single piece is not copied."""
    pieces = list(pieces)
    files = [np.full(len(piece), piece.file, np.int64) for piece in pieces]
    sizes = np.cumsum([0, *(piece.size for piece in pieces)]).tolist()
    counts = np.cumsum([0, *(len(piece) for piece in pieces)]).tolist()
    single = len(pieces) == 1
    data = pieces[0].data if single else pa.py_buffer(b"".join(piece.data for piece in pieces))
    moved = list(zip(pieces, sizes, counts, strict=False))
    headers = None
    if any(piece.headers is not None for piece in pieces):
        headers = tuple(
            header for piece in pieces for header in (piece.headers or (NO_HEADERS,) * len(piece))
        )
    batch = MessageBatch(
        data,
        np.concatenate([piece.starts + size for piece, size, _ in moved]),
        np.concatenate([piece.ends + size for piece, size, _ in moved]),
        np.concatenate(files),
        np.concatenate([piece.offsets for piece in pieces]),
        headers,
    )
    problems = tuple(
        Problem(problem.message + count, problem.error)
        for piece, _, count in moved
        for problem in piece.problems
    )
    return batch, problems
