"""A journal's messages as a stream of operations, in batches that can be given again: each begins and ends between two transactions.

``StoringReceiver`` fills the journal meanwhile, in a thread: messages of a broker are stored, then acknowledged.
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
from trailgate.live.files.journal import Journal, JournalOptions, Stored
from trailgate.live.files.journal_reader import JournalIndex, JournalRange
from trailgate.live.jobs.feed import Part
from trailgate.live.jobs.units import Units
from trailgate.messages.bounds import Problem, TransactionState
from trailgate.messages.messages import MessageBatch, as_messages
from trailgate.messages.metadata import MessageIdRule, MessageIds
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import write_whole, writing

LOOKED_AT: Final = 256  # messages at first, in which the last transaction is looked for
FACTOR: Final = 4
_LOG: Final = logging.getLogger("trailgate.jobs")


class TransactionBorders:
    """Finds where the messages of a journal may be cut, so that no transaction is in two parts.

    The messages before a border leave nothing open. A bad message ends what is looked for where it is to ``stop`` whoever parses it;
    else the whole unit that it is in is on one side of a border.
    """

    def __init__(self, index: JournalIndex, capture: Capture, *, stop: bool = True) -> None:
        self._index, self._capture, self._stop = index, capture, stop
        self._known: tuple[int, int, int] | None = None

    def last(self, begin: int, end: int) -> int:
        """Return the last border of (begin, end], or ``begin``, which is one, where there is none."""
        if begin >= end or not self._capture.spans_messages:
            return end
        if self._known is None or self._known[:2] != (begin, end):
            self._known = (begin, end, self._close(self._last_begun(begin, end), end))
        return self._known[2]

    def last_within(self, begin: int, most: int, end: int) -> int:
        """Return the last border of so many messages; where they are all of one transaction, one after more of them, up to ``end``."""
        stop = begin
        while stop < end:
            stop = min(begin + most, end)
            found = self.last(begin, stop)
            if found > begin:
                return found
            most *= 2
        return begin

    def _last_begun(self, begin: int, end: int) -> int:
        """Return the message with which the last unit begins."""
        size = LOOKED_AT
        while True:
            low = max(begin, end - size)
            found = self._begun(low, end, known=low == begin)
            # Whether the first one begins a unit is not always known where those before it were not looked at.
            found = found if low == begin else found[found > low]
            if len(found):
                return int(found[-1])
            if low == begin:
                return begin
            size *= FACTOR

    def _begun(self, begin: int, end: int, *, known: bool) -> Longs:
        """Return the messages of [begin, end) that begin a unit; ``known``: nothing is open before them."""
        state = TransactionState(broken=not known)
        found = [np.zeros(0, np.int64)]
        for stored in self._index.range(begin, end).read():
            parsed = _parse(self._capture, stored, state)
            state = parsed.state
            found.append(stored.number + np.flatnonzero(parsed.opens | parsed.starts_unit))
        return np.concatenate(found)

    def _close(self, begin: int, end: int) -> int:
        """Return ``end`` if the unit that begins at a message has ended there, or a bad one stops, else where it begins."""
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
    """Yield the operations of messages that begin and end between two transactions; raises the first bad message's error.

    With ``quarantine`` the messages of bad units are in a file of this folder at the end, named by the range: whoever reads the range again
    writes the same file again.
    """
    units = Units(lambda _: None, Path(tempfile.gettempdir()), stop=quarantine is None)
    state = TransactionState()
    lines: list[bytes] = []
    for stored in messages.read():
        batch, unreadable = _messages(stored, str(messages.folder))
        parsed = capture.parse(batch, state, unreadable)
        state = parsed.state
        numbers = np.arange(stored.number, stored.end)
        taken = units.take(Part(batch, unreadable, numbers, stored.end), parsed)
        yield from (operations for operations, _ in taken.whole)
        if taken.error is not None:
            raise taken.error
        lines += taken.lines
    ended = capture.at_end(state)
    if ended.problems and quarantine is None:
        error = ended.problems[0].error
        error.where = replace(error.where, source=str(messages.folder), message=messages.end - 1)
        raise error
    taken = units.end(ended, messages.end)
    yield from (operations for operations, _ in taken.whole)
    lines += taken.lines
    if lines and quarantine is not None:
        path = quarantine / f"{messages.begin:020}-{messages.end:020}.jsonl"
        with writing(path):
            quarantine.mkdir(parents=True, exist_ok=True)
        write_whole(path, b"".join(lines))
        _LOG.warning("%d messages are quarantined in %s", len(lines), path)


def _parse(capture: Capture, stored: Stored, state: TransactionState) -> Parsed:
    messages, unreadable = _messages(stored, "journal")
    return capture.parse(messages, state, unreadable)


def _messages(stored: Stored, source: str) -> tuple[MessageBatch, tuple[Problem, ...]]:
    return as_messages(stored.messages, (stored.segment, stored.offsets), source)


POLL_SECONDS: Final = 0.5
LOCK_SECONDS: Final = 15.0  # in which the process of an earlier start has to end
SETTLE_SECONDS: Final = 2.0
_BROKER_LOG: Final = logging.getLogger("trailgate.brokers")


class StoringReceiver:
    """Receives into a journal, of which it is the only writer; begins when it is made.

    Raises StorageError where another run writes the journal. What goes wrong later is raised by ``check``: nothing is acknowledged
    that was not stored. With a ``rule`` the ids of messages are compared, and those that came before are not stored; the journal then
    keeps as many messages as are remembered, from which a later start knows them.
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
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._thread.start()

    @property
    def end(self) -> int:
        """Return the number of the message that is stored next."""
        return self._journal.next

    def check(self) -> None:
        """Raise what stopped the thread, if anything did."""
        if self._error is not None:
            raise self._error

    def is_quiet(self, seconds: float) -> bool:
        """Return whether nothing came for so long, over a connection."""
        since = self._quiet_since
        return since is not None and time.monotonic() - since >= seconds

    def release(self, number: int) -> None:
        """Remove what is before a message from the journal."""
        with self._changing:
            self._journal.release(max(0, number - self._kept))

    def close(self) -> None:
        """Wait until acknowledgements are confirmed, and let go of broker and journal."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._store()
        except BaseException as error:  # noqa: BLE001  raised where somebody waits for messages
            self._error = error
        finally:
            self._let_go()

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
        with self._changing:
            self._journal.append(messages)
        if error is not None:
            raise error
        self._receiver.acknowledge(window)

    def _note_ids(self) -> None:
        """Note the ids of the messages that the journal has."""
        if self._ids is not None:
            for stored in self._journal.read(
                max(self._journal.first, self._journal.next - self._kept)
            ):
                self._ids.screen(_message_count(stored.messages))

    def _deduplicate(
        self, messages: pa.RecordBatch
    ) -> tuple[pa.RecordBatch, TrailgateError | None]:
        """Return the messages that did not come before, up to the first whose id is wrong, and its error."""
        if self._ids is None:
            return messages, None
        found = self._ids.screen(_message_count(messages))
        kept = np.arange(len(messages)) if found.kept is None else found.kept
        wrong = min(found.problems, key=lambda problem: problem.message, default=None)
        if wrong is not None:
            kept = kept[kept < wrong.message]
        if found.duplicates:
            _BROKER_LOG.warning(
                "left out, since their ids (jms.id) came before: %d", found.duplicates
            )
        return messages.take(pa.array(kept)), None if wrong is None else wrong.error

    def _let_go(self) -> None:
        try:
            if self._error is None and self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        except Exception as error:  # noqa: BLE001  what is not acknowledged comes again
            self._error = self._error or error
        finally:
            self._journal.close()


def _message_count(received: pa.RecordBatch) -> MessageBatch:
    return as_messages(received, (0, np.arange(len(received))), "messages")[0]
