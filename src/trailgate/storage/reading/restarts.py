"""What a restart undid: the part of a transaction that was written before a writer broke off.

trail format §13: what stands in front of a RestartAbend record, back to its transaction's begin, is
dropped, because it comes again behind. It is dropped before anything of it is decoded, and told.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError, Where
from trailgate.storage.files.trail_files import TrailFile, TrailFiles, TrailPlace
from trailgate.storage.reading.transaction_spans import Bounds, forwards, is_abandoned
from trailgate.trail.format.framing import Records

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Records of one transaction that were left out: of which file, from which byte, how many."""

    path: str
    offset: int
    records: int

    def __str__(self) -> str:
        return (
            f"{self.path}, byte {self.offset}: {self.records} records of a transaction that its "
            "writer broke off are left out; a restart record says that they come again"
        )


@dataclass(frozen=True, slots=True)
class Portion:
    """Consecutive records read of one file, from a byte on, and what they say of transactions.

    ``last`` says that a transaction of somebody else's follows, or nothing.
    """

    file: TrailFile
    place: int
    records: Records
    bounds: Bounds
    last: bool


def find_abandoned(trail: TrailFiles) -> list[Abandoned]:
    """Return everything that readers of a trail leave out; only the records' heads are looked at."""
    restarts = Restarts(trail)
    for stretch in forwards(trail, trail.begin):
        place, stop = int(stretch.starts[0]), int(stretch.stops[-1])
        lengths = stretch.stops - stretch.starts
        records = Records(stretch.starts - place, lengths, stop - place)
        file = trail.file(stretch.number)
        restarts.remaining(Portion(file, place, records, stretch.bounds, last=False))
    return restarts.found


class Restarts:
    """Leaves out of portions, which come in order, what was abandoned.

    Whether a transaction that is open at a portion's end will be abandoned is looked up once,
    ahead, so that memory stays flat however long it is.
    """

    def __init__(self, trail: TrailFiles) -> None:
        self._trail = trail
        self._known = False  # whether it is known what becomes of the transaction open in front
        self._open = False
        self._doomed = False
        self._must_begin = False
        self.found: list[Abandoned] = []

    def remaining(self, portion: Portion) -> Records:
        """Return the portion's records without restart records and what they undid."""
        bounds, records = portion.bounds, portion.records
        if not len(bounds):
            return records
        self._check_begin(portion, 0)
        dropped = bounds.restarts.copy()
        start = 0
        for abend in np.flatnonzero(bounds.abends).tolist():
            if self._is_open(bounds, start, abend):
                self._drop(portion, dropped, self._begin(bounds, start, abend), abend)
                self._must_begin = True
                self._check_begin(portion, abend + 1)
            self._known, self._open, self._doomed = True, False, False
            start = abend + 1
        self._look_ahead(portion, dropped, start)
        if not dropped.any():
            return records
        kept = np.flatnonzero(~dropped)
        return Records(records.offsets[kept], records.lengths[kept], records.end)

    def resume(self) -> None:
        """Take note that the next portion begins with records of the last one that remained."""
        self._known, self._open, self._doomed = True, True, False

    def _look_ahead(self, portion: Portion, dropped: Mask, start: int) -> None:
        """Settle what becomes of the transaction that is open at the portion's end."""
        bounds = portion.bounds
        stop = len(bounds)
        is_open = self._is_open(bounds, start, stop)
        begins = bool(bounds.begins[start:].any())
        if is_open and not portion.last and (begins or not self._known):
            behind = TrailPlace(portion.file.number, portion.place + portion.records.end)
            self._doomed = is_abandoned(self._trail, behind)
        elif not is_open or begins:
            self._doomed = False
        if is_open and self._doomed:
            self._drop(portion, dropped, self._begin(bounds, start, stop), stop)
        self._known, self._open = True, is_open

    def _is_open(self, bounds: Bounds, start: int, stop: int) -> bool:
        """Return whether a transaction is open behind the records [start, stop)."""
        plain = np.flatnonzero(bounds.plain[start:stop])
        return not bounds.ends[start + plain[-1]] if len(plain) else self._open

    def _begin(self, bounds: Bounds, start: int, stop: int) -> int:
        begins = np.flatnonzero(bounds.begins[start:stop])
        return start + int(begins[-1]) if len(begins) else start

    def _drop(self, portion: Portion, dropped: Mask, start: int, stop: int) -> None:
        """Mark a transaction's records; the metadata among them stay, as indexes count on."""
        chosen = start + np.flatnonzero(portion.bounds.plain[start:stop])
        if not len(chosen):
            return
        dropped[chosen] = True
        offset = portion.place + int(portion.records.offsets[chosen[0]])
        left_out = Abandoned(portion.file.path, offset, len(chosen))
        if left_out not in self.found:  # a portion may be read once more with what remained
            self.found.append(left_out)
            LOG.warning("%s", left_out)

    def _check_begin(self, portion: Portion, start: int) -> None:
        """Raise if what was dropped does not come again."""
        if not self._must_begin:
            return
        plain: Longs = np.flatnonzero(portion.bounds.plain[start:])
        if not len(plain):
            return
        self._must_begin = False
        row = start + int(plain[0])
        if not portion.bounds.begins[row]:
            offset = portion.place + int(portion.records.offsets[row])
            raise DecodeError(
                "behind a restart record a transaction goes on instead of beginning again",
                where=Where(source=portion.file.path, offset=offset),
                hint="Left out as abandoned, what is in front of the restart record would be lost",
            )
