"""Read the lines of a quarantine file, and of its repaired copies.

The lines of a quarantine (``storage/files/quarantine.py``) have the ``source`` and the ``position`` of their
message. Both stay as they are when the message is repaired, and identify it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError, StorageError, Where
from trailgate.messages.message_batch import RECEIVED, MessageBatch, batch_of_received
from trailgate.model.positions import split_message_position
from trailgate.storage.files.json_lines import parse_message_line
from trailgate.storage.reading.message_files import MessageFile, read_file_lines

DIGEST: Final = 16  # hexadecimal digits
_MEMBER: Final = b'"position"'
_RESTORE: Final = "Restore the file as the capture has written it, and repair a copy of it"


@dataclass(frozen=True, slots=True)
class QuarantineLine:
    """A line of a quarantine or of a repaired copy: the file, the line's number, and its message.

    ``source``, ``position`` and ``reason`` are empty if the line does not have them. If the message
    cannot be read, ``fault`` is the error.
    """

    path: str
    number: int
    source: str
    position: str
    reason: str
    body: bytes
    headers: Mapping[str, str]
    fault: DecodeError | None = None

    @property
    def digest(self) -> str:
        """What identifies the quarantined message, in 16 hexadecimal digits; "" if the line lacks a part of it.

        A file can be replaced by another of its name, so its source and position are not enough.
        """
        if not (self.source and self.position and self.reason):
            return ""
        identity = json.dumps([self.source, self.position, self.reason])
        return hashlib.sha256(identity.encode()).hexdigest()[:DIGEST]

    @property
    def feed_position(self) -> tuple[int, int]:
        """The number of the message's file or partition, and its offset; (-1, -1) if the line has no position."""
        return split_message_position(self.position) or (-1, -1)

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
    """Yield those lines of a message file that have a source, a position and a reason, or a ``fault``.

    All others are ignored.
    """
    for number, line in read_file_lines(file, having=_MEMBER):
        try:
            parsed = _parse(line, file.path, number)
        except DecodeError as error:
            parsed = _faulty(line, file.path, number, error)
        if parsed.fault is not None or parsed.digest:
            yield parsed


def _parse(line: bytes, path: str, number: int) -> QuarantineLine:
    try:
        body, headers = parse_message_line(line)
    except DecodeError as error:
        raise error.with_place(source=path, line=number) from None
    identity = _identity(json.loads(line.decode("utf-8-sig", "surrogatepass")))
    return QuarantineLine(
        path=path, number=number, body=body, headers=headers, fault=None, **identity
    )


def _faulty(line: bytes, path: str, number: int, fault: DecodeError) -> QuarantineLine:
    """Return a line whose message cannot be read, as far as it is JSON."""
    try:
        fields = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        fields = None
    identity = _identity(fields if isinstance(fields, dict) else {})
    return QuarantineLine(path=path, number=number, body=b"", headers={}, fault=fault, **identity)


def _identity(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the source, the position and the reason of a line, "" for each that is missing."""
    members = {
        name: value if isinstance(value := fields.get(name), str) else ""
        for name in ("source", "position", "reason")
    }
    if split_message_position(members["position"]) is None:
        members["position"] = ""
    return members


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
    files, offsets = np.array([line.feed_position for line in lines], np.int64).T.copy()
    messages, _ = batch_of_received(rows, (files, offsets), lines[0].path)
    return messages
