"""Messages to a trail: planned once, run range by range anywhere, published in one place.

A range owns the units that begin in it (a unit is a message, or the messages of a transaction)
and writes their trail files into a staging folder. Publishing checks that the ranges meet,
numbers the files and lists them in the manifest, which comes last: until then nothing happened.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from trailgate.errors import StorageError, TrailgateError, TransactionError
from trailgate.messages.capture import Capture, MessageBatch, Parsed, Problem, TransactionState
from trailgate.model.changes import ChangeBatch, Longs, Mask
from trailgate.storage.manifest import CaptureOptions, CaptureSummary, Target
from trailgate.storage.manifest import prepare_target as _prepare_target
from trailgate.storage.manifest import publish_target as _publish_target
from trailgate.storage.quarantine import error_fields, error_from, write_line
from trailgate.storage.segments import (
    Counts,
    Mark,
    Segment,
    added,
    counted,
    encoded_or_blamed,
    selected,
)
from trailgate.storage.sources import (
    MessageSource,
    Place,
    Range,
    find_messages,
    plan_ranges,
    read_messages,
)
from trailgate.trail.writer import Encoded

__all__ = [
    "CaptureJob",
    "CaptureOptions",
    "CaptureSummary",
    "RangeReport",
    "prepare",
    "publish",
    "run_local",
    "run_range",
]

TAIL: Final = 64  # messages looked at first for the end of a transaction behind a range's end
SMALL: Final = 1 << 16  # bytes read at once where single messages are read again
OTHERS: Final = "Another message of its transaction is bad: "
Blame = dict[int, TrailgateError]


@dataclass(frozen=True)
class CaptureJob:
    """All that a worker needs to run any of the ranges; it can be pickled."""

    capture: Capture
    source: MessageSource
    target: Target
    options: CaptureOptions
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class RangeReport:
    """What became of one range. ``start`` and ``end``: its first unit's place and the next one's."""

    index: int
    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=dict)
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    quarantine: str | None = None
    error: Mapping[str, Any] | None = None
    start: Place | None = None
    end: Place | None = None
    id_length: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the report as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> RangeReport:
        """Return the report of such fields."""
        known = dict(fields)
        known["segments"] = tuple(Segment(**segment) for segment in known["segments"])
        for name in ("start", "end"):
            known[name] = None if known[name] is None else (known[name][0], known[name][1])
        return cls(**known)


def prepare(
    capture: Capture, path: str | Path, target: str | Path, options: CaptureOptions | None = None
) -> CaptureJob:
    """Return a job over the messages at ``path`` into the trail ``target``.

    A run that did not finish and had the same input is taken up again with its time, so that
    its bytes are the same. Where such a run had published all, the job has no ranges.
    """
    options = options or CaptureOptions()
    source = find_messages(path, options.message_per_line)
    prepared, now = _prepare_target(capture, source, str(target), options)
    ranges = () if prepared.done else plan_ranges(source, options.split_bytes)
    capture = replace(capture, now=now, first_file=prepared.first_source)
    return CaptureJob(capture, source, prepared, options, ranges)


def run_range(job: CaptureJob, index: int) -> RangeReport:
    """Capture one range into the staging folder; an error stands in the report."""
    return _RangeRun(job, index).run()


def run_local(job: CaptureJob, progress: Callable[[int], None] | None = None) -> CaptureSummary:
    """Run all ranges here, one after the other, and publish them.

    ``progress`` is told the number of ranges done.
    """
    reports = []
    for index in range(len(job.ranges)):
        reports.append(run_range(job, index))
        if progress is not None:
            progress(index + 1)
        if reports[-1].error is not None:
            break
    return publish(job, reports)


def publish(job: CaptureJob, reports: Sequence[RangeReport]) -> CaptureSummary:
    """Make the ranges' files part of the trail; raises the earliest error of a range.

    Raises StorageError where the ranges do not meet. Then nothing is published.
    """
    if job.target.done is not None:
        return _publish_target(job.target, job.options, job.target.done, (), ())
    ordered = sorted(reports, key=lambda report: report.index)
    for report in ordered:
        if report.error is not None:
            job.target.discard()
            raise error_from(report.error)
    _check_chain(job, ordered)
    counts: Counts = {}
    for report in ordered:
        counts = added(counts, report.counts)
    summary = CaptureSummary(
        target=job.target.prefix,
        counts={table: counts[table] for table in sorted(counts)},
        messages=sum(report.messages for report in ordered),
        transactions=sum(report.transactions for report in ordered),
        operations=sum(report.operations for report in ordered),
        quarantined=sum(report.quarantined for report in ordered),
        dry_run=job.options.dry_run,
    )
    segments = [segment for report in ordered for segment in report.segments]
    aside = [report.quarantine for report in ordered if report.quarantine is not None]
    return _publish_target(job.target, job.options, summary, segments, aside)


def _check_chain(job: CaptureJob, reports: Sequence[RangeReport]) -> None:
    """Check that each unit is owned once: where a range ended, the next one began."""
    if [report.index for report in reports] != list(range(len(job.ranges))):
        raise StorageError("not every range of the messages was run")
    _check_id_lengths(reports)
    reached: Place | None = None
    for report in reports:
        if report.start is None:
            continue
        if reached is not None and report.start != reached:
            problem = (
                f"range {report.index} begins at {report.start}, the one before ended at {reached}"
            )
            raise StorageError(problem, hint="Were the files changed during the run?")
        reached = report.end
    if reached is not None and reached != job.source.end:
        raise StorageError(f"the messages from {reached} on were not captured")


def _check_id_lengths(reports: Sequence[RangeReport]) -> None:
    """Check across ranges what each range checked within: sequence ids have one length."""
    lengths = [report.id_length for report in reports if report.id_length is not None]
    if len(set(lengths)) > 1:
        other = next(length for length in lengths if length != lengths[0])
        raise TransactionError(
            f"sequence ids of {lengths[0]} characters are followed by ones of {other}",
            hint="delim.seqid must have a fixed length, so that text order is its order",
        )


@dataclass(slots=True)
class _Unit:
    """The unit that later messages may still belong to: the way back, and whose it is."""

    mark: Mark = ()
    counts: Counts = field(default_factory=dict)
    transactions: int = 0
    places: list[tuple[Longs, Longs]] = field(default_factory=list)
    reason: str | None = None


class _RangeRun:
    """One range on its way; see ``run_range``."""

    def __init__(self, job: CaptureJob, index: int) -> None:
        self._job, self._index, self._range = job, index, job.ranges[index]
        self._stem = f"{index:06d}-{uuid.uuid4().hex[:8]}"
        self._writer = None if job.options.dry_run else job.target.writer(self._stem, job.options)
        # What stands before a range's first unit is another range's: it is not judged here.
        self._state = TransactionState(broken=index > 0 and job.capture.spans_messages)
        self._start: Place | None = None
        self._end: Place | None = None
        self._counts: Counts = {}
        self._transactions = self._messages = 0
        self._unit = _Unit()
        self._aside: list[tuple[Place, str]] = []
        self._reasons: dict[int, str] = {}
        self._error: TrailgateError | None = None

    def run(self) -> RangeReport:
        for piece, problems in self._pieces():
            if self._take(piece, problems):
                break
        else:
            self._end = self._job.source.end
            if self._start is not None:
                self._close_unit(self._job.capture.finish(self._state))
        return self._report()

    def _pieces(self) -> Iterator[tuple[MessageBatch, tuple[Problem, ...]]]:
        """Yield batches cut at the range's end; behind it small ones that grow."""
        for batch, problems in read_messages(self._job.source, self._range.start):
            begin = self._before_end(batch)
            if begin:
                yield _part(batch, problems, 0, begin)
            size = TAIL
            while begin < len(batch.starts):
                stop = min(begin + size, len(batch.starts))
                yield _part(batch, problems, begin, stop)
                begin, size = stop, 2 * size

    def _before_end(self, batch: MessageBatch) -> int:
        """Return how many messages of a batch begin before the range's end."""
        file, offset = self._range.end
        before = (batch.files < file) | ((batch.files == file) & (batch.offsets < offset))
        return int(before.sum())

    def _take(self, batch: MessageBatch, unreadable: tuple[Problem, ...]) -> bool:
        """Take messages in; return whether the range is done."""
        if not self._job.capture.spans_messages and not self._before_end(batch):
            self._end = _place(batch, 0)
            return True
        parsed = self._job.capture.parse(batch, self._state)
        bad = self._problems(batch, (*unreadable, *parsed.problems))
        starts = self._starts(batch, parsed)
        begin = 0 if self._start is not None else _first(starts, 0)
        border = max(begin, self._before_end(batch))
        stop = _first(starts, border)
        if self._start is None and begin < len(starts):
            if begin >= self._before_end(batch):
                return True
            self._start = _place(batch, begin)
            bad.pop(-1, None)  # the unit before is another range's
        if self._start is None:
            self._state = parsed.state
            return self._before_end(batch) == 0
        if begin < stop:
            self._keep(batch, parsed, bad, (begin, stop), starts)
        if stop == len(starts):
            self._state = parsed.state
            return self._error is not None
        self._end = _place(batch, stop)
        if self._error is None and stop:
            self._state = self._job.capture.parse(batch.slice(0, stop), self._state).state
        self._close_unit(self._job.capture.finish(self._state))
        return True

    def _starts(self, batch: MessageBatch, parsed: Parsed) -> Mask:
        if not self._job.capture.spans_messages:
            return np.ones(len(batch.starts), bool)
        starts = parsed.starts_unit.copy()
        if self._index == 0 and self._start is None:
            starts[0] = True  # nothing is before the input
        return starts

    def _problems(self, batch: MessageBatch, problems: tuple[Problem, ...]) -> Blame:
        """Return the first error of each message; -1 is the unit open before the batch."""
        bad: Blame = {}
        for problem in problems:
            if problem.message >= 0:
                self._locate(problem.error, _place(batch, problem.message))
            bad.setdefault(problem.message, problem.error)
        return bad

    def _locate(self, error: TrailgateError, place: Place) -> None:
        """Give an error the name of its file and, where that has more, its message's place."""
        source = self._job.source
        offset = place[1] if source.lined(place[0]) else None
        error.where = replace(error.where, source=source.files[place[0]].path, message=offset)

    def _keep(
        self, batch: MessageBatch, parsed: Parsed, bad: Blame, own: tuple[int, int], starts: Mask
    ) -> None:
        """Write the good units of messages [own[0], own[1]) and set the others aside."""
        begin, stop = own
        self._messages += stop - begin
        inside = (parsed.message >= begin) & (parsed.message < stop)
        inside &= ~np.isin(parsed.message, np.fromiter(bad, np.int64, len(bad)))
        operations, message = selected(parsed.batch, inside), parsed.message[inside]
        encoded, blamed = encoded_or_blamed(operations, message)
        for at, error in blamed.items():
            self._locate(error, _place(batch, at))
        bad = {at: error for at, error in (bad | blamed).items() if at < stop}
        bad = {at: bad[at] for at in sorted(bad) if at >= begin or at == -1}
        if bad and self._job.options.on_error == "stop":
            self._error = next(iter(bad.values()))
            return
        unit = np.cumsum(starts[begin:stop], dtype=np.int64)
        kept = self._set_aside(batch, bad, begin, unit)
        good = kept[message - begin]
        if encoded is None or not good.all():
            operations, message = selected(operations, good), message[good]
            encoded, _ = encoded_or_blamed(operations, message)
        assert encoded is not None
        last = int(np.searchsorted(unit, unit[-1])) + begin
        cut = int(np.searchsorted(message, last))
        if unit[-1] > 0:
            self._write(encoded, operations, 0, cut)
            self._commit()
            reason = None if kept[-1] else self._reasons.get(int(unit[-1]))
            self._unit = _Unit(self._mark(), reason=reason)
        else:
            cut = 0
        self._write(encoded, operations, cut, operations.rows)
        if self._job.capture.spans_messages:
            self._unit.places.append((batch.files[last:stop], batch.offsets[last:stop]))

    def _set_aside(self, batch: MessageBatch, bad: Blame, begin: int, unit: Longs) -> Mask:
        """Return which messages are in good units; put the others into quarantine."""
        self._reasons = {} if self._unit.reason is None else {0: self._unit.reason}
        for at, error in bad.items():
            number = 0 if at < 0 else int(unit[at - begin])
            self._reasons.setdefault(number, str(error))
        if self._unit.reason is None and 0 in self._reasons:
            self._drop_unit(self._reasons[0])
        if not self._reasons:
            return np.ones(len(unit), bool)
        kept = ~np.isin(unit, np.fromiter(self._reasons, np.int64))
        for i in np.flatnonzero(~kept).tolist():
            own = bad.get(begin + i)
            reason = OTHERS + self._reasons[int(unit[i])] if own is None else str(own)
            self._aside.append((_place(batch, begin + i), reason))
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

    def _write(self, encoded: Encoded, batch: ChangeBatch, begin: int, stop: int) -> None:
        if begin == stop:
            return
        counts, transactions = counted(batch, begin, stop)
        self._unit.counts = added(self._unit.counts, counts)
        self._unit.transactions += transactions
        if self._writer is not None:
            self._writer.append(encoded, batch, begin, stop)

    def _commit(self) -> None:
        self._counts = added(self._counts, self._unit.counts)
        self._transactions += self._unit.transactions

    def _close_unit(self, error: TrailgateError | None) -> None:
        """End the last unit: one whose transaction is still open is bad."""
        if error is not None and self._error is None and self._unit.reason is None:
            if self._unit.places:
                files, offsets = self._unit.places[-1]
                self._locate(error, (int(files[-1]), int(offsets[-1])))
            if self._job.options.on_error == "stop":
                self._error = error
            else:
                self._drop_unit(str(error))

    def _report(self) -> RangeReport:
        self._commit()
        segments = () if self._writer is None else self._writer.close()
        if self._error is not None:
            return RangeReport(self._index, error=error_fields(self._error))
        return RangeReport(
            self._index,
            segments,
            self._counts,
            self._messages,
            self._transactions,
            sum(count for kinds in self._counts.values() for count in kinds.values()),
            len(self._aside),
            self._write_aside(),
            None,
            self._start,
            self._end,
            self._state.id_length,
        )

    def _write_aside(self) -> str | None:
        """Write the quarantined messages into the staging folder; return the file's name."""
        if not self._aside or self._writer is None:
            return None
        reasons = dict(self._aside)
        name = f"{self._stem}.quarantine"
        with (self._writer.folder / name).open("wb") as file:
            for place, body, headers in _read_again(self._job.source, sorted(reasons)):
                path = self._job.source.files[place[0]].path
                file.write(write_line(body, headers, (path, *place), reasons[place]))
        return name


