"""Read the lines of a quarantine file, and of its repaired copies.

The lines of a quarantine (``storage/files/quarantine.py``) have the ``source`` and the ``position`` of their
message. Both stay as they are when the message is repaired, and identify it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError, StorageError, Where
from trailgate.messages.message_batch import RECEIVED, MessageBatch, batch_of_received
from trailgate.storage.files.json_lines import parse_message_line
from trailgate.storage.reading.message_files import MessageFile, read_file_lines

DIGITS: Final = 10  # the digits of each half of a position
_POSITION: Final = re.compile(rf"[0-9]{{{2 * DIGITS}}}")
_MEMBER: Final = b'"position"'
_RESTORE: Final = "Restore the file as the capture has written it, and repair a copy of it"


@dataclass(frozen=True, slots=True)
class QuarantineLine:
    """A line of a quarantine or of a repaired copy: the file, the line's number, and its message.

    ``source``, ``position`` and ``reason`` are empty if the line does not have them.
    """

    path: str
    number: int
    source: str
    position: str
    reason: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def where(self) -> Where:
        """The line's place, for errors."""
        return Where(source=self.path, line=self.number)


def read_repaired(file: MessageFile) -> Iterator[QuarantineLine]:
    """Yield the lines of a repaired copy of a quarantine. Raises DecodeError if one is invalid."""
    for number, line in read_file_lines(file):
        if line.strip():
            yield _parse(line, file.path, number)


def read_quarantine(path: str, size: int) -> Iterator[QuarantineLine]:
    """Yield the lines in the first ``size`` bytes of a trail's quarantine.

    Raises StorageError if the file was changed after the capture had written it.
    """
    if not size:
        return
    for number, line in read_file_lines(MessageFile(path, size)):
        try:
            parsed = _parse(line, path, number)
        except DecodeError as error:
            problem = f"the quarantine was changed: {error.problem}"
            where = Where(source=path, line=number)
            raise StorageError(problem, where=where, hint=_RESTORE) from None
        yield parsed


def find_quarantine_lines(file: MessageFile) -> Iterator[QuarantineLine]:
    """Yield those lines of a message file that have a source, a position and a reason.

    All others, also invalid ones, are ignored.
    """
    for number, line in read_file_lines(file, having=_MEMBER):
        try:
            parsed = _parse(line, file.path, number)
        except DecodeError:
            continue
        if parsed.source and parsed.position and parsed.reason:
            yield parsed


def _parse(line: bytes, path: str, number: int) -> QuarantineLine:
    try:
        body, headers = parse_message_line(line)
    except DecodeError as error:
        raise error.with_place(source=path, line=number) from None
    fields = json.loads(line)
    source, position, reason = (
        value if isinstance(value := fields.get(name), str) else ""
        for name in ("source", "position", "reason")
    )
    return QuarantineLine(
        path=path,
        number=number,
        source=source,
        position=position if _POSITION.fullmatch(position) else "",
        reason=reason,
        body=body,
        headers=headers,
    )


def messages_of_lines(lines: Sequence[QuarantineLine]) -> MessageBatch:
    """Return the messages of lines as a batch, at the positions where they were first read or received.

    All lines must have a position.
    """
    now = time.time_ns() // 1000
    rows = pa.RecordBatch.from_pylist(
        [
            {"received": now, "headers": [*line.headers.items()], "body": line.body}
            for line in lines
        ],
        RECEIVED,
    )
    # A position consists of the file's number and the offset, of ten digits each.
    halves = [(line.position[:DIGITS], line.position[DIGITS:]) for line in lines]
    files, offsets = np.array(halves, np.int64).reshape(-1, 2).T
    messages, _ = batch_of_received(rows, (files, offsets), lines[0].path)
    return messages
