"""Read a journal as a stream of operations, in batches that can be repeated (the Spark format ``jms``).

Each batch starts and ends between two transactions (``TransactionBoundaries``), and
``operations_of`` parses it. ``StoringReceiver`` fills the journal in a thread: it stores a broker's
messages, and then acknowledges them.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.capture.capture import Capture, Parsed
from trailgate.errors import TrailgateError
from trailgate.live.brokers.receiver import Receiver
from trailgate.live.files.journal import Journal, JournalOptions, StoredMessages
from trailgate.live.files.journal_reader import JournalIndex, JournalRange
from trailgate.live.jobs.feed import FeedPart
from trailgate.live.jobs.units import UnitSorter, skipped_totals
from trailgate.messages.messages import MessageBatch, as_messages
from trailgate.messages.metadata import MessageIdRule, MessageIds
from trailgate.messages.problems import Problem
from trailgate.messages.skipped import SkippedTotals, add_skipped, skipped_notes
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import convert_write_errors, replace_whole_file

# The search for the last transaction starts in this many messages, and then in FACTOR times as many.
LOOKED_AT: Final = 256
FACTOR: Final = 4
_LOG: Final = logging.getLogger("trailgate.jobs")
# How long to wait for messages before looking whether the stream was stopped.
POLL_SECONDS: Final = 0.5
LOCK_SECONDS: Final = 15.0  # how long to wait for the process of an earlier start to end
SETTLE_SECONDS: Final = 2.0
_BROKER_LOG: Final = logging.getLogger("trailgate.brokers")


class TransactionBoundaries:
    """Finds boundaries: message numbers of a journal before which no transaction is open.

    A batch can end at a boundary. With ``stop``, a bad message ends the stream, so the search ends
    at the first bad message. Without it, a bad message is quarantined together with its unit (its
    transaction, if it has one), and no boundary lies inside the unit.
    """

    def __init__(self, index: JournalIndex, capture: Capture, *, stop: bool = True) -> None:
        self._index, self._capture, self._stop = index, capture, stop
        self._known: tuple[int, int, int] | None = None

    def last(self, begin: int, end: int) -> int:
        """Return the last transaction boundary in (begin, end].

        If there is none, return ``begin``, which must be a boundary.
        """
        if begin >= end or not self._capture.spans_messages:
            return end
        if self._known is None or self._known[:2] != (begin, end):
            self._known = (begin, end, self._close(self._last_unit_start(begin, end), end))
        return self._known[2]

    def last_within(self, begin: int, most: int, end: int) -> int:
        """Return the last transaction boundary after ``begin`` within ``most`` messages.

        If all of these belong to one transaction, return a boundary after it, but not after
        ``end``. Returns ``begin`` if there is no boundary up to ``end``.
        """
        # double the number of messages until they contain a boundary
        stop = begin
        while stop < end:
            stop = min(begin + most, end)
            boundary = self.last(begin, stop)
            if boundary > begin:
                return boundary
            most *= 2
        return begin

    def _last_unit_start(self, begin: int, end: int) -> int:
        """Return the number of the message in [begin, end) at which the journal's last unit begins.

        Returns ``begin`` if no unit begins there. The search begins at the end and looks back
        further and further, to read few messages.
        """
        size = LOOKED_AT
        while True:
            low = max(begin, end - size)
            starts = self._unit_starts(low, end, known=low == begin)
            # Parsing from the middle cannot always tell whether its first message begins a unit, so
            # that one does not count.
            starts = starts if low == begin else starts[starts > low]
            if len(starts):
                return int(starts[-1])
            if low == begin:
                return begin
            size *= FACTOR

    def _unit_starts(self, begin: int, end: int, *, known: bool) -> Longs:
        """Return the numbers of the journal's messages in [begin, end) at which a unit begins.

        ``known`` means that no unit is open before ``begin``; otherwise one may be.
        """
        state = TransactionState(broken=not known)
        starts = [np.zeros(0, np.int64)]
        for stored in self._index.range(begin, end).read():
            parsed = _parse(self._capture, stored, state)
            state = parsed.state
            starts.append(stored.number + np.flatnonzero(parsed.opens | parsed.starts_unit))
        return np.concatenate(starts)

    def _close(self, begin: int, end: int) -> int:
        """Return ``end`` if the unit beginning at ``begin`` has ended there, or ``begin`` if it is still open.

        With ``stop``, a bad message counts as the end of its unit.
        """
        state = TransactionState()
        for stored in self._index.range(begin, end).read():
            parsed = _parse(self._capture, stored, state)
            if parsed.problems and self._stop:
                return end
            state = parsed.state
        return begin if state.is_open else end


def operations_of(
    messages: JournalRange, capture: Capture, quarantine: Path | None = None
) -> Iterator[ChangeBatch]:
    """Yield the operations of the journal's messages between two boundaries.

    Raises the error of the first bad message. With ``quarantine``, the messages of bad units are
    written to a file in this folder instead. The file is named by the range, so reading the range
    again writes the same file again.
    """
    units = UnitSorter(lambda _: None, Path(tempfile.gettempdir()), stop=quarantine is None)
    state = TransactionState()
    lines: list[bytes] = []
    notes: frozenset[str] = frozenset()
    skipped: SkippedTotals = {}
    for stored in messages.read():
        batch, unreadable = _messages(stored, str(messages.folder))
        parsed = capture.parse(batch, state, unreadable)
        state = parsed.state
        numbers = np.arange(stored.number, stored.end)
        part = FeedPart(batch, unreadable, numbers, stored.end)
        notes |= parsed.notes
        skipped = add_skipped(skipped, skipped_totals(part, parsed.skipped))
        taken = units.take(part, parsed)
        yield from (operations for operations, _ in taken.complete)
        if taken.error is not None:
            raise taken.error
        lines += taken.lines
    ended = capture.at_end(state)
    if ended.problems and quarantine is None:
        error = ended.problems[0].error
        error.where = replace(error.where, source=str(messages.folder), message=messages.end - 1)
        raise error
    taken = units.end(ended, messages.end)
    yield from (operations for operations, _ in taken.complete)
    lines += taken.lines
    if lines and quarantine is not None:
        path = quarantine / f"{messages.begin:020}-{messages.end:020}.jsonl"
        with convert_write_errors(path):
            quarantine.mkdir(parents=True, exist_ok=True)
        replace_whole_file(path, b"".join(lines))
        _LOG.warning("%d messages are quarantined in %s", len(lines), path)
    for note in (*sorted(capture.warnings_of_part(notes)), *skipped_notes(skipped)):
        _LOG.warning(note)


def _parse(capture: Capture, stored: StoredMessages, state: TransactionState) -> Parsed:
    messages, unreadable = _messages(stored, "journal")
    return capture.parse(messages, state, unreadable)


def _messages(stored: StoredMessages, source: str) -> tuple[MessageBatch, tuple[Problem, ...]]:
    return as_messages(stored.messages, (stored.segment, stored.offsets), source)


class StoringReceiver:
    """Receives a broker's messages into a journal, in a thread that starts when the object is created.

    It is the only writer of the journal: raises StorageError if another run writes to the journal.
    Later errors are raised by ``check``. No message is acknowledged before it is stored.

    With a ``rule``, messages with a known id (``jms.id``) are not stored. The journal then keeps as
    many captured messages as the rule remembers, so that a later start can read their ids.
    """

    def __init__(
        self,
        receiver: Receiver,
        folder: Path,
        options: JournalOptions | None = None,
        rule: MessageIdRule | None = None,
    ) -> None:
        self._receiver, self._journal = receiver, Journal(folder, options, LOCK_SECONDS)
        self._ids = None if rule is None else MessageIds(rule)
        self._kept = 0 if rule is None else rule.remembered
        self._note_ids()
        self._changing, self._stopping = threading.Lock(), threading.Event()
        self._quiet_since: float | None = None
        self._error: BaseException | None = None
        # The last step: from here on the thread uses everything above.
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """The number of the message that the journal stores next."""
        return self._journal.next

    def check(self) -> None:
        """Raise the error that stopped the thread that receives into the journal, if there is one."""
        if self._error is not None:
            raise self._error

    def is_quiet(self, seconds: float) -> bool:
        """Return whether the broker has been connected for ``seconds`` in which no message arrived."""
        since = self._quiet_since
        return since is not None and time.monotonic() - since >= seconds

    def release(self, number: int) -> None:
        """Delete the journal's messages before a number, except those whose ids are still needed."""
        with self._changing:
            self._journal.release(max(0, number - self._kept))

    def close(self) -> None:
        """Wait until acknowledgements are confirmed, and close the broker connection and the journal."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._store()
        except BaseException as error:  # noqa: BLE001  check() raises it
            self._error = error
        finally:
            self._disconnect()

    def _store(self) -> None:
        window = self._receiver.receive(POLL_SECONDS)
        if window is None:
            if not self._receiver.is_connected:
                self._quiet_since = None
            elif self._quiet_since is None:
                self._quiet_since = time.monotonic()
            return
        self._quiet_since = None
        messages, error = self._deduplicate(window.messages)
        # store first, then acknowledge
        with self._changing:
            self._journal.append(messages)
        if error is not None:
            raise error
        self._receiver.acknowledge(window)

    def _note_ids(self) -> None:
        """Read the ids of the last messages in the journal, as many as the rule remembers."""
        if self._ids is not None:
            for stored in self._journal.read(
                max(self._journal.first, self._journal.next - self._kept)
            ):
                self._ids.deduplicate(_with_messages(stored.messages))

    def _deduplicate(
        self, messages: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, TrailgateError | None]:
        """Return the received messages whose ids are new to the journal, and the error of the first message with an invalid id.

        That message and all later messages are not returned. The error is None if all ids are
        valid.
        """
        if self._ids is None:
            return messages, None
        deduplicated = self._ids.deduplicate(_with_messages(messages))
        kept = np.arange(len(messages)) if deduplicated.kept is None else deduplicated.kept
        wrong = min(deduplicated.problems, key=lambda problem: problem.message, default=None)
        if wrong is not None:
            kept = kept[kept < wrong.message]
        if deduplicated.duplicates:
            _BROKER_LOG.warning(
                "skipped messages whose ids (jms.id) were seen before: %d", deduplicated.duplicates
            )
        return messages.take(pa.array(kept)), None if wrong is None else wrong.error

    def _disconnect(self) -> None:
        try:
            if self._error is None and self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        except Exception as error:  # noqa: BLE001  unacknowledged messages are redelivered
            self._error = self._error or error
        finally:
            self._journal.close()


def _with_messages(received: pa.RecordBatch) -> MessageBatch:
    return as_messages(received, (0, np.arange(len(received))), "messages")[0]
