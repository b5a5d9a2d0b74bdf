"""The messages that a range owns, parsed: the one rule of borders for capture and for Spark.

A range owns the *stretches* that begin in it: from a message whose first operation begins a
transaction up to the next such message. A message shows by itself that it begins one, so ranges
that are read apart agree on their border. A stretch is one unit or several (decision 0012).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import TrailgateError
from trailgate.messages.capture import Capture, MessageBatch, Parsed, Problem, TransactionState
from trailgate.model.changes import ChangeBatch
from trailgate.storage.reading.message_files import MessageSource, Place, Range, read_messages

TAIL: Final = 64  # messages looked at first for the end of a stretch behind a range's end
NOTHING: Final = ChangeBatch((), 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """Messages of a range and their operations, some of its units or parts of them.

    The first unit may go on from the piece before, the last one in the next piece. ``problems``
    are the first error of each bad message, in order; -1 is the unit open before the piece.
    """

    messages: MessageBatch
    operations: ChangeBatch
    message: Longs
    starts_unit: Mask
    problems: Mapping[int, TrailgateError]


class OwnedMessages:
    """Reads what a range owns, once. ``start`` and ``end``: its first stretch's and the next one's.

    They are known when all pieces are taken; ``start`` stays None where the range owns nothing.
    """

    def __init__(self, capture: Capture, source: MessageSource, own: Range) -> None:
        self._capture, self._source, self._own = capture, source, own
        self._begun = own.start == (0, 0)  # nothing is before the input
        # What stands before a range's first stretch is another range's: it is not judged here.
        self._state = TransactionState(broken=not self._begun)
        self._last: Place = own.start
        self.start: Place | None = None
        self.end: Place | None = None

    @property
    def id_length(self) -> int | None:
        """Return how many characters sequence ids have, None where none was seen."""
        return self._state.id_length

    def pieces(self) -> Iterator[Piece]:
        """Yield what the range owns, reading on past its end until the next stretch begins."""
        for batch, unreadable, behind in self._batches():
            if behind and not self._goes_on():
                self.end = place_of(batch, 0)
                return
            parsed = self._capture.parse(batch, self._state, unreadable)
            self._state = parsed.state
            begin = 0 if self._begun else _first(parsed.opens)
            stop = _first(parsed.opens) if behind else len(batch)
            if self._begun or begin < stop:
                yield from self._piece(batch, parsed, begin, stop)
            if stop < len(batch):
                self.end = place_of(batch, stop)
                return
        self.end = self._source.end
        error = self._capture.finish(self._state) if self._begun else None
        if error is not None:
            yield self._broken_off(error)

    def _goes_on(self) -> bool:
        return self._begun and self._capture.spans_messages

    def _batches(self) -> Iterator[tuple[MessageBatch, tuple[Problem, ...], bool]]:
        """Yield batches cut at the range's end, and whether they lie behind it: those grow."""
        for batch, problems in read_messages(self._source, self._own.start):
            begin = self._inside(batch)
            if begin:
                yield *_part(batch, problems, 0, begin), False
            size = TAIL
            while begin < len(batch):
                stop = min(begin + size, len(batch))
                yield *_part(batch, problems, begin, stop), True
                begin, size = stop, 2 * size

    def _inside(self, batch: MessageBatch) -> int:
        """Return how many messages of a batch begin before the range's end."""
        file, offset = self._own.end
        before = (batch.files < file) | ((batch.files == file) & (batch.offsets < offset))
        return int(before.sum())

    def _piece(self, batch: MessageBatch, parsed: Parsed, begin: int, stop: int) -> Iterator[Piece]:
        """Yield messages [begin, stop) and the problems that are the range's; maybe nothing."""
        problems = {}
        for problem in parsed.problems:
            if begin <= problem.message < stop:
                place = place_of(batch, problem.message)
                problems[problem.message - begin] = located(problem.error, self._source, place)
            elif problem.message < 0 and self._begun:
                problems[-1] = located(problem.error, self._source, self._last)
        if self.start is None and begin < stop:
            self.start = place_of(batch, begin)
        self._begun = True
        if begin < stop:
            self._last = place_of(batch, stop - 1)
        elif not problems:
            return
        inside = (parsed.message >= begin) & (parsed.message < stop)
        yield Piece(
            batch.slice(begin, stop),
            parsed.batch.where(inside),
            parsed.message[inside] - begin,
            parsed.starts_unit[begin:stop],
            {at: problems[at] for at in sorted(problems)},
        )

    def _broken_off(self, error: TrailgateError) -> Piece:
        """Return a piece of no messages: the unit before it does not end."""
        none = np.zeros(0, np.int64)
        nothing = MessageBatch(pa.py_buffer(b""), none, none, none, none)
        problems = {-1: located(error, self._source, self._last)}
        return Piece(nothing, NOTHING, none, none.astype(bool), problems)


def place_of(batch: MessageBatch, message: int) -> Place:
    """Return where a message of a batch stands."""
    return int(batch.files[message]), int(batch.offsets[message])


def located(error: TrailgateError, source: MessageSource, place: Place) -> TrailgateError:
    """Return the error with its file's name and, where that has more, its message's place."""
    offset = place[1] if source.lined(place[0]) else None
    error.where = replace(error.where, source=source.files[place[0]].path, message=offset)
    return error


def _part(
    batch: MessageBatch, problems: tuple[Problem, ...], begin: int, stop: int
) -> tuple[MessageBatch, tuple[Problem, ...]]:
    own = (Problem(p.message - begin, p.error) for p in problems if begin <= p.message < stop)
    return batch.slice(begin, stop), tuple(own)


def _first(mask: Mask) -> int:
    """Return the first set slot, or the length."""
    found = np.flatnonzero(mask)
    return int(found[0]) if len(found) else len(mask)
