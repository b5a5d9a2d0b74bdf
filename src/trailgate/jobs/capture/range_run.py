"""The bad messages of a capture: counted by their reasons, and listed where nothing is written.

One range: good units become trail segments, bad ones are quarantined, and a report has both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import DecodeError, TrailgateError, TransactionError, Where
from trailgate.jobs.capture.range_reader import (
    OwnedBatch,
    RangeReader,
    place_of,
    with_place,
    write_quarantine,
)
from trailgate.jobs.capture.repeats import IdCheck, IdSpan
from trailgate.storage.reading.message_files import MessageFiles, MessagePlace
from trailgate.storage.writing.segments import (
    EncodedOperations,
    Encoding,
    Mark,
    Segment,
    SegmentWriter,
    encoded_or_blamed,
)
from trailgate.storage.writing.table_writing import Counts, add_counts, count_operations

RANKED: Final = 20  # reasons that a summary has
NAMED: Final = 3  # reasons that an error has
WITH_OTHERS: Final = "another message of its transaction is bad"
OTHER_REASONS: Final = "other reasons"


@dataclass(frozen=True, slots=True)
class BadMessages:
    """How many messages are bad for which reason; ``errors`` are listed in a dry run only."""

    reasons: Mapping[str, int]
    errors: tuple[TrailgateError, ...] = ()

    @classmethod
    def of(cls, errors: Iterable[TrailgateError], quarantined: int, *, listed: bool) -> BadMessages:
        """Return the bad messages of these errors; of the quarantined ones the rest are their transactions'."""
        errors = tuple(errors)
        reasons = Counter(map(reason_of, errors))
        if quarantined > len(errors):
            reasons[WITH_OTHERS] += quarantined - len(errors)
        return cls(dict(reasons), errors if listed else ())


def together(parts: Iterable[BadMessages]) -> BadMessages:
    """Return the bad messages of all ranges, reasons with many messages first."""
    counts: Counter[str] = Counter()
    errors: list[TrailgateError] = []
    for part in parts:
        counts.update(part.reasons)
        errors += part.errors
    return BadMessages(dict(counts.most_common()), tuple(errors))


def rank(bad: BadMessages) -> dict[str, int]:
    """Return the reasons that most messages have, and the sum of the others."""
    pairs = list(bad.reasons.items())
    rest = sum(count for _, count in pairs[RANKED:])
    return dict(pairs[:RANKED]) | ({OTHER_REASONS: rest} if rest else {})


def reason_of(error: TrailgateError) -> str:
    """Return what is wrong, with the table and the field, but without the place and the value."""
    place = Where(table=error.where.table, field=error.where.field)
    return error.problem if place == Where() else f"{error.problem} ({place})"


def as_values(error: TrailgateError) -> dict[str, Any]:
    """Return an error as plain values: its problem, its hint, and what is known of its place."""
    place = {field.name: getattr(error.where, field.name) for field in fields(Where)}
    raw = place.pop("raw")
    if raw is not None:
        text = place["text"] or raw.decode("utf-8", "backslashreplace")
        place |= {"text": text, "bytes": raw.hex()}
    known = {name: value for name, value in place.items() if value is not None}
    return {"problem": error.problem, **known, **({"hint": error.hint} if error.hint else {})}


def too_many(bad: BadMessages, count: int, most: int) -> DecodeError:
    """Return the error of a run with more bad messages than it may have."""
    named = "; ".join(f"{number:,} x {reason}" for reason, number in [*bad.reasons.items()][:NAMED])
    return DecodeError(
        f"{count:,} messages are bad, and at most {most:,} may be: {named}",
        hint="Nothing was published; --dry-run lists all of them",
    )


