"""Capture the repaired messages of a live trail's quarantine into the trail.

All of them are added or none, and each only once. A line of the quarantine contains the
``position`` at which the message was received. It identifies the message if the file is captured
again, and ids that are generated from it are the same as in the original capture. The list
``PREFIX.repaired`` contains the positions of the messages that the trail already has. Lines that
are not in the trail's quarantine are refused, and so are parts of transactions
(``quarantine_check.py``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Final

from trailgate.capture.capture import Capture
from trailgate.errors import DecodeError, StorageError, TrailgateError, Where, shown_source
from trailgate.jobs.capture.ranges import encode_or_reject
from trailgate.live.jobs.quarantine_check import LiveQuarantine
from trailgate.live.jobs.run import interruption_error
from trailgate.live.jobs.source import read_source_position
from trailgate.messages.skipped import skipped_notes
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.model.operation_counts import Counts, add_counts, count_operations
from trailgate.storage.files.addresses import Addresses
from trailgate.storage.files.quarantine import append_lines
from trailgate.storage.live.appender import TrailAppender
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.storage.live.recovery import DuplicateSkipper
from trailgate.storage.reading.message_files import find_messages
from trailgate.storage.reading.quarantine_lines import (
    QuarantineLine,
    messages_of_lines,
    read_repaired,
)

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


def capture_repaired(
    capture: Capture, paths: Addresses, prefix: str, options: AppendOptions
) -> RepairSummary:
    """Add the messages of repaired quarantines to their trail, each once, in the order of the feed.

    Raises the error of the first message that is still bad, is not in the trail's quarantine, or
    whose transaction is repaired in part; then nothing is added. Raises StorageError if a live
    capture is using the trail, or if an interrupted capture has left transactions in the trail that
    the capture must first receive again.

    The commit before the additions records a digest of the messages (``pending``), so that a
    restart after an interruption can check that the same messages are passed, in whichever order,
    and skip those that the trail already contains.
    """
    lines = _lines(paths)
    listed = Path(f"{prefix}.repaired")
    with TrailAppender(prefix, capture.tables, options) as appender:
        recovered = appender.recovered
        position = read_source_position(recovered.source_position, None, prefix)
        if position is None:
            raise StorageError("nothing was received into this trail", where=Where(source=prefix))
        quarantine = LiveQuarantine(f"{prefix}.quarantine.jsonl", position.quarantine)
        quarantine.check_lines(lines)
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
        last = recovered.last
        state = capture.state_after(None if last is None else last.csn)
        quarantine.check_transactions(
            capture, {line.position: line for line in fresh}, known, state
        )
        batches, notes = _parse(capture, fresh, appender, state)
        added_lines = "".join(f"{line.position}\n" for line in fresh).encode()
        # The list grows before the trail, but only the commit's size counts: a line beyond it is
        # cut off.
        size = append_lines(listed, position.repaired, [BytesIO(added_lines)])
        if position.pending is None:
            appender.commit(replace(position, pending=digest).encode())
        counts, transactions = _append(appender, batches)
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


def _lines(paths: Addresses) -> list[QuarantineLine]:
    """Return the lines of repaired quarantine files, of whichever names.

    Raises DecodeError for a line that is invalid or has no position.
    """
    lines = [line for file in find_messages(paths).files for line in read_repaired(file)]
    for line in lines:
        if not line.position:
            raise DecodeError("the line has no position", where=line.where, hint=NO_POSITION)
    return lines


def _distinct(passed: Iterable[QuarantineLine]) -> list[QuarantineLine]:
    """Return each message once, ordered by position.

    Raises DecodeError if a message is passed with different contents.
    """
    lines: dict[str, QuarantineLine] = {}
    for line in passed:
        first = lines.setdefault(line.position, line)
        if (first.body, first.headers) != (line.body, line.headers):
            problem = f"the message at position {line.position} is also in {shown_source(first.path)}, line {first.number}, with other contents"
            raise DecodeError(problem, where=line.where, hint="Keep only the line that is right")
    # The order of the feed. That of the texts is different if an offset has more than ten digits.
    return sorted(lines.values(), key=lambda line: line.feed_position)


def _digest(lines: Iterable[QuarantineLine]) -> str:
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
        # The last line ends with a newline, so the set has "" too. No message has that position.
        return frozenset(listed.read_bytes()[:size].decode("ascii").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        problem = f"the list of repaired messages cannot be read: {error}"
        raise StorageError(problem, where=Where(source=str(listed))) from None


def _parse(
    capture: Capture,
    lines: Sequence[QuarantineLine],
    appender: TrailAppender,
    state: TransactionState,
) -> tuple[tuple[ChangeBatch, ...], tuple[str, ...]]:
    """Parse repaired messages: return their operations in two batches, and the warnings.

    The second batch has the operations that are complete only at the end of the input. Raises the
    error of the first bad message.
    """
    parsed = capture.parse(messages_of_lines(lines), state)
    end = capture.at_end(parsed.state)
    # The first fault of a message wins: reversed, so that earlier problems overwrite later ones.
    # Message -1 stands for the unit before the messages, and its problem goes to the first one.
    bad = {max(one.message, 0): one.error for one in reversed(parsed.problems)}
    # A problem at the end of the input is reported with the last message.
    bad |= {len(lines) - 1: one.error for one in end.problems}
    for batch, message in ((parsed.batch, parsed.message), (end.batch, end.message)):
        bad |= encode_or_reject(appender.encode, batch, message)[1]
    if bad:
        at = min(bad)
        raise _locate(bad[at], lines[max(at, 0)])
    skipped = parsed.skipped

    def place(at: int) -> Where:
        return lines[int(skipped.message[at])].where

    notes = capture.warnings_of_part(parsed.notes | end.notes)
    return (parsed.batch, end.batch), (*sorted(notes), *skipped_notes(skipped.totals(place)))


def _append(appender: TrailAppender, batches: Iterable[ChangeBatch]) -> tuple[Counts, int]:
    """Append the operations that an interrupted run had not appended.

    Returns the counts by table and type, and the number of transactions, of all operations.
    """
    counts: Counts = {}
    transactions, rest = 0, DuplicateSkipper(appender.recovered)
    for batch in batches:
        more, begun = count_operations(batch, 0, batch.rows)
        counts, transactions = add_counts(counts, more), transactions + begun
        missing = rest.rest(batch)
        if missing is not None and missing.rows:
            appender.append(missing)
    rest.finish()
    return counts, transactions


def _locate(error: TrailgateError, line: QuarantineLine) -> TrailgateError:
    error.where = replace(error.where, source=line.path, message=None, line=line.number)
    return error
