"""One range on its way: good units to trail segments, bad ones aside, and a report of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import TrailgateError
from trailgate.jobs.capture.quarantine_writer import write_aside
from trailgate.jobs.capture.range_reader import OwnedMessages, Piece, located, place_of
from trailgate.model.changes import ChangeBatch
from trailgate.storage.reading.message_files import MessageSource, Place
from trailgate.storage.writing.counts import Counts, added, counted
from trailgate.storage.writing.segments import (
    Encoding,
    Mark,
    Segment,
    SegmentWriter,
    encoded_or_blamed,
)
from trailgate.trail.writing.writer import Encoded

OTHERS: Final = "Another message of its transaction is bad: "
Blame = dict[int, TrailgateError]


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What became of one range. ``start`` and ``end``: its first stretch's place and the next's."""

    index: int
    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=dict)
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    quarantine: str | None = None
    error: TrailgateError | None = None
    start: Place | None = None
    end: Place | None = None
    id_length: int | None = None


@dataclass(slots=True)
class _Unit:
    """The unit that later messages may still belong to: the way back, and whose it is."""

    mark: Mark = ()
    counts: Counts = field(default_factory=dict)
    transactions: int = 0
    places: list[tuple[Longs, Longs]] = field(default_factory=list)
    reason: str | None = None


class RangeRun:
    """Captures what a range owns; without a writer all is done but writing."""

    def __init__(
        self,
        owned: OwnedMessages,
        source: MessageSource,
        writer: SegmentWriter | None,
        encoding: Encoding,
        *,
        stop: bool,
    ) -> None:
        self._owned, self._source, self._writer, self._stop = owned, source, writer, stop
        self._encoding = encoding
        self._counts: Counts = {}
        self._transactions = self._messages = 0
        self._unit = _Unit()
        self._aside: list[tuple[Place, str]] = []
        self._reasons: dict[int, str] = {}  # of the bad units of a piece; 0 is the open one

    def run(self, index: int) -> RangeReport:
        """Return what became of the range, whose number is ``index``."""
        for piece in self._owned.pieces():
            error = self._take(piece)
            if error is not None:
                self._close()
                return RangeReport(index, error=error)
        return self._report(index)

    def _take(self, piece: Piece) -> TrailgateError | None:
        """Write a piece's good units, set the others aside; return the error that stops the run."""
        encoded, blamed = encoded_or_blamed(self._encoding, piece.operations, piece.message)
        for at, error in blamed.items():
            located(error, self._source, place_of(piece.messages, at))
        bad = {**piece.problems, **blamed}
        if bad and self._stop:
            return bad[min(bad)]
        self._messages += len(piece.messages)
        unit = np.cumsum(piece.starts_unit, dtype=np.int64)  # 0 is the unit that was open before
        kept = self._set_aside(piece, bad, unit)
        operations, message = piece.operations, piece.message
        good = kept[message]
        if encoded is None or not good.all():
            operations, message = operations.where(good), message[good]
            encoded, _ = encoded_or_blamed(self._encoding, operations, message)
        assert encoded is not None
        if len(unit):
            self._keep(piece, (encoded, operations), message, unit)
        return None

    def _keep(
        self, piece: Piece, written: tuple[Encoded, ChangeBatch], message: Longs, unit: Longs
    ) -> None:
        """Write operations; what is before the last unit is done, that one may go on."""
        last, cut = int(np.searchsorted(unit, unit[-1])), 0
        if unit[-1] > 0:
            cut = int(np.searchsorted(message, last))
            self._write(written, 0, cut)
            self._commit()
            self._unit = _Unit(self._mark(), reason=self._reasons.get(int(unit[-1])))
        self._write(written, cut, written[1].rows)
        self._unit.places.append((piece.messages.files[last:], piece.messages.offsets[last:]))

    def _set_aside(self, piece: Piece, bad: Blame, unit: Longs) -> Mask:
        """Return which messages are in good units; put the others into quarantine."""
        self._reasons = {} if self._unit.reason is None else {0: self._unit.reason}
        for at in sorted(bad):
            number = 0 if at < 0 else int(unit[at])
            self._reasons.setdefault(number, str(bad[at]))
        if self._unit.reason is None and 0 in self._reasons:
            self._drop_unit(self._reasons[0])
        kept = ~np.isin(unit, np.fromiter(self._reasons, np.int64))
        for at in np.flatnonzero(~kept).tolist():
            own = bad.get(at)
            reason = OTHERS + self._reasons[int(unit[at])] if own is None else str(own)
            self._aside.append((place_of(piece.messages, at), reason))
        return kept

    def _drop_unit(self, reason: str) -> None:
        """Take back the open unit and quarantine its messages."""
        unit = self._unit
        if self._writer is not None:
            self._writer.rollback(unit.mark)
        for files, offsets in unit.places:
            places = zip(files.tolist(), offsets.tolist(), strict=True)
            self._aside += [(place, OTHERS + reason) for place in places]
        self._unit = _Unit(unit.mark, reason=reason)

    def _mark(self) -> Mark:
        return () if self._writer is None else self._writer.mark()

    def _write(self, written: tuple[Encoded, ChangeBatch], begin: int, stop: int) -> None:
        if begin == stop:
            return
        encoded, batch = written
        counts, transactions = counted(batch, begin, stop)
        self._unit.counts = added(self._unit.counts, counts)
        self._unit.transactions += transactions
        if self._writer is not None:
            self._writer.append(encoded, batch, begin, stop)

    def _commit(self) -> None:
        self._counts = added(self._counts, self._unit.counts)
        self._transactions += self._unit.transactions

    def _close(self) -> Mark:
        return () if self._writer is None else self._writer.close()

    def _report(self, index: int) -> RangeReport:
        self._commit()
        return RangeReport(
            index,
            self._close(),
            self._counts,
            self._messages,
            self._transactions,
            sum(count for kinds in self._counts.values() for count in kinds.values()),
            len(self._aside),
            self._write_aside(),
            None,
            self._owned.start,
            self._owned.end,
            self._owned.id_length,
        )

    def _write_aside(self) -> str | None:
        """Write the quarantined messages into the staging folder; return the file's name."""
        if not self._aside or self._writer is None:
            return None
        name = f"{self._writer.stem}.quarantine"
        write_aside(self._writer.folder / name, self._source, dict(self._aside))
        return name
