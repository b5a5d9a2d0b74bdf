"""What a restart undid: the part of a transaction that was written before a writer was interrupted.

trail format §13: what comes before a RestartAbend record, back to its transaction's begin, is
dropped, because it comes again after it. It is dropped before anything of it is decoded, and reported.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError, Where
from trailgate.storage.files.trail_files import TrailFiles, TrailPlace
from trailgate.storage.reading.trail.transaction_spans import (
    Bounds,
    Stretch,
    is_abandoned,
)
from trailgate.trail.records.record_view import RecordView

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

    def remaining(self, stretch: Stretch, *, last: bool = False) -> RecordView:
        """Return records without restart records and what they undid.

        With ``last`` a transaction of another split follows, or nothing.
        """
        bounds, view = stretch.bounds, stretch.view
        if not len(bounds):
            return view
        self._check_begin(stretch, 0)
        dropped = bounds.restarts.copy()
        start = 0
        for abend in np.flatnonzero(bounds.abends).tolist():
            if self._is_open(bounds, start, abend):
                self._drop(stretch, dropped, self._begin(bounds, start, abend), abend)
                self._must_begin = True
                self._check_begin(stretch, abend + 1)
            self._known, self._open, self._doomed = True, False, False
            start = abend + 1
        self._look_ahead(stretch, dropped, start, last=last)
        return view.take(np.flatnonzero(~dropped)) if dropped.any() else view

    def resume(self) -> None:
        """Take note that the next records begin with some of the last ones that remained."""
        self._known, self._open, self._doomed = True, True, False

    def _look_ahead(self, stretch: Stretch, dropped: Mask, start: int, *, last: bool) -> None:
        """Settle what becomes of the transaction that is open at the end."""
        bounds = stretch.bounds
        stop = len(bounds)
        is_open = self._is_open(bounds, start, stop)
        begins = bool(bounds.begins[start:].any())
        if is_open and not last and (begins or not self._known):
            end = TrailPlace(stretch.number, stretch.base + stretch.view.end)
            self._doomed = is_abandoned(self._trail, end)
        elif not is_open or begins:
            self._doomed = False
        if is_open and self._doomed:
            self._drop(stretch, dropped, self._begin(bounds, start, stop), stop)
        self._known, self._open = True, is_open

    def _is_open(self, bounds: Bounds, start: int, stop: int) -> bool:
        """Return whether a transaction is open after the records [start, stop)."""
        plain = bounds.plain[start:stop][::-1]
        last = int(plain.argmax()) if len(plain) else 0
        return not bounds.ends[stop - 1 - last] if len(plain) and plain[last] else self._open

    def _begin(self, bounds: Bounds, start: int, stop: int) -> int:
        begins = np.flatnonzero(bounds.begins[start:stop])
        return start + int(begins[-1]) if len(begins) else start

    def _drop(self, stretch: Stretch, dropped: Mask, start: int, stop: int) -> None:
        """Mark a transaction's records; the metadata among them stay, as indexes count on."""
        chosen = start + np.flatnonzero(stretch.bounds.plain[start:stop])
        if not len(chosen):
            return
        dropped[chosen] = True
        offset = int(stretch.starts[chosen[0]])
        left_out = Abandoned(self._path(stretch), offset, len(chosen))
        if left_out not in self.found:  # records may be read once more with what remained
            self.found.append(left_out)
            LOG.warning("%s", left_out)

    def _path(self, stretch: Stretch) -> str:
        return self._trail.file(stretch.number).path

    def _check_begin(self, stretch: Stretch, start: int) -> None:
        """Raise if what was dropped does not come again."""
        if not self._must_begin:
            return
        plain: Longs = np.flatnonzero(stretch.bounds.plain[start:])
        if not len(plain):
            return
        self._must_begin = False
        row = start + int(plain[0])
        if not stretch.bounds.begins[row]:
            offset = int(stretch.starts[row])
            raise DecodeError(
                "after a restart record a transaction continues instead of beginning again",
                where=Where(source=self._path(stretch), offset=offset),
                hint="Left out as abandoned, what comes before the restart record would be lost",
            )
