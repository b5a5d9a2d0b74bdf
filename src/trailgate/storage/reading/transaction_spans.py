"""Find where transactions of a trail begin and end, and which records a restart undid.

Records are read in runs, each with marks that show where transactions begin and end
(``trail.records.transactions``). The search for the next beginning depends only on the position, so
that neighbouring splits agree on their common boundary.

If a writer was interrupted, it writes a RestartAbend record and then repeats its open transaction
(trail format §13). The records from that transaction's beginning to the RestartAbend record are
dropped before they are decoded, and reported.

If an indicator contradicts the previous one, records of a transaction are missing. `SequenceCheck`
finds this, even at the boundary between two chunks, files or splits.
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
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.trail_file import LONGEST, SCAN, SEARCH, TrailFileReader
from trailgate.trail.records.record_view import RecordColumns
from trailgate.trail.records.transactions import (
    CLOSES,
    change_marks,
    is_before_update,
    is_restart_record,
)

LOOK_AHEAD: Final = 16 << 10  # bytes to read first when looking ahead: most transactions are small
FURTHEST_BACK: Final = 64 << 20  # the largest window when searching back for a long transaction
LOG: Final = logging.getLogger(__name__)


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
    """Yield the records from a position to the end of the trail, in runs.

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


def _around(trail: TrailFiles, position: TrailPosition) -> Iterator[RecordRun]:
    """Yield the records from some distance before a position to the end of the trail.

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


def _first(runs: Iterable[RecordRun], chosen: Rows) -> TrailPosition | None:
    """Return the position of the first record in ``runs`` that ``chosen`` selects, or None.

    ``chosen`` returns a mask of a run's records.
    """
    for run in runs:
        rows = np.flatnonzero(chosen(run))
        if len(rows):
            return TrailPosition(run.number, int(run.starts[rows[0]]))
    return None


def find_next_begin(
    trail: TrailFiles, position: TrailPosition, limit: TrailPosition
) -> TrailPosition | None:
    """Return the first position in [position, limit) of a trail at which a transaction begins, or None."""
    runs = takewhile(lambda run: run.begin < limit, _around(trail, position))
    result = _first(runs, lambda run: run.has(BEGINS) & _from(run, position))
    return result if result is not None and result < limit else None


def find_record_begin(trail: TrailFiles, position: TrailPosition) -> TrailPosition:
    """Return the first position at or after ``position`` at which a record begins, or the trail's end."""
    return _first(_around(trail, position), lambda run: _from(run, position)) or trail.end


def find_first_end(trail: TrailFiles, position: TrailPosition) -> TrailPosition | None:
    """Return the end of a trail's first transaction that ends after a position, or None."""
    for run in _around(trail, position):
        after = run.number > position.number or run.stops > position.offset
        rows = np.flatnonzero(run.has(CLOSES) & after)
        if len(rows):
            return TrailPosition(run.number, int(run.stops[rows[0]]))
    return None


def find_last_end(
    trail: TrailFiles, position: TrailPosition, floor: TrailPosition
) -> TrailPosition | None:
    """Return the end of the last transaction that ends between ``floor`` and ``position``, or None."""
    for run in read_backwards(trail, position, floor):
        within = run.number < position.number or run.stops <= position.offset
        rows = np.flatnonzero(run.has(CLOSES) & within)
        if len(rows):
            return TrailPosition(run.number, int(run.stops[rows[-1]]))
    return None


def find_last_begin(trail: TrailFiles, position: TrailPosition) -> TrailPosition | None:
    """Return the last position of a trail up to ``position`` at which a transaction begins, or None."""
    for run in read_backwards(trail, position.just_after, trail.begin):
        rows = np.flatnonzero(run.has(BEGINS))
        if len(rows):
            return TrailPosition(run.number, int(run.starts[rows[-1]]))
    return None


def _from(run: RecordRun, position: TrailPosition) -> Mask:
    """Return a mask of the run's records that begin at or after a trail position."""
    selected: Mask = (run.number > position.number) | (run.starts >= position.offset)
    return selected


