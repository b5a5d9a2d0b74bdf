"""Capture the repaired messages of a live trail's quarantine into the trail.

All of them are added or none, and each only once. A line of the quarantine contains the
``position`` at which the message was received. It identifies the message if the file is captured
again, and ids that are generated from it are the same as in the original capture. The list
``PREFIX.repaired`` contains the positions of the messages that the trail already has.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError, StorageError, TrailgateError, Where, shown_source
from trailgate.jobs.capture.ranges import encode_or_reject
from trailgate.live.jobs.run import interruption_error
from trailgate.live.jobs.source import read_source_position
from trailgate.messages.message_batch import RECEIVED, MessageBatch, batch_of_received
from trailgate.messages.skipped import skipped_notes
from trailgate.model.changes import ChangeBatch
from trailgate.model.operation_counts import Counts, add_counts, count_operations
from trailgate.storage.files.json_lines import parse_message_line
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.live.recovery import DuplicateSkipper

DIGITS: Final = 10  # the digits of each half of a position
_POSITION: Final = re.compile(rf"[0-9]{{{2 * DIGITS}}}")
NO_POSITION: Final = (
    "Lines of a live trail's quarantine have it; capture other messages into a trail of their own"
)


@dataclass(frozen=True, slots=True)
class RepairSummary:
    """The result of capturing repaired messages of a quarantine into their trail.

    ``target`` is the trail's prefix. ``skipped`` is the number of messages that were captured
    before. ``notes`` are warnings, for example about messages without operations.
    """

    target: str
    messages: int = 0
    skipped: int = 0
    transactions: int = 0
    operations: int = 0
    counts: Counts = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a repaired quarantine: a message, the line's number, and its position in the feed."""

    path: str
    number: int
    position: str
    body: bytes
    headers: Mapping[str, str]


def capture_repaired(
    capture: Capture, paths: Iterable[str], prefix: str, options: AppendOptions
) -> RepairSummary:
    """Add the messages of repaired quarantines to their trail, each once, in the order of the feed.

    Raises the error of the first message that is still bad; then nothing is added. Raises
    StorageError if a live capture is using the trail. Also raises it if an interrupted capture has
    left transactions in the trail that the capture must first receive again.

    The commit before the additions records a digest of the messages (``pending``), so that a
    restart after an interruption can check that the same messages are passed, in whichever order,
    and skip those that the trail already contains.
    """
    lines = [line for path in paths for line in _lines(Path(path))]
    listed = Path(f"{prefix}.repaired")
    with TrailAppender(prefix, capture.tables, options) as appender:
        recovered = appender.recovered
        position = read_source_position(recovered.source_position, None, prefix)
        if position is None:
            raise StorageError("nothing was received into this trail", where=Where(source=prefix))
        known = _known(listed, position.repaired)
        passed = [line for line in lines if line.position not in known]
        fresh = _distinct(passed)
        digest = _digest(fresh)
        if position.pending not in (None, digest):
            # Earlier versions added the messages as they were passed: continue such a run.
            fresh = passed
            if position.pending != _digest(fresh):
                raise interruption_error(prefix)
        if position.pending is None and recovered.transactions:
            problem = "the trail contains transactions that its source has to send again"
            hint = "Let the capture from the broker run until it has received something"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)
        skipped = len(known & {line.position for line in lines})
        if not fresh:
            return RepairSummary(prefix, skipped=skipped)
        batches, notes = _parse(capture, fresh, appender)
        added_lines = "".join(f"{line.position}\n" for line in fresh).encode()
        # The list grows before the trail, but only the commit's size counts: a line beyond it is
        # cut off.
        size = append_lines(listed, position.repaired, [BytesIO(added_lines)])
        if position.pending is None:
            appender.commit(replace(position, pending=digest).encode())
        counts: Counts = {}
        transactions, rest = 0, DuplicateSkipper(recovered)
        for batch in batches:
            more, begun = count_operations(batch, 0, batch.rows)
            counts, transactions = add_counts(counts, more), transactions + begun
            # Only the operations that an interrupted run had not appended.
            missing = rest.rest(batch)
            if missing is not None and missing.rows:
                appender.append(missing)
        rest.finish()
        appender.commit(replace(position, repaired=size, pending=None).encode())
    operations = sum(count for kinds in counts.values() for count in kinds.values())
    return RepairSummary(
        target=prefix,
        messages=len(fresh),
        skipped=skipped,
        transactions=transactions,
        operations=operations,
        counts=counts,
        notes=notes,
    )


