"""What records say of transactions, and where in a trail transactions begin and end.

Where the next one begins is one function of a place, so neighbouring splits agree on their border.

What a restart undid: the part of a transaction that was written before a writer was interrupted.

trail format §13: what comes before a RestartAbend record, back to its transaction's begin, is
dropped, because it comes again after it. It is dropped before anything of it is decoded, and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.storage.files.trail_files import TrailFiles, TrailPlace
from trailgate.storage.reading.trail_file import LONGEST, SCAN, SEARCH, TrailFileReader
from trailgate.trail.format.record_types import IO_DELETE, Role
from trailgate.trail.records.record_view import (
    RecordView,
    begins_of,
    ends_of,
    is_restart,
    stands_apart,
)

Rows = Mask | slice

LOOK_AHEAD: Final = 16 << 10  # first looked at after a place: small transactions end soon
FURTHEST_BACK: Final = 64 << 20  # looked at once where a long transaction's begin is sought


@dataclass(frozen=True, slots=True)
class Bounds:
    """What consecutive records say of transactions, one slot a record.

    ``plain`` records belong to transactions: the others have an indicator too, which means nothing. ``abends`` are the restart records that undo an open transaction.
    """

    plain: Mask
    begins: Mask
    ends: Mask
    abends: Mask
    restarts: Mask
    before_last: bool = (
        False  # whether the last one is a before image, to which the next record belongs
    )

    def __len__(self) -> int:
        return len(self.plain)

    def take(self, rows: Rows) -> Bounds:
        """Return some of the slots."""
        return Bounds(
            self.plain[rows],
            self.begins[rows],
            self.ends[rows],
            self.abends[rows],
            self.restarts[rows],
        )


def bounds_of(view: RecordView, *, after_before: bool = False) -> Bounds:
    """Return what these records say; ``after_before``: they follow a before image.

    The two records of an update are never torn apart, whatever their indicators say, nor are fragments
    and pieces of large objects torn from their change.
    """
    role = view.role
    if not after_before and _is_usual(view):
        none = np.zeros(len(view), bool)
        return Bounds(~none, begins_of(view.indicator), ends_of(view.indicator), none, none)
    plain = ~stands_apart(view)
    piece = (role == Role.LARGE_OBJECT) | (role == Role.FRAGMENT)
    is_before = view.is_before & (view.io_type != IO_DELETE) & plain
    follows = np.concatenate([[after_before], is_before[:-1]])[: len(view)]
    torn = follows & ~view.is_before
    begins = begins_of(view.indicator) & plain & ~piece & ~torn
    before_piece = np.concatenate([piece[1:], [False]])[: len(view)]
    ends = ends_of(view.indicator) & plain & (view.continued == 0) & ~before_piece
    last = bool(len(view) and is_before[-1])
    return Bounds(plain, begins, ends, role == Role.ABEND, is_restart(view), last)


def _is_usual(view: RecordView) -> bool:
    """Return whether each record is an operation of its own: nothing but its indicator counts then."""
    return view.only_changes and not view.is_before.any() and not view.continued.any()


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one file, in bytes that begin at ``base``, and what they say of transactions."""

    number: int
    base: int
    view: RecordView
    bounds: Bounds

    @property
    def starts(self) -> Longs:
        """Return where the records begin in the file."""
        return self.base + self.view.offsets

    @property
    def stops(self) -> Longs:
        """Return where the records end in the file."""
        return self.starts + self.view.lengths

    def take(self, rows: Rows) -> Run:
        """Return some of the records."""
        chosen = rows if isinstance(rows, slice) else np.flatnonzero(rows)
        return Run(self.number, self.base, self.view.take(chosen), self.bounds.take(rows))


def forwards(trail: TrailFiles, place: TrailPlace, size: int = SEARCH) -> Iterator[Run]:
    """Yield the records from a record's begin on to the end of the trail.

    An unfinished record ends a file here: whoever reads the file decides whether that is an error.
    """
    for file in trail.following(place.number):
        with TrailFileReader(file) as reader:
            start = place.offset if file.number == place.number else 0
            yield from _forwards(reader, start, size)


def _forwards(reader: TrailFileReader, start: int, size: int) -> Iterator[Run]:
    try:
        at = max(start, reader.begin)
    except TruncatedError:
        return
    before = False
    while at < reader.file.size:
        _, view = reader.records(at, size)
        if len(view):
            bounds = bounds_of(view, after_before=before)
            yield Run(reader.file.number, at, view, bounds)
            before = bounds.before_last
        elif size >= LONGEST:
            return
        at += view.end
        size = min(2 * size, SCAN)


