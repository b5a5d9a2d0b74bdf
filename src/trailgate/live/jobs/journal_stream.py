"""Read a journal as a stream of operations, in batches that can be repeated (the Spark format ``jms``).

Each batch starts and ends between two transactions (``TransactionBoundaries``), and
``operations_of`` parses it. ``storing_receiver.py`` fills the journal.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.capture.capture import Capture, Parsed
from trailgate.live.files.journal_reader import JournalIndex, JournalRange
from trailgate.live.files.journal_writer import StoredMessages
from trailgate.live.jobs.feed import FeedPart
from trailgate.live.jobs.units import UnitSorter
from trailgate.messages.message_batch import MessageBatch, batch_of_received
from trailgate.messages.problems import Problem
from trailgate.messages.skipped import SkippedTotals, add_skipped, skipped_notes
from trailgate.messages.units import TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import convert_write_errors, replace_whole_file

# The search for the last transaction starts in this many messages, and then in FACTOR times as many.
LOOKED_AT: Final = 256
FACTOR: Final = 4
_LOG: Final = logging.getLogger("trailgate.jobs")


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
        taken = units.take(part, parsed)
        skipped = add_skipped(skipped, taken.skipped)
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
    skipped = add_skipped(skipped, taken.skipped)
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
    return batch_of_received(stored.messages, (stored.segment, stored.offsets), source)
