"""Operations of a journal's messages in batches that can be given again: each begins and ends between two transactions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import TrailgateError
from trailgate.messages.capture import Capture, Parsed, TransactionState
from trailgate.messages.parsing.waiting import waiting_in
from trailgate.messages.received import as_messages
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.journal.journal import Stored
from trailgate.storage.files.journal.ranges import JournalIndex, JournalRange

LOOKED_AT: Final = 256  # messages at first, in which the last transaction is looked for
FACTOR: Final = 4


class TransactionBorders:
    """Finds where the messages of a journal may be cut, so that no transaction is in two parts.

    The messages before a border leave nothing open. A bad message is let through: whoever parses it reports it.
    """

    def __init__(self, index: JournalIndex, capture: Capture) -> None:
        self._index, self._capture = index, capture
        self._known: tuple[int, int, int] | None = None

    def last(self, begin: int, end: int) -> int:
        """Return the last border of (begin, end], or ``begin``, which is one, where there is none."""
        if begin >= end or not self._capture.spans_messages:
            return end
        if self._known is None or self._known[:2] != (begin, end):
            self._known = (begin, end, self._closed(self._last_begun(begin, end), end))
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
            parsed = _parsed(self._capture, stored, state)
            state = parsed.state
            found.append(stored.number + np.flatnonzero(parsed.opens | parsed.starts_unit))
        return np.concatenate(found)

    def _closed(self, begin: int, end: int) -> int:
        """Return ``end`` if the unit that begins at a message has ended there or is bad, else where it begins."""
        state = TransactionState()
        for stored in self._index.range(begin, end).read():
            parsed = _parsed(self._capture, stored, state)
            if parsed.problems:
                return end
            state = parsed.state
        return begin if state.is_open or waiting_in(state) else end


def operations_of(messages: JournalRange, capture: Capture) -> Iterator[ChangeBatch]:
    """Yield the operations of messages that begin and end between two transactions; raises the first bad message's error."""
    state = TransactionState()
    for stored in messages.read():
        parsed = _parsed(capture, stored, state)
        if parsed.problems:
            first = min(parsed.problems, key=lambda problem: problem.message)
            number = stored.number + max(first.message, 0)
            raise _located(first.error, messages, number)
        state = parsed.state
        yield parsed.batch
    ended = capture.at_end(state)
    if ended.problems:
        raise _located(ended.problems[0].error, messages, messages.end - 1)
    yield ended.batch


def _parsed(capture: Capture, stored: Stored, state: TransactionState) -> Parsed:
    place = (stored.segment, stored.offsets)
    messages, unreadable = as_messages(stored.messages, place, "journal")
    return capture.parse(messages, state, unreadable)


def _located(error: TrailgateError, messages: JournalRange, number: int) -> TrailgateError:
    error.where = replace(error.where, source=str(messages.folder), message=number)
    return error