OTHERS: Final = "Another message of its transaction is bad: "
NONE_BAD: Final = BadMessages({})
Blame = dict[int, TrailgateError]


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What became of one range. ``start`` and ``end``: its first run's place and the next's."""

    index: int
    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=dict)
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    quarantine: str | None = None
    error: TrailgateError | None = None
    start: MessagePlace | None = None
    end: MessagePlace | None = None
    id_length: int | None = None
    notes: frozenset[str] = frozenset()
    ids: IdSpan | None = None
    skipped: int = 0
    repeated: int = 0
    late: int = 0
    duplicates: int = 0
    bad: BadMessages = NONE_BAD


@dataclass(slots=True)
class _Unit:
    """The unit that later messages may still belong to: where to roll back to, and its messages."""

    mark: Mark = ()
    counts: Counts = field(default_factory=dict)
    transactions: int = 0
    places: list[tuple[Longs, Longs]] = field(default_factory=list)
    reason: str | None = None


class RangeRun:
    """Captures what a range owns; without a writer all is done but writing."""

    def __init__(
        self,
        owned: RangeReader,
        files: MessageFiles,
        writer: SegmentWriter | None,
        encoding: Encoding,
        *,
        stop: bool,
        ids: IdCheck | None = None,
    ) -> None:
        self._owned, self._files, self._writer, self._stop = owned, files, writer, stop
        self._encoding, self._ids = encoding, ids
        self._counts: Counts = {}
        self._transactions = self._messages = 0
        self._unit = _Unit()
        self._quarantined: list[tuple[MessagePlace, str]] = []
        self._bad: list[TrailgateError] = []
        self._reasons: dict[int, str] = {}  # of the bad units of a batch; 0 is the open one

    def run(self, index: int) -> RangeReport:
        """Return what became of the range, whose number is ``index``."""
        for batch in self._owned.batches():
            error = self._take(batch)
            if error is not None:
                self._close()
                return RangeReport(index, error=error)
        return self._report(index)

    def _take(self, batch: OwnedBatch) -> TrailgateError | None:
        """Write a batch's good units, quarantine the others; return the error that stops the run."""
        if self._ids is not None:
            try:
                fresh = self._ids.fresh(batch, self._owned.last)
            except TransactionError as disorder:
                return disorder
            if not fresh.all():
                operations, message = batch.operations.where(fresh), batch.message[fresh]
                batch = replace(batch, operations=operations, message=message)
        encoded, blamed = encoded_or_blamed(self._encoding, batch.operations, batch.message)
        for at, error in blamed.items():
            place = self._owned.last if at < 0 else place_of(batch.messages, at)
            with_place(error, self._files, place)
        bad = {**batch.problems, **blamed}
        if bad and self._stop:
            return bad[min(bad)]
        self._messages += len(batch.messages)
        unit = np.cumsum(batch.starts_unit, dtype=np.int64)  # 0 is the unit that was open before
        kept = self._quarantine_bad(batch, bad, unit)
        operations, message = batch.operations, batch.message
        good = np.append(kept, 0 not in self._reasons)[message]  # -1 is the last slot
        if encoded is None or not good.all():
            operations, message = operations.where(good), message[good]
            encoded, _ = encoded_or_blamed(self._encoding, operations, message)
        assert encoded is not None
        written = EncodedOperations(encoded, operations)
        if len(unit):
            self._keep(batch, written, message, unit)
        else:
            self._write(written, 0, operations.rows)
        return None

    def _keep(
        self, batch: OwnedBatch, written: EncodedOperations, message: Longs, unit: Longs
    ) -> None:
        """Write operations; those before the last unit are done, the last one may continue."""
        last, cut = int(np.searchsorted(unit, unit[-1])), 0
        if unit[-1] > 0:
            cut = int(np.searchsorted(message, last))
            self._write(written, 0, cut)
            self._commit()
            self._unit = _Unit(self._mark(), reason=self._reasons.get(int(unit[-1])))
        self._write(written, cut, written.operations.rows)
        self._unit.places.append((batch.messages.files[last:], batch.messages.offsets[last:]))

    def _quarantine_bad(self, batch: OwnedBatch, bad: Blame, unit: Longs) -> Mask:
        """Return which messages are in good units; put the others into quarantine."""
        self._reasons = {} if self._unit.reason is None else {0: self._unit.reason}
        for at in sorted(bad):
            number = 0 if at < 0 else int(unit[at])
            self._reasons.setdefault(number, str(bad[at]))
        if self._unit.reason is None and 0 in self._reasons:
            self._drop_unit(self._reasons[0])
        self._bad += [bad[at] for at in sorted(bad)]
        kept = ~np.isin(unit, np.fromiter(self._reasons, np.int64))
        for at in np.flatnonzero(~kept).tolist():
            own = bad.get(at)
            reason = OTHERS + self._reasons[int(unit[at])] if own is None else str(own)
            self._quarantined.append((place_of(batch.messages, at), reason))
        return kept

    def _drop_unit(self, reason: str) -> None:
        """Roll the open unit back and quarantine its messages."""
        unit = self._unit
        if self._writer is not None:
            self._writer.rollback(unit.mark)
        for files, offsets in unit.places:
            places = zip(files.tolist(), offsets.tolist(), strict=True)
            self._quarantined += [(MessagePlace(*place), OTHERS + reason) for place in places]
        self._unit = _Unit(unit.mark, reason=reason)

    def _mark(self) -> Mark:
        return () if self._writer is None else self._writer.mark()

    def _write(self, written: EncodedOperations, begin: int, stop: int) -> None:
        if begin == stop:
            return
        counts, transactions = count_operations(written.operations, begin, stop)
        self._unit.counts = add_counts(self._unit.counts, counts)
        self._unit.transactions += transactions
        if self._writer is not None:
            self._writer.append(written, begin, stop)

    def _commit(self) -> None:
        self._counts = add_counts(self._counts, self._unit.counts)
        self._transactions += self._unit.transactions

    def _close(self) -> Mark:
        return () if self._writer is None else self._writer.close()

    def _report(self, index: int) -> RangeReport:
        self._commit()
        return RangeReport(
            index,
            segments=self._close(),
            counts=self._counts,
            messages=self._messages,
            transactions=self._transactions,
            operations=sum(count for kinds in self._counts.values() for count in kinds.values()),
            quarantined=len(self._quarantined),
            quarantine=self._write_quarantine(),
            start=self._owned.start,
            end=self._owned.end,
            id_length=self._owned.id_length,
            notes=self._owned.notes,
            ids=None if self._ids is None else self._ids.span,
            skipped=0 if self._ids is None else self._ids.skipped,
            repeated=0 if self._ids is None else self._ids.repeated,
            late=0 if self._ids is None else self._ids.late,
            duplicates=self._owned.duplicates,
            bad=BadMessages.of(self._bad, len(self._quarantined), listed=self._writer is None),
        )

    def _write_quarantine(self) -> str | None:
        """Write the quarantined messages into the staging folder; return the file's name."""
        if not self._quarantined or self._writer is None:
            return None
        name = f"{self._writer.stem}.quarantine"
        write_quarantine(self._writer.folder / name, self._files, dict(self._quarantined))
        return name