def _lines(path: Path) -> Iterator[_Line]:
    """Yield the messages of a repaired quarantine file.

    Raises DecodeError for a line that is invalid or has no position.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        problem = f"cannot open the messages: {error.strerror}"
        raise StorageError(problem, where=Where(source=str(path))) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = Where(source=str(path), line=number)
        try:
            body, headers = parse_message_line(line)
        except DecodeError as error:
            raise error.with_place(source=str(path), line=number) from None
        position = json.loads(line).get("position")
        if not (isinstance(position, str) and _POSITION.fullmatch(position)):
            raise DecodeError("the line has no position", where=where, hint=NO_POSITION)
        yield _Line(str(path), number, position, body, headers)


def _distinct(passed: Iterable[_Line]) -> list[_Line]:
    """Return each message once, ordered by position.

    Raises DecodeError if a message is passed with different contents.
    """
    lines: dict[str, _Line] = {}
    for line in passed:
        first = lines.setdefault(line.position, line)
        if (first.body, first.headers) != (line.body, line.headers):
            problem = f"the message at position {line.position} is also in {shown_source(first.path)}, line {first.number}, with other contents"
            where = Where(source=line.path, line=line.number)
            raise DecodeError(problem, where=where, hint="Keep only the line that is right")
    return [lines[position] for position in sorted(lines)]


def _digest(lines: Iterable[_Line]) -> str:
    """Return a digest of the positions of messages, in their order."""
    return hashlib.sha256("".join(line.position for line in lines).encode()).hexdigest()


def _known(listed: Path, size: int) -> frozenset[str]:
    """Return the positions of repaired messages that the trail already contains.

    They are the first ``size`` bytes of the list ``PREFIX.repaired``; the trail's last commit
    states the size.
    """
    if not size:
        return frozenset()
    try:
        return frozenset(listed.read_bytes()[:size].decode("ascii").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        problem = f"the list of repaired messages cannot be read: {error}"
        raise StorageError(problem, where=Where(source=str(listed))) from None


def _parse(
    capture: Capture, lines: Sequence[_Line], appender: TrailAppender
) -> tuple[tuple[ChangeBatch, ...], tuple[str, ...]]:
    """Parse repaired messages: return their operations in two batches, and the warnings.

    The second batch has the operations that are complete only at the end of the input. Raises the
    error of the first bad message.
    """
    last = appender.recovered.last
    state = capture.state_after(None if last is None else last.csn)
    parsed = capture.parse(_messages(lines), state)
    end = capture.at_end(parsed.state)
    # The first fault of a message wins: reversed, so that earlier problems overwrite later ones.
    bad = {max(one.message, 0): one.error for one in reversed(parsed.problems)}
    bad |= {len(lines) - 1: one.error for one in end.problems}
    for batch, message in ((parsed.batch, parsed.message), (end.batch, end.message)):
        bad |= encode_or_reject(appender.encode, batch, message)[1]
    if bad:
        at = min(bad)
        raise _locate(bad[at], lines[max(at, 0)])
    skipped = parsed.skipped

    def place(at: int) -> Where:
        line = lines[int(skipped.message[at])]
        return Where(source=line.path, line=line.number)

    notes = capture.warnings_of_part(parsed.notes | end.notes)
    return (parsed.batch, end.batch), (*sorted(notes), *skipped_notes(skipped.totals(place)))


def _messages(lines: Sequence[_Line]) -> MessageBatch:
    """Return repaired messages as a batch, with the files and offsets that they were received with."""
    now = time.time_ns() // 1000
    rows = pa.RecordBatch.from_pylist(
        [
            {"received": now, "headers": [*line.headers.items()], "body": line.body}
            for line in lines
        ],
        RECEIVED,
    )
    # a position is the file's and the offset's digits, ten each
    halves = [(line.position[:DIGITS], line.position[DIGITS:]) for line in lines]
    files, offsets = np.array(halves, np.int64).reshape(-1, 2).T
    messages, _ = batch_of_received(rows, (files, offsets), lines[0].path)
    return messages


def _locate(error: TrailgateError, line: _Line) -> TrailgateError:
    error.where = replace(error.where, source=line.path, message=None, line=line.number)
    return error
