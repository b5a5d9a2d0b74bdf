"""Sort received messages into units: complete ones are written to the trail, open ones buffered, bad ones quarantined.

A unit is a transaction, or a message outside of one (decision 0012). An append to a trail cannot be
undone, so a unit is buffered until its last message is known to be good: at first in memory, and
beyond a limit in a temporary file. If bad messages stop the run, messages are not buffered, because
they are not quarantined.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from os import SEEK_END
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Generic, TypeVar

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.capture.capture import Parsed
from trailgate.errors import TrailgateError, Where
from trailgate.jobs.capture.ranges import OTHERS, encode_or_reject
from trailgate.live.jobs.feed import FeedPart
from trailgate.messages.skipped import SkippedMessages, SkippedTotals, add_skipped
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.files.quarantine import format_quarantine_line
from trailgate.trail.writing.writer import EncodedTrail

HELD_BYTES: Final = 16 << 20  # bytes of message bodies; their operations take several times as much

T = TypeVar("T")


def _unit_reasons(
    bad: Mapping[int, TrailgateError], unit: Longs, before: str | None
) -> dict[int, str]:
    """Return the error text of each bad unit of received messages, by unit number: the text of its first bad message.

    `before` is the text for unit 0, if that unit was already bad before this batch.
    """
    reasons = {} if before is None else {0: before}
    for at in sorted(bad):
        reasons.setdefault(0 if at < 0 else int(unit[at]), str(bad[at]))
    return reasons


class SpillingBuffer(Generic[T]):
    """A buffer of values in order, such as operations: ``limit`` bytes in memory, the rest in a file.

    The file in ``folder`` has no name and is lost when the process ends. It is not needed later,
    because after a restart the messages of an open unit are read again. Iterating yields all
    values, as often as needed.
    """

    def __init__(self, folder: Path, limit: int = HELD_BYTES) -> None:
        self._folder, self._limit = folder, limit
        self._room, self._stored = limit, 0  # bytes left in memory, and values in the file
        self._values: list[T] = []
        self._file: IO[bytes] | None = None

    def add(self, value: T, size: int) -> None:
        """Add a value made from ``size`` bytes. Raises WriteError if the disk is full."""
        self._room -= size
        if self._room >= 0:
            self._values.append(value)
            return
        with convert_write_errors(self._folder):
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  closed with this object
                weakref.finalize(self, self._file.close)
            # An iteration that was not finished has left the file at another value.
            self._file.seek(0, SEEK_END)
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        self._stored += 1

    def __iter__(self) -> Iterator[T]:
        yield from self._values
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._stored):
                yield pickle.load(self._file)  # noqa: S301  nobody else can open the file

    def clear(self) -> None:
        """Remove all values from the spilling buffer, and free their memory and disk space."""
        self._values.clear()
        self._room, self._stored = self._limit, 0
        if self._file is not None:
            with convert_write_errors(self._folder):
                self._file.seek(0)
                self._file.truncate()


AppendedUnits = tuple[ChangeBatch, EncodedTrail | None]


@dataclass(slots=True)
class _OpenUnit:
    """A unit to which later messages may belong, with its operations and messages so far.

    ``number`` is the number of its first message. A bad unit has a ``reason``, and quarantine lines
    instead of operations and messages. ``skipped`` are its messages without operations, unless it
    is bad.
    """

    number: int
    batches: SpillingBuffer[ChangeBatch]
    messages: SpillingBuffer[tuple[FeedPart, Longs]]
    lines: list[bytes] = field(default_factory=list)
    reason: str | None = None
    skipped: SkippedTotals = field(default_factory=dict)

    @property
    def operations(self) -> Iterator[AppendedUnits]:
        """The unit's buffered operations, not encoded, for the trail."""
        return ((batch, None) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The result of sorting a part of messages into units.

    - ``complete``: operations for the trail, which can be iterated only once.
    - ``lines``: lines for the quarantine.
    - ``number``: the number of the message with which a restart continues.
    - ``reason``: the fault of the bad unit to which that message may belong, or None.
    - ``error``: the first bad message's error, if bad messages stop the run. ``complete`` then has
      the operations of the units before it.
    - ``skipped``: the messages without operations, of the same units as ``complete``. Those of bad
      units are quarantined instead, and those of an open unit are counted when it ends.
    """

    complete: Iterable[AppendedUnits]
    lines: tuple[bytes, ...]
    number: int
    reason: str | None = None
    error: TrailgateError | None = None
    skipped: SkippedTotals = field(default_factory=dict)


class UnitSorter:
    """Sorts the messages of parsed parts into units.

    ``encode`` encodes operations as trail records in advance (or returns None), and raises an
    error if they cannot be encoded. With ``stop``, a bad message ends the run; otherwise its unit
    is quarantined. ``reason`` is the fault of a bad unit that was open when an earlier run ended,
    or None. A unit with more than ``limit`` bytes of messages is buffered in a file in ``folder``.
    """

    def __init__(
        self,
        encode: Callable[[ChangeBatch], EncodedTrail | None],
        folder: Path,
        *,
        stop: bool,
        reason: str | None = None,
        limit: int = HELD_BYTES,
    ) -> None:
        self._encode, self._stop = encode, stop
        self._folder, self._limit = folder, limit
        self._open = None if reason is None else self._unit(0, reason)

    def take(self, part: FeedPart, parsed: Parsed) -> UnitResult:
        """Sort a part of messages, and return the complete units, including buffered operations."""
        encoded, blamed = encode_or_reject(self._encode, parsed.batch, parsed.message)
        problems = {problem.message: problem.error for problem in reversed(parsed.problems)}
        bad = {**blamed, **problems}
        for at, error in bad.items():
            _locate(error, part, at)
        # unit[i] is the unit of message i, counted within the part; 0 is the unit that was open
        # before it
        unit = np.cumsum(parsed.starts_unit, dtype=np.int64)
        if self._stop and bad:
            return self._stop_before(part, parsed, unit, bad[min(bad)], min(bad))
        # the usual case: everything is good and complete
        if not bad and self._open is None and not parsed.state.is_open:
            complete = ((parsed.batch, encoded),) if parsed.batch.rows else ()
            skipped = _count_skips(part, parsed.skipped)
            return UnitResult(complete, (), part.end, skipped=skipped)
        return self._divide(part, parsed, unit, bad)

    def end(self, parsed: Parsed, number: int) -> UnitResult:
        """Close the open unit of messages, because no more messages follow.

        ``parsed`` is the capture's result for the end of the input (``Capture.at_end``).
        """
        opened, self._open = self._open or self._unit(number), None
        if opened.reason is not None:
            return UnitResult((), (), number)
        _, blamed = encode_or_reject(self._encode, parsed.batch, parsed.message)
        errors = [*(problem.error for problem in parsed.problems), *blamed.values()]
        if not errors:
            last: list[AppendedUnits] = [(parsed.batch, None)] if parsed.batch.rows else []
            return UnitResult(chain(opened.operations, last), (), number, skipped=opened.skipped)
        lines = (
            line
            for part, rows in opened.messages
            for line in self._lines(part, rows, {}, str(errors[0]))
        )
        return UnitResult((), tuple(lines), number)

    @property
    def reason(self) -> str | None:
        """The fault of the open unit of messages, or None if it has none."""
        return None if self._open is None else self._open.reason

    def next_number(self, end: int) -> int:
        """Return the number of the message with which a restart would continue.

        ``end`` is the number after the last sorted message. An open unit is read again from its
        start, unless it is bad.
        """
        return end if self._open is None or self._open.reason else self._open.number

    def _stop_before(
        self, part: FeedPart, parsed: Parsed, unit: Longs, error: TrailgateError, at: int
    ) -> UnitResult:
        """Return the result for a run that stops at the bad message ``at``.

        These are the operations before its unit. ``unit`` has the unit of each message.
        """
        blamed = 0 if at < 0 else int(unit[at])
        number = self._first_number(part, unit, blamed)
        buffered: Iterable[AppendedUnits] = ()
        skipped = _count_skips(
            part, parsed.skipped, _units_of(parsed.skipped.message, unit) < blamed
        )
        if blamed > 0 and self._open is not None:
            buffered = self._open.operations
            skipped = add_skipped(self._open.skipped, skipped)
        # the operations of the units before the bad one
        before = _units_of(parsed.message, unit) < blamed
        complete: list[AppendedUnits] = [(parsed.batch.where(before), None)] if before.any() else []
        return UnitResult(chain(buffered, complete), (), number, error=error, skipped=skipped)

    def _first_number(self, part: FeedPart, unit: Longs, number: int) -> int:
        """Return the number of the first message of a unit; ``number`` is the unit within the part."""
        if number == 0 and self._open is not None:
            return self.next_number(int(part.numbers[0]))
        return int(part.numbers[int(np.searchsorted(unit, number))])

    def _divide(
        self, part: FeedPart, parsed: Parsed, unit: Longs, bad: Mapping[int, TrailgateError]
    ) -> UnitResult:
        """Divide a part with bad messages or open units: return the complete units, buffer the rest.

        ``unit`` has the unit of each message, and ``bad`` the error of each bad message.
        """
        reasons = _unit_reasons(bad, unit, self.reason)
        unit_of_operation, last = _units_of(parsed.message, unit), int(unit[-1])
        closed = last if parsed.state.is_open else last + 1  # units below this number have ended
        skipped = self._skipped_of_ended(part, parsed, unit, reasons, closed)
        buffered: Iterable[AppendedUnits] = ()
        complete: list[AppendedUnits] = []
        lines: list[bytes] = []
        if self._open is not None:
            self._extend(self._open, part, unit == 0, bad, reasons.get(0))
            if closed > 0:
                lines += self._open.lines
                buffered = self._open.operations
        # the operations of units that have ended and have no fault
        good = ~np.isin(unit_of_operation, np.fromiter(reasons, np.int64)) & (
            unit_of_operation < closed
        )
        if good.any():
            complete.append((parsed.batch.where(good), None))
        for number in range(1, closed):
            if number in reasons:
                rows = np.flatnonzero(unit == number)
                lines += self._lines(part, rows, bad, reasons[number])
        if closed > 0:
            self._open = None
            if parsed.state.is_open:
                first = int(np.searchsorted(unit, last))
                self._open = self._unit(int(part.numbers[first]))
                self._extend(self._open, part, unit == last, bad, reasons.get(last))
        if self._open is not None:
            if self._open.reason is None:
                _buffer(self._open, part, parsed, unit)
            lines += self._open.lines
            self._open.lines.clear()
        number = self.next_number(part.end)
        return UnitResult(
            chain(buffered, complete), tuple(lines), number, self.reason, skipped=skipped
        )

    def _skipped_of_ended(
        self,
        part: FeedPart,
        parsed: Parsed,
        unit: Longs,
        reasons: Mapping[int, str],
        closed: int,
    ) -> SkippedTotals:
        """Count the messages without operations in the units below ``closed``, except bad units.

        ``unit`` has the unit of each message, and ``reasons`` the reason of each bad unit.
        """
        own = _units_of(parsed.skipped.message, unit)
        good = (own < closed) & ~np.isin(own, np.fromiter(reasons, np.int64))
        skipped = _count_skips(part, parsed.skipped, good)
        if self._open is None or closed == 0 or 0 in reasons:
            return skipped
        return add_skipped(self._open.skipped, skipped)

    def _extend(
        self,
        opened: _OpenUnit,
        part: FeedPart,
        mine: Mask,
        bad: Mapping[int, TrailgateError],
        reason: str | None,
    ) -> None:
        """Add the messages in the mask ``mine`` to an open unit.

        If the unit is bad (it has a ``reason``), its buffered messages are turned into lines of the
        quarantine.
        """
        rows = np.flatnonzero(mine)
        if reason is None:
            if not self._stop:  # otherwise they would not be quarantined
                opened.messages.add((part, rows), part.size)
            return
        if opened.reason is None:
            opened.reason, opened.skipped = reason, {}
            opened.batches.clear()
            for buffered, buffered_rows in opened.messages:
                opened.lines += self._lines(buffered, buffered_rows, {}, reason)
            opened.messages.clear()
        opened.lines += self._lines(part, rows, bad, reason)

    def _unit(self, number: int, reason: str | None = None) -> _OpenUnit:
        """Create an open unit with empty buffers. ``number`` is the number of its first message."""
        limits = (self._folder, self._limit)
        return _OpenUnit(number, SpillingBuffer(*limits), SpillingBuffer(*limits), reason=reason)

    def _lines(
        self, part: FeedPart, rows: Longs, bad: Mapping[int, TrailgateError], reason: str
    ) -> Iterator[bytes]:
        """Yield the quarantine's lines for messages, each with its own error or the error of its unit."""
        messages = part.messages
        for at in rows.tolist():
            body = bytes(messages.data[int(messages.starts[at]) : int(messages.ends[at])])
            headers = {} if messages.headers is None else messages.headers[at]
            place = (messages.source, int(messages.files[at]), int(messages.offsets[at]))
            error = bad.get(at)
            yield format_quarantine_line(
                body, headers, place, OTHERS + reason if error is None else str(error)
            )


def _buffer(opened: _OpenUnit, part: FeedPart, parsed: Parsed, unit: Longs) -> None:
    """Add the operations and the skipped messages of a part's last unit to that unit. ``unit`` has the unit of each message."""
    own = _units_of(parsed.message, unit) == unit[-1]
    if own.any():
        opened.batches.add(parsed.batch.where(own), part.size)
    of_skipped = _units_of(parsed.skipped.message, unit) == unit[-1]
    skipped = _count_skips(part, parsed.skipped, of_skipped)
    opened.skipped = add_skipped(opened.skipped, skipped)


def _units_of(message: Longs, unit: Longs) -> Longs:
    """Return the unit of each operation or skipped message by its message number. ``unit`` has the unit of each message."""
    # message -1 is one of an earlier part, which belongs to unit 0
    inside = message >= 0
    return np.where(inside, unit[np.where(inside, message, 0)], 0)


def _count_skips(
    part: FeedPart, skipped: SkippedMessages, chosen: Mask | None = None
) -> SkippedTotals:
    """Count, by reason, the messages in a part of a live capture's feed that have no operations.

    ``chosen`` selects the messages to count.
    """
    if chosen is not None:
        skipped = skipped.where(chosen)

    def place(at: int) -> Where:
        number = int(part.numbers[max(int(skipped.message[at]), 0)])
        return Where(source=part.messages.source, message=number)

    return skipped.totals(place) if len(skipped) else {}


def _locate(error: TrailgateError, part: FeedPart, at: int) -> None:
    number = int(part.numbers[max(at, 0)]) if len(part) else None
    error.where = replace(error.where, source=part.messages.source, message=number)