def read_backwards(
    trail: TrailFiles, position: TrailPosition, floor: TrailPosition
) -> Iterator[RecordRun]:
    """Yield a trail's records that begin in [floor, position), last runs first, in growing windows."""
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
    for run in _around(trail, TrailPosition(number, low)):
        if run.number > number or run.starts[0] >= high:
            return
        yield run.take(np.flatnonzero((run.starts >= low) & (run.starts < high)))


def is_abandoned(trail: TrailFiles, position: TrailPosition) -> bool:
    """Return True if a restart record later undoes the transaction that is open at a position.

    False if the transaction ends or another one begins before a restart, or if the trail ends.
    """
    for run in read_runs_from(trail, position, LOOK_AHEAD):
        rows = np.flatnonzero(run.has(UNDOES | BEGINS | CLOSES))
        if len(rows):
            return bool(run.marks[rows[0]] & UNDOES)
    return False


@dataclass(frozen=True, slots=True)
class AbandonedRecords:
    """Records of one transaction that a restart undid: their file, first offset, and number."""

    path: str
    offset: int
    records: int

    def __str__(self) -> str:
        return (
            f"{self.path}, byte {self.offset}: {self.records} records of an unfinished transaction "
            "are skipped; its writer repeats them after a restart record"
        )


class RestartFilter:
    """Drops trail records that a restart undoes, from runs of records that are passed in order.

    If a transaction is open at the end of a run, the filter reads ahead to find out whether it will
    be abandoned. So memory is constant, however long the transaction is.
    """

    def __init__(self, trail: TrailFiles) -> None:
        self._trail = trail
        self._known = False  # True once it is known whether the open transaction is abandoned
        self._open = False
        self._abandoned = False
        self._must_begin = False
        self.found: list[AbandonedRecords] = []

    def remaining(self, run: RecordRun, *, last: bool = False) -> RecordColumns:
        """Return a run's records without restart records and without the records that a restart undoes.

        ``last`` means that no run follows, or that the next transaction belongs to another
        split.
        """
        view = run.view
        if not len(view):
            return view
        dropped = is_restart_record(view)
        self._check_begin(run, 0)
        # Number the transactions in this run, and find those that a restart undoes.
        transactions = follow(run.marks, is_open=self._open)
        for restart in np.flatnonzero(transactions.faults == ABANDONS).tolist():
            self._drop(run, dropped, transactions.number == transactions.number[restart] - 1)
            self._must_begin = True
            self._check_begin(run, restart + 1)
        # True if a transaction that is open at the end began in this run.
        opens_here = len(transactions.flags) > 1
        # A transaction is still open at the end: look ahead to see whether it will be undone.
        if transactions.is_open and not last and (opens_here or not self._known):
            end = TrailPosition(run.number, run.base + view.end)
            self._abandoned = is_abandoned(self._trail, end)
        elif opens_here or not transactions.is_open:
            self._abandoned = False
        if transactions.is_open and self._abandoned:
            self._drop(run, dropped, transactions.number == len(transactions.flags) - 1)
        self._known, self._open = True, transactions.is_open
        return view.take(np.flatnonzero(~dropped)) if dropped.any() else view

    def _drop(self, run: RecordRun, dropped: Mask, transaction: Mask) -> None:
        """Mark the records of an abandoned transaction in the mask ``dropped``, and warn.

        ``transaction`` is a mask of the records that belong to it. Metadata records are kept,
        because table indexes count them.
        """
        # APART marks records outside transactions, UNDOES restart records.
        chosen = np.flatnonzero(transaction & ~run.has(APART | UNDOES))
        if not len(chosen):
            return
        dropped[chosen] = True
        offset = int(run.starts[chosen[0]])
        abandoned = AbandonedRecords(self._path(run), offset, len(chosen))
        if abandoned not in self.found:  # records may be read again with the next chunk
            self.found.append(abandoned)
            LOG.warning("%s", abandoned)

    def _path(self, run: RecordRun) -> str:
        return self._trail.file(run.number).path

    def _check_begin(self, run: RecordRun, start: int) -> None:
        """Raise DecodeError if the writer has not repeated the dropped transaction after the restart record."""
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
                hint="If the records before the restart record were skipped as abandoned, they would be lost",
            )