def _around(trail: TrailFiles, place: TrailPlace) -> Iterator[Run]:
    """Yield records to the end of the trail that begin some way before a place.

    The record before the place is among them, if there is one: a before image.
    """
    file = trail.file(place.number)
    start = place.offset - LONGEST
    if start > 0:
        with TrailFileReader(file) as reader:
            try:
                found = reader.resync(start) if start > reader.begin else 0
            except TruncatedError:
                return
        place = TrailPlace(place.number + 1, 0) if found is None else TrailPlace(file.number, found)
    else:
        place = TrailPlace(place.number, 0)
    yield from forwards(trail, place)


def next_begin(trail: TrailFiles, place: TrailPlace, limit: TrailPlace) -> TrailPlace | None:
    """Return where, from ``place`` on and before ``limit``, a transaction begins; or None."""
    for run in _around(trail, place):
        if (run.number, run.starts[0]) >= limit:
            return None
        rows = np.flatnonzero(_from(run, place) & run.bounds.begins)
        if len(rows):
            found = TrailPlace(run.number, int(run.starts[rows[0]]))
            return found if found < limit else None
    return None


def first_end(trail: TrailFiles, place: TrailPlace) -> TrailPlace | None:
    """Return where the first transaction ends that ends after a place; None while none does."""
    for run in _around(trail, place):
        after = run.number > place.number or run.stops > place.offset
        rows = np.flatnonzero(after & run.bounds.ends)
        if len(rows):
            return TrailPlace(run.number, int(run.stops[rows[0]]))
    return None


def last_end(trail: TrailFiles, place: TrailPlace, floor: TrailPlace) -> TrailPlace | None:
    """Return where, between ``floor`` and ``place``, a transaction ends last; or None."""
    for run in _backwards(trail, place, floor):
        within = run.number < place.number or run.stops <= place.offset
        rows = np.flatnonzero(within & run.bounds.ends)
        if len(rows):
            return TrailPlace(run.number, int(run.stops[rows[-1]]))
    return None


def last_begin(trail: TrailFiles, place: TrailPlace) -> TrailPlace | None:
    """Return where, at a place or before it, a transaction begins last; or None."""
    limit = TrailPlace(place.number, place.offset + 1)
    for run in _backwards(trail, limit, trail.begin):
        rows = np.flatnonzero(run.bounds.begins)
        if len(rows):
            return TrailPlace(run.number, int(run.starts[rows[-1]]))
    return None


def _from(run: Run, place: TrailPlace) -> Mask | bool:
    """Return which records begin at a place or after it."""
    return run.number > place.number or run.starts >= place.offset


def _backwards(trail: TrailFiles, place: TrailPlace, floor: TrailPlace) -> Iterator[Run]:
    """Yield the records that begin in [floor, place), the last ones first, in growing windows."""
    size = SEARCH
    number, high = place
    while number >= floor.number:
        high = min(high, trail.file(number).size)
        lowest = floor.offset if number == floor.number else 0
        while high > lowest:
            low = max(high - size, lowest)
            yield from reversed(list(_window(trail, number, low, high)))
            high, size = low, min(2 * size, FURTHEST_BACK)
        number -= 1
        high = FURTHEST_BACK << 32


def _window(trail: TrailFiles, number: int, low: int, high: int) -> Iterator[Run]:
    """Yield the records of a file that begin in [low, high)."""
    for run in _around(trail, TrailPlace(number, low)):
        if run.number > number or run.starts[0] >= high:
            return
        yield run.take((run.starts >= low) & (run.starts < high))


def is_abandoned(trail: TrailFiles, place: TrailPlace) -> bool:
    """Return whether the transaction that is open before a record is undone by a restart.

    It is not where it ends, where another one begins, and where the trail ends first.
    """
    for run in forwards(trail, place, LOOK_AHEAD):
        bounds = run.bounds
        telling = np.flatnonzero(bounds.abends | bounds.begins | bounds.ends)
        if len(telling):
            return bool(bounds.abends[telling[0]])
    return False


