"""Messages to a trail: the ranges of a job are run, here or elsewhere, and published in one place.

A range owns the messages from the first transaction that begins in it (``jobs/capture/range_reader.py``). ``RangeRun`` writes its good units as trail files
into a staging folder and quarantines the others. Publishing checks that the ranges meet, numbers the files and lists them in the manifest, which comes last: until
then nothing happened. ``capture_loaded`` does all of it, for the command line and for ``capture_files``.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import (
    DecodeError,
    OptionError,
    StorageError,
    TrailgateError,
    TransactionError,
    Where,
    WriteError,
)
from trailgate.jobs.capture.job import CaptureJob, CaptureOptions, CaptureSummary, prepare
from trailgate.jobs.capture.loading import Loaded, PathLike, load, warn_ignored
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.jobs.capture.range_reader import (
    OwnedBatch,
    RangeReader,
    place_of,
    with_place,
    write_quarantine,
)
from trailgate.jobs.capture.repeats import IdCheck, IdSpan, check_spans
from trailgate.messages.metadata import REMEMBERED, MessageIds
from trailgate.storage.files.addresses import absolute
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.files.manifest import captured_lines
from trailgate.storage.publish.protocol import OvertakenError
from trailgate.storage.reading.message_files import MessageFiles, MessagePlace, MessageRange
from trailgate.storage.reading.threads import in_order, thread_count
from trailgate.storage.writing.segments import (
    EncodedOperations,
    Encoding,
    Mark,
    Segment,
    SegmentWriter,
    encoded_or_blamed,
)
from trailgate.storage.writing.table_writing import (
    Counts,
    add_counts,
    count_operations,
    sum_counts,
)
from trailgate.storage.writing.target import location_of
from trailgate.storage.writing.trail_location import Staged, TrailLocation
from trailgate.storage.writing.trail_location import publish as publish_staged

KNOWN: Final = ("skipped", "continued", "changed", "copied")  # of what was captured before
SUMMED: Final = (  # numbers of ranges, by the names that they have in reports and in the summary
    "messages",
    "transactions",
    "operations",
    "quarantined",
    "skipped_operations",
    "repeated_operations",
    "late_operations",
    "duplicate_messages",
)

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
    skipped_operations: int = 0
    repeated_operations: int = 0
    late_operations: int = 0
    duplicate_messages: int = 0
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
            skipped_operations=0 if self._ids is None else self._ids.skipped,
            repeated_operations=0 if self._ids is None else self._ids.repeated,
            late_operations=0 if self._ids is None else self._ids.late,
            duplicate_messages=self._owned.duplicates,
            bad=BadMessages.of(self._bad, len(self._quarantined), listed=self._writer is None),
        )

    def _write_quarantine(self) -> str | None:
        """Write the quarantined messages into the staging folder; return the file's name."""
        if not self._quarantined or self._writer is None:
            return None
        name = f"{self._writer.stem}.quarantine"
        write_quarantine(self._writer.folder / name, self._files, dict(self._quarantined))
        return name


def run_range(job: CaptureJob, index: int) -> RangeReport:
    """Capture one range into the staging folder; an error is part of the report."""
    return run_part(job, index, job.ranges[index])


def run_part(job: CaptureJob, index: int, part: MessageRange) -> RangeReport:
    """Capture a range by its number, as ``run_range`` does; the job need not have it."""
    stem = f"{index:06d}-{uuid.uuid4().hex[:8]}"
    # A copy has a parser of its own, which no other thread uses.
    message_ids = None if job.message_ids is None else MessageIds(job.message_ids)
    owned = RangeReader(replace(job.capture), job.source, part, message_ids)
    stop = job.options.on_error == "stop"
    ids = None if job.ids is None else IdCheck(job.ids, job.source)
    encoding = job.target.encoding()
    if job.options.dry_run:
        return RangeRun(owned, job.source, None, encoding, stop=stop, ids=ids).run(index)
    with job.target.filling() as folder:
        writer = job.target.writer(folder, stem)
        return RangeRun(owned, job.source, writer, encoding, stop=stop, ids=ids).run(index)


def run_local(
    job: CaptureJob,
    progress: Callable[[int], None] | None = None,
    threads: int | None = None,
) -> CaptureSummary:
    """Run all ranges here and publish them; ``threads`` None: one a core.

    ``progress`` is called with the number of ranges done.
    """
    ranges = range(len(job.ranges))
    many = max(1, min(thread_count(threads), len(ranges)))
    reports, bad = [], 0
    try:
        for report in in_order(lambda index: (run_range(job, index),), ranges, many):
            reports.append(report)
            if progress is not None:
                progress(len(reports))
            bad += report.quarantined
            if report.error is not None or _too_many(job, bad):
                break
        return publish(job, reports)
    except (WriteError, OvertakenError):
        job.target.discard()  # a full disk has room again, and a store has nothing that nobody needs
        raise


def publish(job: CaptureJob, reports: Sequence[RangeReport]) -> CaptureSummary:
    """Make the ranges' files part of the trail; raises the earliest error of a range.

    Raises StorageError where the ranges do not meet. Then nothing is published.
    """
    if job.done is not None:
        job.target.discard()
        return job.done
    ordered = sorted(reports, key=lambda report: report.index)
    for report in ordered:
        if report.error is not None:
            job.target.discard()
            raise report.error
    try:
        _check_bad(job, ordered)
        _check_chain(job, ordered)
    except TrailgateError:
        job.target.discard()
        raise
    summary = _summary(job, ordered)
    if job.options.dry_run:
        return summary
    if not job.ranges:
        job.target.discard()
        return summary
    remembered = () if job.recognised is None else job.recognised.remembered
    staged = Staged(
        [segment for report in ordered for segment in report.segments],
        [report.quarantine for report in ordered if report.quarantine is not None],
        asdict(summary),
        job.capture.first_file + len(job.source.files),
        captured=captured_lines(remembered),
        last_id=max((report.ids.highest for report in ordered if report.ids), default=""),
    )
    files, quarantine = publish_staged(job.target, staged)
    return replace(summary, files=files, quarantine=quarantine)


