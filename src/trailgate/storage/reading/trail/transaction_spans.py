"""What records say of transactions, and where in a trail transactions begin and end.

Where the next one begins is one function of a place, so neighbouring splits agree on their border.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import TruncatedError
from trailgate.storage.files.trail_files import TrailFiles, TrailPlace
from trailgate.storage.reading.trail.trail_file import LONGEST, SCAN, SEARCH, TrailFileReader
from trailgate.trail.format.record_types import IO_DELETE, Role
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.transactions import begins_of, ends_of, is_restart, stands_apart

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
class Stretch:
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

    def take(self, rows: Rows) -> Stretch:
        """Return some of the records."""
        chosen = rows if isinstance(rows, slice) else np.flatnonzero(rows)
        return Stretch(self.number, self.base, self.view.take(chosen), self.bounds.take(rows))


def forwards(trail: TrailFiles, place: TrailPlace, size: int = SEARCH) -> Iterator[Stretch]:
    """Yield the records from a record's begin on to the end of the trail.

    An unfinished record ends a file here: whoever reads the file decides whether that is an error.
    """
    for file in trail.following(place.number):
        with TrailFileReader(file) as reader:
            start = place.offset if file.number == place.number else 0
            yield from _forwards(reader, start, size)


def _forwards(reader: TrailFileReader, start: int, size: int) -> Iterator[Stretch]:
    try:
        at = max(start, reader.begin)
    except TruncatedError:
        return
    before = False
    while at < reader.file.size:
        _, view = reader.records(at, size)
        if len(view):
            bounds = bounds_of(view, after_before=before)
            yield Stretch(reader.file.number, at, view, bounds)
            before = bounds.before_last
        elif size >= LONGEST:
            return
        at += view.end
        size = min(2 * size, SCAN)


def _around(trail: TrailFiles, place: TrailPlace) -> Iterator[Stretch]:
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
    for stretch in _around(trail, place):
        if (stretch.number, stretch.starts[0]) >= limit:
            return None
        rows = np.flatnonzero(_from(stretch, place) & stretch.bounds.begins)
        if len(rows):
            found = TrailPlace(stretch.number, int(stretch.starts[rows[0]]))
            return found if found < limit else None
    return None


def first_end(trail: TrailFiles, place: TrailPlace) -> TrailPlace | None:
    """Return where the first transaction ends that ends after a place; None while none does."""
    for stretch in _around(trail, place):
        after = stretch.number > place.number or stretch.stops > place.offset
        rows = np.flatnonzero(after & stretch.bounds.ends)
        if len(rows):
            return TrailPlace(stretch.number, int(stretch.stops[rows[0]]))
    return None


def last_end(trail: TrailFiles, place: TrailPlace, floor: TrailPlace) -> TrailPlace | None:
    """Return where, between ``floor`` and ``place``, a transaction ends last; or None."""
    for stretch in _backwards(trail, place, floor):
        within = stretch.number < place.number or stretch.stops <= place.offset
        rows = np.flatnonzero(within & stretch.bounds.ends)
        if len(rows):
            return TrailPlace(stretch.number, int(stretch.stops[rows[-1]]))
    return None


def last_begin(trail: TrailFiles, place: TrailPlace) -> TrailPlace | None:
    """Return where, at a place or before it, a transaction begins last; or None."""
    limit = TrailPlace(place.number, place.offset + 1)
    for stretch in _backwards(trail, limit, trail.begin):
        rows = np.flatnonzero(stretch.bounds.begins)
        if len(rows):
            return TrailPlace(stretch.number, int(stretch.starts[rows[-1]]))
    return None


def _from(stretch: Stretch, place: TrailPlace) -> Mask | bool:
    """Return which records begin at a place or after it."""
    return stretch.number > place.number or stretch.starts >= place.offset


def _backwards(trail: TrailFiles, place: TrailPlace, floor: TrailPlace) -> Iterator[Stretch]:
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


def _window(trail: TrailFiles, number: int, low: int, high: int) -> Iterator[Stretch]:
    """Yield the records of a file that begin in [low, high)."""
    for stretch in _around(trail, TrailPlace(number, low)):
        if stretch.number > number or stretch.starts[0] >= high:
            return
        yield stretch.take((stretch.starts >= low) & (stretch.starts < high))


def is_abandoned(trail: TrailFiles, place: TrailPlace) -> bool:
    """Return whether the transaction that is open before a record is undone by a restart.

    It is not where it ends, where another one begins, and where the trail ends first.
    """
    for stretch in forwards(trail, place, LOOK_AHEAD):
        bounds = stretch.bounds
        telling = np.flatnonzero(bounds.abends | bounds.begins | bounds.ends)
        if len(telling):
            return bool(bounds.abends[telling[0]])
    return False


def record_begin(trail: TrailFiles, place: TrailPlace) -> TrailPlace:
    """Return where the first record begins at a place or after it; else the trail's end."""
    for stretch in _around(trail, place):
        rows = np.flatnonzero(np.broadcast_to(_from(stretch, place), stretch.starts.shape))
        if len(rows):
            return TrailPlace(stretch.number, int(stretch.starts[rows[0]]))
    return trail.end