def record_begin(trail: TrailFiles, place: TrailPlace) -> TrailPlace:
    """Return where the first record begins at a place or after it; else the trail's end."""
    for run in _around(trail, place):
        rows = np.flatnonzero(np.broadcast_to(_from(run, place), run.starts.shape))
        if len(rows):
            return TrailPlace(run.number, int(run.starts[rows[0]]))
    return trail.end


LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """RecordPlaces of one transaction that were left out: of which file, from which byte, how many."""

    path: str
    offset: int
    records: int

    def __str__(self) -> str:
        return (
            f"{self.path}, byte {self.offset}: {self.records} records of a transaction that its "
            "writer left unfinished are left out; after a restart record they come again"
        )


class Restarts:
    """Leaves out of records, which come in order, what was abandoned.

    Whether a transaction that is open at the end of some records will be abandoned is looked up once,
    ahead, so that memory stays flat however long it is.
    """

    def __init__(self, trail: TrailFiles) -> None:
        self._trail = trail
        self._known = False  # whether it is known what becomes of the transaction open before
        self._open = False
        self._doomed = False
        self._must_begin = False
        self.found: list[Abandoned] = []

    def remaining(self, run: Run, *, last: bool = False) -> RecordView:
        """Return records without restart records and what they undid.

        With ``last`` a transaction of another split follows, or nothing.
        """
        bounds, view = run.bounds, run.view
        if not len(bounds):
            return view
        self._check_begin(run, 0)
        dropped = bounds.restarts.copy()
        start = 0
        for abend in np.flatnonzero(bounds.abends).tolist():
            if self._is_open(bounds, start, abend):
                self._drop(run, dropped, self._begin(bounds, start, abend), abend)
                self._must_begin = True
                self._check_begin(run, abend + 1)
            self._known, self._open, self._doomed = True, False, False
            start = abend + 1
        self._look_ahead(run, dropped, start, last=last)
        return view.take(np.flatnonzero(~dropped)) if dropped.any() else view

    def resume(self) -> None:
        """Take note that the next records begin with some of the last ones that remained."""
        self._known, self._open, self._doomed = True, True, False

    def _look_ahead(self, run: Run, dropped: Mask, start: int, *, last: bool) -> None:
        """Settle what becomes of the transaction that is open at the end."""
        bounds = run.bounds
        stop = len(bounds)
        is_open = self._is_open(bounds, start, stop)
        begins = bool(bounds.begins[start:].any())
        if is_open and not last and (begins or not self._known):
            end = TrailPlace(run.number, run.base + run.view.end)
            self._doomed = is_abandoned(self._trail, end)
        elif not is_open or begins:
            self._doomed = False
        if is_open and self._doomed:
            self._drop(run, dropped, self._begin(bounds, start, stop), stop)
        self._known, self._open = True, is_open

    def _is_open(self, bounds: Bounds, start: int, stop: int) -> bool:
        """Return whether a transaction is open after the records [start, stop)."""
        plain = bounds.plain[start:stop][::-1]
        last = int(plain.argmax()) if len(plain) else 0
        return not bounds.ends[stop - 1 - last] if len(plain) and plain[last] else self._open

    def _begin(self, bounds: Bounds, start: int, stop: int) -> int:
        begins = np.flatnonzero(bounds.begins[start:stop])
        return start + int(begins[-1]) if len(begins) else start

    def _drop(self, run: Run, dropped: Mask, start: int, stop: int) -> None:
        """Mark a transaction's records; the metadata among them stay, as indexes count on."""
        chosen = start + np.flatnonzero(run.bounds.plain[start:stop])
        if not len(chosen):
            return
        dropped[chosen] = True
        offset = int(run.starts[chosen[0]])
        left_out = Abandoned(self._path(run), offset, len(chosen))
        if left_out not in self.found:  # records may be read once more with what remained
            self.found.append(left_out)
            LOG.warning("%s", left_out)

    def _path(self, run: Run) -> str:
        return self._trail.file(run.number).path

    def _check_begin(self, run: Run, start: int) -> None:
        """Raise if what was dropped does not come again."""
        if not self._must_begin:
            return
        plain: Longs = np.flatnonzero(run.bounds.plain[start:])
        if not len(plain):
            return
        self._must_begin = False
        row = start + int(plain[0])
        if not run.bounds.begins[row]:
            offset = int(run.starts[row])
            raise DecodeError(
                "after a restart record a transaction continues instead of beginning again",
                where=Where(source=self._path(run), offset=offset),
                hint="Left out as abandoned, what comes before the restart record would be lost",
            )
