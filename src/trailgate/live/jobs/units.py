"""Units of received messages: whole ones are given for the trail, open ones held, bad ones quarantined (decision 0012).

What is appended to a trail cannot be taken back, so a unit is held until its last message is known to be good: some of it in memory, and beyond a limit in a
temporary file. Where bad messages stop the run, its messages are not held: nobody quarantines them.
"""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Generic, TypeVar

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.capture.capture import Parsed
from trailgate.errors import TrailgateError
from trailgate.jobs.capture.ranges import OTHERS, encode_or_blame, reasons_of_units
from trailgate.live.jobs.feed import Part
from trailgate.model.changes import ChangeBatch
from trailgate.storage.files.durable import writing
from trailgate.storage.files.quarantine import write_line
from trailgate.trail.writing.writer import Encoded

HELD_BYTES: Final = 16 << 20  # of message bodies; their operations take several times as much

T = TypeVar("T")


class Held(Generic[T]):
    """Values in their order; those after ``limit`` bytes are in a file without a name in ``folder``.

    The file does not outlive the process, and need not: after a start the messages of an open unit are given again.
    """

    def __init__(self, folder: Path, limit: int = HELD_BYTES) -> None:
        self._folder, self._room, self._stored = folder, limit, 0
        self._values: list[T] = []
        self._file: IO[bytes] | None = None

    def add(self, value: T, size: int) -> None:
        """Add a value that was made of so many bytes; raises WriteError where there is no room for it on the disk."""
        self._room -= size
        if self._room >= 0:
            self._values.append(value)
            return
        with writing(self._folder):
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  closed with this object
                weakref.finalize(self, self._file.close)
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        self._stored += 1

    def __iter__(self) -> Iterator[T]:
        yield from self._values
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._stored):
                yield pickle.load(self._file)  # noqa: S301  nobody else can open the file

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._stored = 0


Whole = tuple[ChangeBatch, Encoded | None]


