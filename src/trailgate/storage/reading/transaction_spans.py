"""Find where transactions of a trail begin and end, and which records a restart undid.

The records are read in runs (``record_runs.py``). The search for the next beginning depends only on the
position, so that neighbouring splits agree on their common boundary.

If a writer was interrupted, it writes a RestartAbend record and then repeats its open transaction
(trail format §13). The records from that transaction's beginning to the RestartAbend record are
dropped before they are decoded, and reported.

If an indicator contradicts the previous one, records of a transaction are missing. `SequenceCheck`
finds this, even at the boundary between two chunks, files or splits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import DecodeError, StorageError, Where
from trailgate.model.kernels import ABANDONS, APART, BEGINS, UNDOES
from trailgate.model.transactions import follow
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.files.trail_names import number_digits
from trailgate.storage.reading.record_runs import (
    RecordRun,
    find_first_record,
    mask_from,
    read_backwards,
    read_runs_around,
    read_runs_from,
)
from trailgate.trail.records.record_view import RecordColumns
from trailgate.trail.records.transactions import (
    CLOSES,
    is_restart_record,
)

LOOK_AHEAD: Final = 16 << 10  # bytes to read first when looking ahead: most transactions are small
LOG: Final = logging.getLogger(__name__)


def find_next_begin(
    trail: TrailFiles, position: TrailPosition, limit: TrailPosition
) -> TrailPosition | None:
    """Return the first position in [position, limit) of a trail at which a transaction begins, or None."""
    runs = takewhile(lambda run: run.begin < limit, read_runs_around(trail, position))
    result = find_first_record(runs, lambda run: run.has(BEGINS) & mask_from(run, position))
    return result if result is not None and result < limit else None


def find_first_end(trail: TrailFiles, position: TrailPosition) -> TrailPosition | None:
    """Return the end of a trail's first transaction that ends after a position, or None."""
    for run in read_runs_around(trail, position):
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


def may_be_inside_transaction(trail: TrailFiles, position: TrailPosition) -> bool:
    """Return True unless the records before a position show that no transaction is open there."""
    try:
        for run in read_backwards(trail, position, trail.begin):
            rows = np.flatnonzero(~run.has(APART))
            if len(rows):
                return not run.marks[rows[-1]] & (CLOSES | UNDOES)
    except (DecodeError, StorageError):
        return True  # the bytes before are damaged or gone
    # Nothing is before the position: earlier files are missing, or the file has no number and may be
    # any part of a trail.
    first = trail.files[0]
    return first.number > 0 or not number_digits(first.path)
