"""Messages that are lines of a file: a message per line, or per line a JSON object with body and headers.

Lines end with a newline, perhaps after a carriage return. Empty lines are not messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.delimited import find_token_offsets
from trailgate.errors import TrailgateError
from trailgate.messages.message_batch import NO_HEADERS, MessageBatch
from trailgate.messages.problems import NO_PROBLEMS, Problem, Problems
from trailgate.storage.files.json_lines import parse_message_line

NEWLINE: Final = 10
RETURN: Final = 13


class ReadMessages(NamedTuple):
    """Messages read from files. A message that cannot be read has an empty body and a problem."""

    messages: MessageBatch
    problems: Problems = NO_PROBLEMS

    def part(self, begin: int, stop: int) -> ReadMessages:
        """Return the read messages from ``begin`` to before ``stop``."""
        number = self.problems.message
        problems = self.problems.where((number >= begin) & (number < stop)).moved(-begin)
        return ReadMessages(self.messages.slice(begin, stop), problems)


def line_bounds(data: pa.Buffer) -> tuple[Longs, Longs]:
    """Return the starts and ends of the non-empty lines of a message file's bytes, without newline and carriage return."""
    octets = np.frombuffer(data, np.uint8)
    newlines = find_token_offsets(octets, b"\n")
    if len(octets) and octets[-1] != NEWLINE:
        # The last line may lack its newline.
        newlines = np.append(newlines, len(octets))
    ends = newlines.astype(np.int64)
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    ends = ends - ((ends > starts) & (octets[np.maximum(ends - 1, 0)] == RETURN))
    # Empty lines do not count as messages.
    filled = ends > starts
    return starts[filled], ends[filled]


def line_messages(data: pa.Buffer, begin: MessagePosition, _: str = "") -> ReadMessages:
    """Convert each non-empty line of a message file's bytes to a message. ``begin`` is the position of the first byte."""
    starts, ends = line_bounds(data)
    files = np.full(len(starts), begin.file, np.int64)
    return ReadMessages(MessageBatch(data, starts, ends, files, starts + begin.offset))


def json_messages(data: pa.Buffer, begin: MessagePosition, source: str = "") -> ReadMessages:
    """Convert each JSON line of a message file's bytes to a message with its body and headers.

    ``begin`` is the position of the first byte, and ``source`` the file's name for errors.
    """
    starts, ends = line_bounds(data)
    view = memoryview(data)
    bodies, headers, problems = [], [], []
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        try:
            body, header = parse_message_line(bytes(view[start:end]))
        except TrailgateError as error:
            # The line stays a message, with its number and offset: its problem refers to it.
            body, header = b"", NO_HEADERS
            offset = begin.offset + start
            problems.append(Problem(i, error.with_place(source=source, offset=offset)))
        bodies.append(body)
        headers.append(header)
    bounds = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum([len(body) for body in bodies], out=bounds[1:])
    messages = MessageBatch(
        data=pa.py_buffer(b"".join(bodies)),
        starts=bounds[:-1],
        ends=bounds[1:],
        files=np.full(len(starts), begin.file, np.int64),
        offsets=starts + begin.offset,
        headers=tuple(headers),
    )
    return ReadMessages(messages, Problems.of(problems))


def join_messages(parts: Sequence[ReadMessages]) -> ReadMessages:
    """Join the messages read from several message files to one batch. A single part is not copied."""
    if len(parts) == 1:
        return parts[0]
    batches = [part.messages for part in parts]
    counts = np.cumsum([0, *(len(batch) for batch in batches[:-1])]).tolist()
    moved = [part.problems.moved(count) for part, count in zip(parts, counts, strict=True)]
    return ReadMessages(MessageBatch.join(batches), Problems.join(moved))


class MessagePosition(NamedTuple):
    """The position of a message: the index of its message file, and its byte offset in the file.

    Positions compare in the order of messages.
    """

    file: int
    offset: int
