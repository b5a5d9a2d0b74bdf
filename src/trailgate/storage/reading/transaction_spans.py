"""Where in a trail transactions begin and end, and which records a restart undid.

Records are looked at in runs, by their marks (``trail.records.transactions``). Where the next transaction begins is one function of a
location, so neighbouring splits agree on their border.

What comes before a RestartAbend record, back to its transaction's begin, was written before a writer was interrupted, and comes again
after it (trail format §13). It is dropped before anything of it is decoded, and reported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import DecodeError, TruncatedError, Where
from trailgate.model.kernels import ABANDONS, APART, BEGINS, UNDOES
from trailgate.model.transactions import follow
from trailgate.storage.files.trail_files import TrailFiles, TrailPlace
from trailgate.storage.reading.trail_file import LONGEST, SCAN, SEARCH, TrailFileReader
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.transactions import CLOSES, change_marks, is_before_update, is_restart

LOOK_AHEAD: Final = 16 << 10  # first looked at after a place: small transactions end soon
FURTHEST_BACK: Final = 64 << 20  # looked at once where a long transaction's begin is sought


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive records of one file, in bytes that begin at ``base``, and their marks (``model.transactions``)."""

    number: int
    base: int
    view: RecordView
    marks: Octets

    @property
    def starts(self) -> Longs:
        """Return where the records begin in the file."""
        return self.base + self.view.offsets

    @property
    def stops(self) -> Longs:
        """Return where the records end in the file."""
        return self.starts + self.view.lengths

    @property
    def begin(self) -> TrailPlace:
        """Return where the first record begins."""
        return TrailPlace(self.number, int(self.starts[0]))

    def has(self, marks: int) -> Mask:
        """Return which records have any of these marks."""
        found: Mask = self.marks & marks != 0
        return found

    def begins_transaction(self, row: int) -> bool:
        """Return whether a record begins a transaction."""
        return bool(self.marks[row] & BEGINS)

    def take(self, rows: Longs | slice) -> Run:
        """Return some of the records."""
        return Run(self.number, self.base, self.view.take(rows), self.marks[rows])


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
            marks = change_marks(view, after_before=before)
            yield Run(reader.file.number, at, view, marks)
            before = bool(is_before_update(view.take(slice(-1, None)), marks[-1:])[0])
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


Rows = Callable[[Run], Mask]


def _first(runs: Iterable[Run], chosen: Rows) -> TrailPlace | None:
    """Return where the first record that is chosen begins, None for none."""
    for run in runs:
        rows = np.flatnonzero(chosen(run))
        if len(rows):
            return TrailPlace(run.number, int(run.starts[rows[0]]))
    return None


def next_begin(trail: TrailFiles, place: TrailPlace, limit: TrailPlace) -> TrailPlace | None:
    """Return where, from ``place`` on and before ``limit``, a transaction begins; or None."""
    runs = takewhile(lambda run: run.begin < limit, _around(trail, place))
    found = _first(runs, lambda run: run.has(BEGINS) & _from(run, place))
    return found if found is not None and found < limit else None


def record_begin(trail: TrailFiles, place: TrailPlace) -> TrailPlace:
    """Return where the first record begins at a place or after it; else the trail's end."""
    return _first(_around(trail, place), lambda run: _from(run, place)) or trail.end


def first_end(trail: TrailFiles, place: TrailPlace) -> TrailPlace | None:
    """Return where the first transaction ends that ends after a place; None while none does."""
    for run in _around(trail, place):
        after = run.number > place.number or run.stops > place.offset
        rows = np.flatnonzero(run.has(CLOSES) & after)
        if len(rows):
            return TrailPlace(run.number, int(run.stops[rows[0]]))
    return None


def last_end(trail: TrailFiles, place: TrailPlace, floor: TrailPlace) -> TrailPlace | None:
    """Return where, between ``floor`` and ``place``, a transaction ends last; or None."""
    for run in _backwards(trail, place, floor):
        within = run.number < place.number or run.stops <= place.offset
        rows = np.flatnonzero(run.has(CLOSES) & within)
        if len(rows):
            return TrailPlace(run.number, int(run.stops[rows[-1]]))
    return None


def last_begin(trail: TrailFiles, place: TrailPlace) -> TrailPlace | None:
    """Return where, at a place or before it, a transaction begins last; or None."""
    for run in _backwards(trail, place.just_after, trail.begin):
        rows = np.flatnonzero(run.has(BEGINS))
        if len(rows):
            return TrailPlace(run.number, int(run.starts[rows[-1]]))
    return None


def _from(run: Run, place: TrailPlace) -> Mask:
    """Return which records begin at a place or after it."""
    found: Mask = (run.number > place.number) | (run.starts >= place.offset)
    return found


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
        yield run.take(np.flatnonzero((run.starts >= low) & (run.starts < high)))


def is_abandoned(trail: TrailFiles, place: TrailPlace) -> bool:
    """Return whether the transaction that is open before a record is undone by a restart.

    It is not where it ends, where another one begins, and where the trail ends first.
    """
    for run in forwards(trail, place, LOOK_AHEAD):
        rows = np.flatnonzero(run.has(UNDOES | BEGINS | CLOSES))
        if len(rows):
            return bool(run.marks[rows[0]] & UNDOES)
    return False


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
        self._abandoned = False
        self._must_begin = False
        self.found: list[Abandoned] = []

    def remaining(self, run: Run, *, last: bool = False) -> RecordView:
        """Return records without restart records and what they undid.

        With ``last`` a transaction of another split follows, or nothing.
        """
        view = run.view
        if not len(view):
            return view
        dropped = is_restart(view)
        self._check_begin(run, 0)
        found = follow(run.marks, is_open=self._open)
        for restart in np.flatnonzero(found.faults == ABANDONS).tolist():
            self._drop(run, dropped, found.number == found.number[restart] - 1)
            self._must_begin = True
            self._check_begin(run, restart + 1)
        begun = len(found.flags) > 1  # the transaction that is open at the end, if one is
        if found.is_open and not last and (begun or not self._known):
            end = TrailPlace(run.number, run.base + view.end)
            self._abandoned = is_abandoned(self._trail, end)
        elif begun or not found.is_open:
            self._abandoned = False
        if found.is_open and self._abandoned:
            self._drop(run, dropped, found.number == len(found.flags) - 1)
        self._known, self._open = True, found.is_open
        return view.take(np.flatnonzero(~dropped)) if dropped.any() else view

    def _drop(self, run: Run, dropped: Mask, transaction: Mask) -> None:
        """Mark a transaction's records; the metadata among them stay, as indexes count on."""
        chosen = np.flatnonzero(transaction & ~run.has(APART | UNDOES))
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
        plain = start + np.flatnonzero(~run.has(APART | UNDOES)[start:])
        if not len(plain):
            return
        self._must_begin = False
        if not run.marks[plain[0]] & BEGINS:
            raise DecodeError(
                "after a restart record a transaction continues instead of beginning again",
                where=Where(source=self._path(run), offset=int(run.starts[plain[0]])),
                hint="Left out as abandoned, what comes before the restart record would be lost",
            )
