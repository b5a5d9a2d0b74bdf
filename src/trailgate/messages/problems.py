"""The problems of messages in a batch, and facts about the messages that follow it.

`MessageErrors` collects the errors of a batch while it is parsed, `ProblemCollector` while its
transactions are checked. Both keep only the first error of each message. `Problems` are the result.
All of them consist of columns (`error_columns.py`), so that a file in which every message is bad
needs no step per message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, overload

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import first_of_each
from trailgate.errors import TrailgateError
from trailgate.messages.error_columns import ErrorColumns
from trailgate.options import check_items

NO_PLACE: Final = -1


@dataclass(frozen=True, slots=True)
class Problem:
    """The problem of a message that cannot be captured. `message` is its number in the batch.

    Message -1 stands for the unit that was open before the batch.

    `ids` are the transaction ids of the message's first and last operation: None if they could not
    be read, and () if the message certainly has no operation. `place` is the file and offset of the
    message if it belongs to an earlier batch, otherwise None.
    """

    message: int
    error: TrailgateError
    ids: tuple[str, ...] | None = None
    place: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BadMessageIds:
    """The transaction ids of bad messages: for each message the ids of its first and last operation, null if unknown.

    `none` marks the messages that certainly have no operation.
    """

    first: pa.StringArray
    last: pa.StringArray
    none: Mask

    @staticmethod
    def unknown(count: int) -> BadMessageIds:
        """Return null ids for messages whose transaction ids are all unknown."""
        nulls = pa.nulls(count, pa.string())
        return BadMessageIds(nulls, nulls, np.zeros(count, bool))

    @staticmethod
    def of(ids: Sequence[tuple[str, ...] | None]) -> BadMessageIds:
        """Convert the transaction ids of bad messages to columns."""
        first = pa.array([own[0] if own else None for own in ids], pa.string())
        last = pa.array([own[-1] if own else None for own in ids], pa.string())
        return BadMessageIds(first, last, np.array([own == () for own in ids], bool))

    @staticmethod
    def join(parts: Sequence[BadMessageIds]) -> BadMessageIds:
        """Concatenate the transaction ids of bad messages."""
        return BadMessageIds(
            pa.concat_arrays([part.first for part in parts]),
            pa.concat_arrays([part.last for part in parts]),
            np.concatenate([part.none for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.none)

    def __getitem__(self, at: int) -> tuple[str, ...] | None:
        if self.none[at]:
            return ()
        first, last = self.first[at].as_py(), self.last[at].as_py()
        return None if first is None else (first, last)

    def take(self, rows: Longs) -> BadMessageIds:
        """Return the transaction ids of the bad messages at these indexes."""
        which = pa.array(rows, pa.int64())
        return BadMessageIds(self.first.take(which), self.last.take(which), self.none[rows])

    def put(self, rows: Longs, others: BadMessageIds) -> BadMessageIds:
        """Replace the transaction ids of the bad messages at these indexes by `others`."""
        which = np.arange(len(self))
        which[rows] = len(self) + np.arange(len(rows))
        return BadMessageIds.join([self, others]).take(which)


@dataclass(frozen=True, slots=True, eq=False)
class Problems(Sequence[Problem]):
    """The problems of messages as columns: the message, the error and the ids of each; see `Problem`.

    `files` and `offsets` are the places of messages of earlier batches, otherwise `NO_PLACE`.
    """

    message: Longs
    errors: ErrorColumns
    ids: BadMessageIds
    files: Longs
    offsets: Longs

    @staticmethod
    def of_columns(
        message: Longs, errors: ErrorColumns, ids: BadMessageIds | None = None
    ) -> Problems:
        """Build problems of this batch's messages from their numbers and errors."""
        none = np.full(len(message), NO_PLACE)
        own = BadMessageIds.unknown(len(message)) if ids is None else ids
        return Problems(message, errors, own, none, none)

    @staticmethod
    def of(problems: Iterable[Problem]) -> Problems:
        """Convert the problems of messages to columns."""
        if isinstance(problems, Problems):
            return problems
        every = check_items("problems", problems, Problem)
        return Problems._of_some(every) if every else NO_PROBLEMS

    @staticmethod
    def _of_some(every: Sequence[Problem]) -> Problems:
        places = np.array([one.place or (NO_PLACE, NO_PLACE) for one in every], np.int64)
        return Problems(
            np.array([one.message for one in every], np.int64),
            ErrorColumns.of_errors([one.error for one in every]),
            BadMessageIds.of([one.ids for one in every]),
            *places.reshape(-1, 2).T.copy(),
        )

    @staticmethod
    def join(parts: Sequence[Problems]) -> Problems:
        """Concatenate the problems of messages of several batches."""
        filled = [part for part in parts if len(part)] or parts[:1]
        if len(filled) == 1:
            return filled[0]
        return Problems(
            np.concatenate([part.message for part in filled]),
            ErrorColumns.join([part.errors for part in filled]),
            BadMessageIds.join([part.ids for part in filled]),
            np.concatenate([part.files for part in filled]),
            np.concatenate([part.offsets for part in filled]),
        )

    def __len__(self) -> int:
        return len(self.message)

    @overload
    def __getitem__(self, at: int) -> Problem: ...
    @overload
    def __getitem__(self, at: slice) -> Problems: ...
    def __getitem__(self, at: int | slice) -> Problem | Problems:
        if isinstance(at, slice):
            return self.take(np.arange(len(self))[at])
        row = range(len(self))[at]
        place = int(self.files[row]), int(self.offsets[row])
        return Problem(
            int(self.message[row]),
            self.errors[row],
            self.ids[row],
            None if place[0] == NO_PLACE else place,
        )

    def __iter__(self) -> Iterator[Problem]:
        return (self[row] for row in range(len(self)))

    def take(self, rows: Longs) -> Problems:
        """Return the problems of messages at these indexes."""
        return Problems(
            self.message[rows],
            self.errors.take(rows),
            self.ids.take(rows),
            self.files[rows],
            self.offsets[rows],
        )

    def where(self, kept: Mask) -> Problems:
        """Return the problems of messages that a mask selects."""
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def without_messages(self, messages: Longs) -> Problems:
        """Return the problems of all messages except these."""
        if not len(self) or not len(messages):
            return self
        return self.where(~np.isin(self.message, messages))

    def moved(self, by: int) -> Problems:
        """Return the problems with `by` added to their message numbers, for a batch that follows others."""
        return replace(self, message=self.message + by)

    def last_of_each(self) -> Problems:
        """Return the last problem of each message, sorted by message."""
        count = len(self)
        if not count or (np.diff(self.message) > 0).all():
            return self
        # unique returns the first index of each message; in reversed order that is its last problem.
        # Example: messages 4 4 7: reversed 7 4 4, rows = 1 0 for 4 and 7, so 3 - 1 - rows = 1 2.
        _, rows = np.unique(self.message[::-1], return_index=True)
        return self.take(count - 1 - rows)


