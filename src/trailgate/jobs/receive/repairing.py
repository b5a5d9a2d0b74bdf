"""Messages of a live trail's quarantine, repaired, into that trail: all of them or none, and each once.

A line of the quarantine has the message's place in the journal or topic (``position``). By it a message is known when the file is
captured again, and generated ids are those that it would have had.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.errors import DecodeError, StorageError, TrailgateError, Where
from trailgate.jobs.receive.position import read_position
from trailgate.messages.capture import Capture, MessageBatch
from trailgate.messages.received import RECEIVED, as_messages
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Definitions
from trailgate.storage.files.quarantine import append_lines, read_line
from trailgate.storage.live.appender import AppendOptions, TrailAppender
from trailgate.storage.live.recovery import Skipped
from trailgate.storage.writing.counts import Counts, added, counted
from trailgate.storage.writing.segments import encoded_or_blamed

DIGITS: Final = 10  # of each half of a position
NO_POSITION: Final = (
    "Lines of a live trail's quarantine have it; capture other messages into a trail of their own"
)
INTERRUPTED: Final = "a capture of repaired messages into this trail was interrupted"
AGAIN: Final = "Give its command again: trailgate capture --from FILE --to PREFIX"


@dataclass(frozen=True, slots=True)
class RepairSummary:
    """What a capture of repaired messages did; ``skipped`` messages were captured before."""

    target: str
    messages: int = 0
    skipped: int = 0
    transactions: int = 0
    operations: int = 0
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    """A message of a file: the file, its line, counted from 1, its place, and itself."""

    path: str
    number: int
    position: str
    body: bytes
    headers: Mapping[str, str]


def interrupted(prefix: str) -> StorageError:
    """Return the error of a trail to which a capture of repaired messages added some and not all."""
    return StorageError(INTERRUPTED, where=Where(source=prefix), hint=AGAIN)


def capture_repaired(
    capture: Capture, paths: Iterable[str], prefix: str, options: AppendOptions
) -> RepairSummary:
    """Add the messages of repaired quarantines to the trail that they belong to.

    Raises the error of the first message that is still bad; then nothing was added. Raises StorageError where the trail is
    being received into, or holds what its source has to give again.
    """
    lines = [line for path in paths for line in _lines(Path(path))]
    wanted = [table for table in capture.definitions if capture.rules.wants(table.name)]
    definitions = Definitions(tuple(wanted), capture.definitions.database)
    listed = Path(f"{prefix}.repaired")
    with TrailAppender(prefix, definitions, options) as appender:
        recovered = appender.recovered
        position = read_position(recovered.source_position, None, prefix)
        if position is None:
            raise StorageError("nothing was received into this trail", where=Where(source=prefix))
        known = _known(listed, position.repaired)
        fresh = [line for line in lines if line.position not in known]
        digest = hashlib.sha256("".join(line.position for line in fresh).encode()).hexdigest()
        if position.pending not in (None, digest):
            raise interrupted(prefix)
        if position.pending is None and recovered.transactions:
            problem = "the trail holds transactions that its source has to give again"
            hint = "Let the capture from the broker run until it has received something"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)
        skipped = len(lines) - len(fresh)
        if not fresh:
            return RepairSummary(prefix, skipped=skipped)
        batches = _parsed(capture, fresh, appender)
        added_lines = "".join(f"{line.position}\n" for line in fresh).encode()
        size = append_lines(listed, position.repaired, [BytesIO(added_lines)])
        if position.pending is None:
            appender.commit(replace(position, pending=digest).encoded())
        counts: Counts = {}
        transactions, rest = 0, Skipped(recovered)
        for batch in batches:
            more, begun = counted(batch, 0, batch.rows)
            counts, transactions = added(counts, more), transactions + begun
            missing = rest.rest(batch)
            if missing is not None and missing.rows:
                appender.append(missing)
        rest.finish()
        appender.commit(replace(position, repaired=size, pending=None).encoded())
    operations = sum(count for kinds in counts.values() for count in kinds.values())
    return RepairSummary(prefix, len(fresh), skipped, transactions, operations, counts)


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the messages of a file; raises DecodeError for a line that is none, or has no position."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        problem = f"cannot open the messages: {error.strerror}"
        raise StorageError(problem, where=Where(source=str(path))) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            body, headers = read_line(line)
            position = _position(line)
        except DecodeError as error:
            raise error.located(source=str(path), line=number) from None
        yield _Line(str(path), number, position, body, headers)


def _position(line: bytes) -> str:
    """Return the position of a line that is a JSON object; raises DecodeError."""
    text = json.loads(line).get("position")
    if isinstance(text, str) and len(text) == 2 * DIGITS and text.isascii() and text.isdecimal():
        return text
    raise DecodeError("the line has no position", hint=NO_POSITION)


def _known(listed: Path, size: int) -> frozenset[str]:
    """Return the positions of messages that were captured; ``size`` bytes of their list count."""
    if not size:
        return frozenset()
    try:
        return frozenset(listed.read_bytes()[:size].decode("ascii").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        problem = f"the list of repaired messages cannot be read: {error}"
        raise StorageError(problem, where=Where(source=str(listed))) from None


def _parsed(
    capture: Capture, lines: Sequence[_Line], appender: TrailAppender
) -> tuple[ChangeBatch, ...]:
    """Return the operations of messages; raises the error of the first bad one."""
    last = appender.recovered.last
    state = capture.state_after(None if last is None else last.csn)
    parsed = capture.parse(_messages(lines), state)
    end = capture.at_end(parsed.state)
    bad = {max(one.message, 0): one.error for one in reversed(parsed.problems)}
    bad |= {len(lines) - 1: one.error for one in end.problems}
    for batch, message in ((parsed.batch, parsed.message), (end.batch, end.message)):
        bad |= encoded_or_blamed(appender.encoded, batch, message)[1]
    if bad:
        at = min(bad)
        raise _located(bad[at], lines[max(at, 0)])
    return parsed.batch, end.batch


def _messages(lines: Sequence[_Line]) -> MessageBatch:
    """Return messages at the places that they had when they were received."""
    columns = [
        [None] * len(lines),
        [time.time_ns() // 1000] * len(lines),
        [list(line.headers.items()) for line in lines],
        [line.body for line in lines],
        [None] * len(lines),
    ]
    arrays = [pa.array(values, one.type) for values, one in zip(columns, RECEIVED, strict=True)]
    rows = pa.RecordBatch.from_arrays(arrays, schema=RECEIVED)
    halves = [(line.position[:DIGITS], line.position[DIGITS:]) for line in lines]
    files, offsets = np.array(halves, np.int64).reshape(-1, 2).T
    messages, _ = as_messages(rows, (files, offsets), lines[0].path)
    return messages


def _located(error: TrailgateError, line: _Line) -> TrailgateError:
    error.where = replace(error.where, source=line.path, message=None, line=line.number)
    return error
