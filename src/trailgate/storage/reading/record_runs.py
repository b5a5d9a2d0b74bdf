"""Read the records of a trail in runs, forwards or backwards from a position.

A `RecordRun` has consecutive records of one file, with marks that show where transactions begin and end
(``trail.records.transactions``). A position need not be the start of a record: the search for the next
record depends only on the position, so that neighbouring splits agree on their common boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import TruncatedError
from trailgate.model.kernels import BEGINS
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.trail_file import LONGEST, SCAN, SEARCH, TrailFileReader
from trailgate.trail.records.record_view import RecordColumns
from trailgate.trail.records.transactions import change_marks, is_before_update

FURTHEST_BACK: Final = 64 << 20  # the largest window when searching back for a long transaction


@dataclass(frozen=True, slots=True)
class RecordRun:
    """Consecutive records of the trail file ``number``, and the marks of each, such as ``BEGINS``.

    ``base`` is the offset in the file to which the offsets in ``view`` are relative.
    """

    number: int
    base: int
    view: RecordColumns
    marks: Octets

    @property
    def starts(self) -> Longs:
        """The offsets of the run's records in the trail file."""
        return self.base + self.view.offsets

    @property
    def stops(self) -> Longs:
        """The end offsets of the run's records in the trail file."""
        return self.starts + self.view.lengths

    @property
    def begin(self) -> TrailPosition:
        """The position of the run's first record."""
        return TrailPosition(self.number, int(self.starts[0]))

    def has(self, marks: int) -> Mask:
        """Return a mask of the run's records that have any of these marks."""
        matches: Mask = self.marks & marks != 0
        return matches

    def begins_transaction(self, row: int) -> bool:
        """Return True if a record of the run begins a transaction."""
        return bool(self.marks[row] & BEGINS)

    def take(self, rows: Longs | slice) -> RecordRun:
        """Return the records of the run at these indexes."""
        return RecordRun(self.number, self.base, self.view.take(rows), self.marks[rows])


def read_runs_from(
    trail: TrailFiles, position: TrailPosition, size: int = SEARCH
) -> Iterator[RecordRun]:
    """Yield the runs of records from a position to the end of the trail.

    The position must be the start of a record. An incomplete record ends the runs of its file; the
    caller decides whether that is an error.
    """
    for file in trail.files_from(position.number):
        with TrailFileReader(file) as reader:
            start = position.offset if file.number == position.number else 0
            yield from _forwards(reader, start, size)


def _forwards(reader: TrailFileReader, start: int, size: int) -> Iterator[RecordRun]:
    try:
        at = max(start, reader.begin)
    except TruncatedError:
        return
    before = False
    while at < reader.file.size:
        _, view = reader.records(at, size)
        if len(view):
            marks = change_marks(view, after_before=before)
            yield RecordRun(reader.file.number, at, view, marks)
            # An update's before image at the end of a run continues in the next run.
            before = bool(is_before_update(view.take(slice(-1, None)), marks[-1:])[0])
        elif size >= LONGEST:
            return
        at += view.end
        # Small reads first, as most searches end soon.
        size = min(2 * size, SCAN)


def read_runs_around(trail: TrailFiles, position: TrailPosition) -> Iterator[RecordRun]:
    """Yield the runs of records from some distance before a position to the end of the trail.

    The record just before the position is included, because it may be the before image of an
    update.
    """
    file = trail.file(position.number)
    start = position.offset - LONGEST
    if start > 0:
        with TrailFileReader(file) as reader:
            try:
                next_record = reader.resync(start) if start > reader.begin else 0
            except TruncatedError:
                return
        position = (
            TrailPosition(position.number + 1, 0)
            if next_record is None
            else TrailPosition(file.number, next_record)
        )
    else:
        position = TrailPosition(position.number, 0)
    yield from read_runs_from(trail, position)


Rows = Callable[[RecordRun], Mask]


def find_first_record(runs: Iterable[RecordRun], chosen: Rows) -> TrailPosition | None:
    """Return the position of the first record in runs of records that ``chosen`` selects, or None.

    ``chosen`` returns a mask of a run's records.
    """
    for run in runs:
        rows = np.flatnonzero(chosen(run))
        if len(rows):
            return TrailPosition(run.number, int(run.starts[rows[0]]))
    return None


def find_record_begin(trail: TrailFiles, position: TrailPosition) -> TrailPosition:
    """Return the position of the first record that begins at or after a position, or the trail's end."""
    return (
        find_first_record(read_runs_around(trail, position), lambda run: mask_from(run, position))
        or trail.end
    )


def mask_from(run: RecordRun, position: TrailPosition) -> Mask:
    """Return a mask of the run's records that begin at or after a trail position."""
    selected: Mask = (run.number > position.number) | (run.starts >= position.offset)
    return selected


def read_backwards(
    trail: TrailFiles, position: TrailPosition, floor: TrailPosition
) -> Iterator[RecordRun]:
    """Yield the runs of records that begin in [floor, position) of a trail, last runs first, in growing windows."""
    size = SEARCH
    number, high = position
    while number >= floor.number:
        high = min(high, trail.file(number).size)
        lowest = floor.offset if number == floor.number else 0
        while high > lowest:
            low = max(high - size, lowest)
            yield from reversed(list(_window(trail, number, low, high)))
            high, size = low, min(2 * size, FURTHEST_BACK)
        number -= 1
        high = FURTHEST_BACK << 32  # beyond the end of any file: min() above limits it


def _window(trail: TrailFiles, number: int, low: int, high: int) -> Iterator[RecordRun]:
    """Yield the records of a trail file that begin in [low, high), in runs."""
    for run in read_runs_around(trail, TrailPosition(number, low)):
        if run.number > number or run.starts[0] >= high:
            return
        yield run.take(np.flatnonzero((run.starts >= low) & (run.starts < high)))