def _summary(job: CaptureJob, reports: Sequence[RangeReport]) -> CaptureSummary:
    counts = sum_counts(report.counts for report in reports)
    known = job.recognised
    notes = frozenset[str]().union(*(report.notes for report in reports))
    prefix, options = job.target.prefix, job.options
    bad = together(report.bad for report in reports)
    sums = {name: sum(getattr(report, name) for report in reports) for name in SUMMED}
    return CaptureSummary(
        target=prefix,
        counts={table: counts[table] for table in sorted(counts)},
        dry_run=options.dry_run,
        definitions=None if options.trail_format.by_index else f"{prefix}.def",
        notes=tuple(sorted(job.capture.warnings(notes))) if reports else (),
        reasons=rank(bad),
        problems=tuple(map(as_values, bad.errors)),
        **sums,
        **({} if known is None else {f"{name}_files": getattr(known, name) for name in KNOWN}),
    )


def _too_many(job: CaptureJob, bad: int) -> bool:
    """Return whether the run is over, since more messages are bad than may be; a dry run counts all."""
    most = job.options.max_bad
    return most is not None and bad > most and not job.options.dry_run


def _check_bad(job: CaptureJob, reports: Sequence[RangeReport]) -> None:
    """Raise DecodeError where more messages are bad than may be."""
    count = sum(report.quarantined for report in reports)
    if _too_many(job, count):
        raise too_many(together(report.bad for report in reports), count, job.options.max_bad or 0)


def _check_chain(job: CaptureJob, reports: Sequence[RangeReport]) -> None:
    """Check that each message is owned once: where a range ended, the next one began."""
    if [report.index for report in reports] != list(range(len(job.ranges))):
        raise StorageError("not every range of the messages was run")
    _check_id_lengths(reports)
    if job.ids is not None and job.ids.ordered:
        check_spans((report.ids for report in reports if report.ids is not None), job.source)
    reached: MessagePlace | None = None
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
            hint="The sequence id (seqid) must have a fixed length, so that text order is its order",
        )


Runner = Callable[[CaptureJob], CaptureSummary]


def capture_loaded(
    loaded: Loaded,
    given: CaptureArguments,
    source: Addresses,
    location: TrailLocation,
    runner: Runner = run_local,
) -> CaptureSummary:
    """Capture messages into the trail at a location, which nobody else writes meanwhile; return what was done."""
    options = CaptureOptions(
        on_error=given.on_error,
        max_bad=given.max_bad,
        dry_run=given.dry_run,
        again=given.again,
        unordered_ids=given.unordered_ids,
        remembered_ids=given.remember_ids or REMEMBERED,
        message_per_line=given.message_per == "line",
        **loaded.writing(given),
    )
    with nullcontext() if given.dry_run else location.backend.held():
        return runner(prepare(loaded.capture, source, location, options))


def capture_files(  # noqa: PLR0913  one parameter an option
    source: Addresses,
    trail: str | Path,
    properties: PathLike | None = None,
    *,
    extract: PathLike | None = None,
    definitions: PathLike | None = None,
    message_per: Literal["file", "line"] = "file",
    on_error: Literal["stop", "quarantine"] = "stop",
    max_bad: int | None = None,
    max_bytes: int | None = None,
    seq_digits: Literal[9, 6] = 9,
    format_release: str | None = None,
    byte_order: Literal["big", "little"] | None = None,
    update_format: Literal["separate", "full", "compact"] | None = None,
    again: bool = False,
    unordered_ids: bool = False,
    dry_run: bool = False,
    ignore_unsupported: bool = False,
    base: PathLike | None = None,
    runner: Runner = run_local,
) -> CaptureSummary:
    """Capture messages into a trail: a folder, a file, a pattern, or several of them; return what was done.

    What was captured into the trail before is left out and counted, unless ``again``.

    The properties are those of a file, or of the Extract parameter file that names them; ``definitions`` replaces the
    definitions file that they name. Relative paths, those inside these files too, are from ``base``, else from the working
    folder. The other options are those of ``trailgate capture`` (docs/cli.md). ``runner`` runs
    the job: in this process, or on Spark (``trailgate.spark.capture_runner``). Messages and the files of the properties may be
    at addresses of a store, and so may the trail (docs/stores.md).

    Raises OptionError, DefinitionError, StorageError where another run holds the trail or published to it first, and the first bad message's error
    unless ``on_error`` is quarantine.
    """
    named = locals()
    if message_per not in ("file", "line"):
        raise OptionError(f"message_per must be file or line, not {message_per!r}")
    loaded = load(
        properties, extract, None, definitions, base=base, ignore_unsupported=ignore_unsupported
    )
    warn_ignored(loaded)
    own = (field.name for field in fields(CaptureArguments))
    given = CaptureArguments(**{name: named[name] for name in own if name in named})
    if base is not None:
        source, trail = [absolute(one, base) for one in addresses_of(source)], absolute(trail, base)
    return capture_loaded(loaded, given, source, location_of(trail), runner)