NO_PROBLEMS: Final = Problems._of_some(())  # noqa: SLF001  its own


class MessageErrors:
    """The errors of a batch by message number, while it is parsed.

    Only the first error of each message is kept.
    """

    def __init__(self, errors: Mapping[int, TrailgateError] | None = None) -> None:
        self._parts: list[tuple[Longs, ErrorColumns]] = []
        if errors:
            messages = np.fromiter(errors, np.int64, len(errors))
            self.add(messages, ErrorColumns.of_errors(list(errors.values())))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, messages: Longs, errors: ErrorColumns) -> None:
        """Add an error for each of these messages, which may already have errors."""
        if len(messages):
            self._parts.append((messages, errors))

    def first_of_each(self) -> tuple[Longs, ErrorColumns]:
        """Return the bad messages, in order, and the first error of each."""
        if not self._parts:
            return np.zeros(0, np.int64), ErrorColumns.of_errors(())
        every = np.concatenate([messages for messages, _ in self._parts])
        messages, rows = first_of_each(every)
        return messages, ErrorColumns.join([errors for _, errors in self._parts]).take(rows)


class ProblemCollector:
    """Collects the problems of a batch while its transactions are checked.

    It begins with the `problems` of the parser, of which the last one of each message is kept. Then
    a problem is added only to a message that has none.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._known = Problems.of(problems).last_of_each()
        self._found: dict[int, TrailgateError] = {}

    def __bool__(self) -> bool:
        return bool(len(self._known) or self._found)

    def add(self, message: int, error: TrailgateError) -> None:
        """Add an error to a message of the batch, unless the message already has one."""
        at = int(np.searchsorted(self._known.message, message))
        known = at < len(self._known) and self._known.message[at] == message
        if not known:
            self._found.setdefault(message, error)

    @property
    def messages(self) -> Longs:
        """The numbers of the bad messages, in order. -1 stands for the unit that was open before the batch."""
        if not self._found:
            return np.sort(self._known.message)
        found = np.fromiter(self._found, np.int64, len(self._found))
        return np.sort(np.append(self._known.message, found))

    @property
    def unreadable(self) -> Problems:
        """The problems of unreadable messages that may contain operations, in order."""
        every = self.problems()
        return every.where(~every.ids.none)

    def problems(self) -> Problems:
        """Return all problems of the batch's messages, in the order of the messages."""
        if not self._found:
            return self._known
        messages = np.fromiter(self._found, np.int64, len(self._found))
        errors = ErrorColumns.of_errors(list(self._found.values()))
        both = Problems.join([self._known, Problems.of_columns(messages, errors)])
        return both.take(np.argsort(both.message, kind="stable"))


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Facts about the messages that follow a batch.

    `following` is the transaction id of the next operation. `awaiting` marks the messages of this
    batch to whose operations later messages may add parts, such as large objects; None if there
    are none.
    """

    following: str | None = None
    awaiting: Mask | None = None

    def of_first(self, count: int) -> Lookahead:
        """Return the lookahead for only the first `count` messages of the batch."""
        awaiting = None if self.awaiting is None else self.awaiting[:count]
        return Lookahead(self.following, awaiting)


NOTHING_LATER: Final = Lookahead()
