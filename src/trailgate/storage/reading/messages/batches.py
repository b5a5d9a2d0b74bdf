"""Messages of files in batches: whole files, lines, and lines of JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import PORTION, Longs
from trailgate.columnar.delimited import find_all
from trailgate.errors import DecodeError, TrailgateError, Where
from trailgate.messages.capture import MessageBatch, Problem
from trailgate.storage.files.compressed_file import CompressedFile
from trailgate.storage.files.opened_file import OpenedFile
from trailgate.storage.files.quarantine import read_line
from trailgate.storage.reading.messages.file_list import MessageFile
from trailgate.storage.reading.messages.files import START, MessageFiles, MessagePlace

BATCH_MESSAGES: Final = 1 << 14  # messages of a batch, where each is a file
NEWLINE: Final = 10
RETURN: Final = 13
Reader = OpenedFile | CompressedFile
NO_HEADERS: Final[Mapping[str, str]] = {}


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
    files: MessageFiles, start: MessagePlace = START, portion: int = PORTION
) -> Iterator[ReadMessages]:
    """Yield the messages from a place on, through all later files."""
    held: list[ReadMessages] = []
    size = count = 0
    for read in _read(files, start, portion):
        own, number = int(read.messages.data.size), len(read.messages)
        if held and (size + own > portion or count + number > BATCH_MESSAGES):
            yield joined(held)
            held, size, count = [], 0, 0
        held.append(read)
        size += own
        count += number
    if held:
        yield joined(held)


def _read(files: MessageFiles, start: MessagePlace, portion: int) -> Iterator[ReadMessages]:
    for number in range(start.file, len(files.files)):
        file = files.files[number]
        offset = max(file.begin, start.offset if number == start.file else 0)
        with _opened(file) as reader:
            if not files.lined(number):
                yield from _unlined(reader, files, MessagePlace(number, offset), portion)
                continue
            parse = json_messages if file.json else line_messages
            for base, data in _lines(reader, offset, portion, files.longest):
                read = parse(data, MessagePlace(number, base), file.path)
                if len(read.messages):
                    yield read


def _opened(file: MessageFile) -> Reader:
    if file.codec is None:
        return OpenedFile(file.path, file.size, "messages")
    return CompressedFile(file.path, file.codec, "messages")


def _unlined(
    reader: Reader, files: MessageFiles, start: MessagePlace, portion: int
) -> Iterator[ReadMessages]:
    """Yield the message that a file is, or its parts from a place on if it is cut."""
    number, offset = start
    file = files.files[number]
    cutter = files.cutter if files.cutter and _has_more(file, files.cut_from) else None
    why_not = "" if cutter is None else cutter.why_not()
    if cutter is None or why_not:
        if offset == 0:
            yield ReadMessages(_whole(reader, number, files.longest, portion, why_not))
        return

    def chunks() -> Iterator[bytes]:
        place = 0
        with _opened(file) as again:
            while data := bytes(again.read(place, PORTION)):
                yield data
                place += len(data)

    try:
        for batch in cutter.cut(chunks, number, files.longest):
            later = int(np.searchsorted(batch.offsets, offset))
            if later < len(batch):
                yield ReadMessages(batch.slice(later, len(batch)))
    except DecodeError as error:
        raise error.located(source=reader.path) from None


def _has_more(file: MessageFile, size: int) -> bool:
    """Return whether a file has more bytes; a compressed one is unpacked to see it."""
    if file.codec is None:
        return file.size > size
    with _opened(file) as reader:
        return bool(reader.read(size, 1))


def _whole(reader: Reader, number: int, longest: int, portion: int, why_not: str) -> MessageBatch:
    size = portion if isinstance(reader, CompressedFile) else min(reader.size, longest + 1)
    data = reader.read(0, size)
    while not reader.ended(data.size) and size <= longest:
        size = min(2 * size, longest + 1)
        data = reader.read(0, size)
    if data.size > longest:
        raise _too_long(reader.path, 0, longest, why_not)
    zero = np.zeros(1, np.int64)
    return MessageBatch(data, zero, zero + data.size, zero + number, zero)


def _lines(
    reader: Reader, offset: int, portion: int, longest: int
) -> Iterator[tuple[int, pa.Buffer]]:
    """Yield whole lines: (offset, bytes). A line begins after a newline or at the file's start."""
    at = offset if offset == 0 else _after_newline(reader, offset - 1, portion)
    size = portion
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


def _after_newline(reader: Reader, at: int, portion: int) -> int:
    """Return the place after the first newline from a place on."""
    step = min(portion, 1 << 16)
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
            problems.append(Problem(i, error.located(source=source, offset=offset)))
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


def joined(parts: Sequence[ReadMessages]) -> ReadMessages:
    """Return messages of several files together; a single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    batches = [part.messages for part in parts]
    sizes = np.cumsum([0, *(int(batch.data.size) for batch in batches[:-1])]).tolist()
    counts = np.cumsum([0, *(len(batch) for batch in batches[:-1])]).tolist()
    moved = list(zip(batches, sizes, strict=True))
    headers = None
    if any(batch.headers is not None for batch in batches):
        headers = tuple(
            header for batch in batches for header in batch.headers or (NO_HEADERS,) * len(batch)
        )
    messages = MessageBatch(
        pa.py_buffer(b"".join(batch.data for batch in batches)),
        np.concatenate([batch.starts + size for batch, size in moved]),
        np.concatenate([batch.ends + size for batch, size in moved]),
        np.concatenate([batch.files for batch in batches]),
        np.concatenate([batch.offsets for batch in batches]),
        headers,
    )
    problems = tuple(
        Problem(problem.message + count, problem.error)
        for part, count in zip(parts, counts, strict=True)
        for problem in part.problems
    )
    return ReadMessages(messages, problems)