def _read_again(
    source: MessageSource, places: Sequence[Place]
) -> Iterator[tuple[Place, bytes, Mapping[str, str]]]:
    """Yield the messages at ascending places; an unreadable one is what stands there."""
    done = 0
    while done < len(places):
        for batch, problems in read_messages(source, places[done], SMALL):
            raw = {problem.message: problem.error.where.raw for problem in problems}
            index = {_place(batch, i): i for i in range(len(batch.starts))}
            before = done
            while done < len(places) and places[done] in index:
                i = index[places[done]]
                body = bytes(batch.data[int(batch.starts[i]) : int(batch.ends[i])])
                headers = {} if batch.headers is None else batch.headers[i]
                yield places[done], raw.get(i) or body, headers
                done += 1
            if done == before or done == len(places):
                break
        else:
            if done < len(places) and places[done] not in index:
                raise StorageError("the messages changed during the run")


def _part(
    batch: MessageBatch, problems: tuple[Problem, ...], begin: int, stop: int
) -> tuple[MessageBatch, tuple[Problem, ...]]:
    own = (Problem(p.message - begin, p.error) for p in problems if begin <= p.message < stop)
    return batch.slice(begin, stop), tuple(own)


def _place(batch: MessageBatch, message: int) -> Place:
    return int(batch.files[message]), int(batch.offsets[message])


def _first(mask: Mask, begin: int) -> int:
    """Return the first set slot from ``begin`` on, or the length."""
    found = np.flatnonzero(mask[begin:])
    return begin + int(found[0]) if len(found) else len(mask)