@dataclass(slots=True)
class _OpenUnit:
    """A unit that later messages may belong to: its first message's number, operations and messages so far."""

    number: int
    batches: Held[ChangeBatch]
    messages: Held[tuple[Part, Longs]]
    lines: list[bytes] = field(default_factory=list)
    reason: str | None = None

    @property
    def operations(self) -> Iterator[Whole]:
        """Return what is held as operations for the trail."""
        return ((batch, None) for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a part: operations for the trail, lines for the quarantine, and where the next start continues.

    ``reason`` is what is wrong with a bad unit that may continue there. ``error`` is that of the first bad message, where
    bad messages stop the run; what is before its unit is in ``whole``, which can be iterated once.
    """

    whole: Iterable[Whole]
    lines: tuple[bytes, ...]
    number: int
    reason: str | None = None
    error: TrailgateError | None = None


class Units:
    """Takes parsed parts in their order; ``encoded`` makes records of operations, if they are to be any, or raises what is wrong with them.

    A unit that is longer than ``limit`` bytes of messages is held in ``folder``.
    """

    def __init__(
        self,
        encoded: Callable[[ChangeBatch], Encoded | None],
        folder: Path,
        *,
        stop: bool,
        reason: str | None = None,
        limit: int = HELD_BYTES,
    ) -> None:
        self._encoded, self._stop = encoded, stop
        self._folder, self._limit = folder, limit
        self._open = None if reason is None else self._unit(0, reason)

    def take(self, part: Part, parsed: Parsed) -> Taken:
        """Return what becomes of a part's messages, and of those that were held."""
        encoded, blamed = encode_or_blame(self._encoded, parsed.batch, parsed.message)
        problems = {problem.message: problem.error for problem in reversed(parsed.problems)}
        bad = {**blamed, **problems}
        for at, error in bad.items():
            _locate(error, part, at)
        unit = np.cumsum(parsed.starts_unit, dtype=np.int64)  # 0 is the unit that was open before
        if self._stop and bad:
            return self._stop_before(part, parsed, unit, bad[min(bad)], min(bad))
        if not bad and self._open is None and not parsed.state.is_open:
            return Taken(((parsed.batch, encoded),) if parsed.batch.rows else (), (), part.end)
        return self._divide(part, parsed, unit, bad)

    def end(self, parsed: Parsed, number: int) -> Taken:
        """Return what becomes of the open unit where no message follows: ``parsed`` is what that ends, or leaves open."""
        opened, self._open = self._open or self._unit(number), None
        if opened.reason is not None:
            return Taken((), (), number)
        _, blamed = encode_or_blame(self._encoded, parsed.batch, parsed.message)
        errors = [*(problem.error for problem in parsed.problems), *blamed.values()]
        if not errors:
            last: list[Whole] = [(parsed.batch, None)] if parsed.batch.rows else []
            return Taken(chain(opened.operations, last), (), number)
        lines = (
            line
            for part, places in opened.messages
            for line in self._lines(part, places, {}, str(errors[0]))
        )
        return Taken((), tuple(lines), number)

    @property
    def reason(self) -> str | None:
        """Return what is wrong with the open unit, None where there is none or it is good so far."""
        return None if self._open is None else self._open.reason

    def next_number(self, end: int) -> int:
        """Return where a start continues after all messages before ``end``: an open unit is given again, unless it is bad."""
        return end if self._open is None or self._open.reason else self._open.number

    def _stop_before(
        self, part: Part, parsed: Parsed, unit: Longs, error: TrailgateError, at: int
    ) -> Taken:
        """Return what comes before the unit of the first bad message."""
        blamed = 0 if at < 0 else int(unit[at])
        number = self._number(part, unit, blamed)
        held: Iterable[Whole] = ()
        if blamed > 0 and self._open is not None:
            held = self._open.operations
        before = self._units_of(parsed, unit) < blamed
        own: list[Whole] = [(parsed.batch.where(before), None)] if before.any() else []
        return Taken(chain(held, own), (), number, error=error)

    def _number(self, part: Part, unit: Longs, number: int) -> int:
        """Return the number of a unit's first message."""
        if number == 0 and self._open is not None:
            return self.next_number(int(part.numbers[0]))
        return int(part.numbers[int(np.searchsorted(unit, number))])

    def _units_of(self, parsed: Parsed, unit: Longs) -> Longs:
        """Return the unit of each operation."""
        inside = parsed.message >= 0
        return np.where(inside, unit[np.where(inside, parsed.message, 0)], 0)

    def _divide(
        self, part: Part, parsed: Parsed, unit: Longs, bad: Mapping[int, TrailgateError]
    ) -> Taken:
        """Return what is whole of a part with bad messages or open units, and hold the rest."""
        reasons = reasons_of_units(bad, unit, self.reason)
        own, last = self._units_of(parsed, unit), int(unit[-1])
        closed = last if parsed.state.is_open else last + 1  # units below it are closed
        held: Iterable[Whole] = ()
        whole: list[Whole] = []
        lines: list[bytes] = []
        if self._open is not None:
            self._extend(self._open, part, unit == 0, bad, reasons.get(0))
            if closed > 0:
                lines += self._open.lines
                held = self._open.operations
        good = ~np.isin(own, np.fromiter(reasons, np.int64)) & (own < closed)
        if good.any():
            whole.append((parsed.batch.where(good), None))
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
            mine = own == last
            if self._open.reason is None and mine.any():
                self._open.batches.add(parsed.batch.where(mine), part.size)
            lines += self._open.lines
            self._open.lines.clear()
        return Taken(chain(held, whole), tuple(lines), self.next_number(part.end), self.reason)

    def _extend(
        self,
        opened: _OpenUnit,
        part: Part,
        mine: Mask,
        bad: Mapping[int, TrailgateError],
        reason: str | None,
    ) -> None:
        """Add to an open unit the messages that belong to it; drop what is held of it where it is bad."""
        rows = np.flatnonzero(mine)
        if reason is None:
            if not self._stop:  # nobody quarantines them
                opened.messages.add((part, rows), part.size)
            return
        if opened.reason is None:
            opened.reason = reason
            opened.batches.clear()
            for held, places in opened.messages:
                opened.lines += self._lines(held, places, {}, reason)
            opened.messages.clear()
        opened.lines += self._lines(part, rows, bad, reason)

    def _unit(self, number: int, reason: str | None = None) -> _OpenUnit:
        """Return a unit of which nothing is held yet."""
        limits = (self._folder, self._limit)
        return _OpenUnit(number, Held(*limits), Held(*limits), reason=reason)

    def _lines(
        self, part: Part, rows: Longs, bad: Mapping[int, TrailgateError], reason: str
    ) -> Iterator[bytes]:
        """Yield the quarantine's lines of messages; each with its own error, or that of its unit."""
        messages = part.messages
        for at in rows.tolist():
            body = bytes(messages.data[int(messages.starts[at]) : int(messages.ends[at])])
            headers = {} if messages.headers is None else messages.headers[at]
            place = (messages.source, int(messages.files[at]), int(messages.offsets[at]))
            own = bad.get(at)
            yield write_line(body, headers, place, OTHERS + reason if own is None else str(own))


def _locate(error: TrailgateError, part: Part, at: int) -> None:
    number = int(part.numbers[max(at, 0)]) if len(part) else None
    error.where = replace(error.where, source=part.messages.source, message=number)
