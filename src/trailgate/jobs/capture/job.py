"""Messages to a trail: a job is planned once, its ranges are run here or elsewhere, and what they made is published in one place.

``prepare`` finds the input, recognises what was captured before, and cuts the rest into ranges; the job that it returns can be pickled, and has all that a
worker needs (``jobs/capture/ranges.py``). ``publish`` checks that the ranges meet, numbers their files and lists them in the manifest, which comes last: until
then nothing happened. ``capture_loaded`` does all of it, for the command line and for ``capture_files``.

A run that did not finish is repeated with its time, so that its bytes are the same.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from trailgate.capture.capture import Capture
from trailgate.errors import (
    DecodeError,
    OptionError,
    StorageError,
    TrailgateError,
    TransactionError,
    Where,
    WriteError,
)
from trailgate.jobs.capture.loading import Loaded, PathLike, infer_tables, load, warn_ignored
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.jobs.capture.ranges import RangeReport, run_range
from trailgate.jobs.capture.repeats import IdRule, Recognised, check_spans, recognise
from trailgate.messages.metadata import REMEMBERED, MessageIdRule
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.files.manifest import captured_lines
from trailgate.storage.publish.protocol import OvertakenError
from trailgate.storage.reading.message_files import (
    SPLIT_BYTES,
    FileList,
    MessageFiles,
    MessagePlace,
    MessageRange,
    find_messages,
    plan_ranges,
)
from trailgate.storage.reading.threads import in_order, thread_count
from trailgate.storage.writing.segments import WriteOptions
from trailgate.storage.writing.table_writing import sum_counts
from trailgate.storage.writing.target import (
    Target,
    check_tables,
    check_trail,
    file_header,
    location_of,
)
from trailgate.storage.writing.trail_location import Staged, TrailLocation
from trailgate.storage.writing.trail_location import publish as publish_staged


@dataclass(frozen=True, slots=True)
class CaptureOptions(WriteOptions):
    """How a capture runs and writes; ``on_error`` is stop or quarantine.

    With more than ``max_bad`` bad messages nothing is published.
    ``again`` captures what was captured before too. With ``unordered_ids`` sequence ids that fall or repeat are captured.
    Of messages whose ids ``jms.id`` selects, ``remembered_ids`` are known when they come again.
    """

    on_error: str = "stop"
    dry_run: bool = False
    split_bytes: int = SPLIT_BYTES
    message_per_line: bool = False
    again: bool = False
    unordered_ids: bool = False
    remembered_ids: int = REMEMBERED
    max_bad: int | None = None

    def __post_init__(self) -> None:
        if self.on_error not in ("stop", "quarantine"):
            raise OptionError(f"on-error is {self.on_error}, expected stop or quarantine")
        WriteOptions.__post_init__(self)  # super() does not work in classes with slots


@dataclass(frozen=True, slots=True)
class CaptureSummary:
    """What a capture did: operations by table and kind, the files it published, and what is worth a note.

    ``definitions`` is the file that belongs to the trail where the trail's files do not hold definitions.
    What was captured before: ``skipped_files`` and ``skipped_operations`` were left out; of ``continued_files`` only the new
    end was captured. Captured whole were ``changed_files``, which had other content then, ``copied_files``, which had another
    name, and ``late_operations``, whose sequence ids are lower than the trail's highest. ``repeated_operations`` came twice in the
    messages, and were captured once; so were ``duplicate_messages``, by the ids that ``jms.id`` selects.
    ``reasons`` count the bad messages, the most frequent first; ``problems`` are these messages, in a dry run.
    """

    target: str
    counts: dict[str, dict[str, int]]
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    quarantined: int = 0
    files: tuple[str, ...] = ()
    quarantine: str | None = None
    dry_run: bool = False
    notes: tuple[str, ...] = ()
    definitions: str | None = None
    skipped_files: int = 0
    skipped_operations: int = 0
    continued_files: int = 0
    changed_files: int = 0
    copied_files: int = 0
    late_operations: int = 0
    repeated_operations: int = 0
    duplicate_messages: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Mapping[str, Any], ...] = ()

    @property
    def mostly_bad(self) -> bool:
        """Return whether more messages were quarantined than captured."""
        return 2 * self.quarantined > self.messages

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the summary that a manifest has of its last run."""
        strings = {name: tuple(fields.get(name, ())) for name in ("files", "notes", "problems")}
        return cls(**{**fields, **strings})


@dataclass(frozen=True)
class CaptureJob:
    """All that a worker needs to run any of the ranges; it can be pickled.

    ``done`` is what an interrupted run of the same input had published; then there are no ranges. ``recognised`` is what
    the trail knows of the input, and ``ids`` what its sequence ids are compared with, if the messages give them. ``message_ids``
    is how the messages' own ids are compared, where they have them; they are read in one range then.
    """

    capture: Capture
    source: MessageFiles
    target: Target
    options: CaptureOptions
    ranges: tuple[MessageRange, ...]
    done: CaptureSummary | None = None
    recognised: Recognised | None = None
    ids: IdRule | None = None
    message_ids: MessageIdRule | None = None

    def anywhere(self) -> CaptureJob:
        """Return the job as workers take it: with absolute paths, as they run in other folders, and without what publishing alone needs."""
        files = FileList(replace(file, path=absolute(file.path)) for file in self.source.files)
        ids = self.ids
        if ids is not None:
            ids = replace(ids, prefix=absolute(ids.prefix))
        source = replace(self.source, files=files)
        return replace(self, source=source, ids=ids, recognised=None)


def prepare(
    capture: Capture,
    path: Addresses,
    target: Address | TrailLocation,
    options: CaptureOptions | None = None,
) -> CaptureJob:
    """Return a job over the messages at ``path``, one address or several, into the trail ``target``.

    Files that were captured into it before are left out, unless the options say again.
    A run that did not finish and had the same input is resumed with its time, so that
    its bytes are the same. Raises StorageError where the trail must not be written.
    """
    options = options or CaptureOptions()
    location = location_of(target) if isinstance(target, str | os.PathLike) else target
    if options.dry_run:
        manifest = location.manifest()
    else:
        location, manifest = location.recover()
    prefix = location.prefix
    check_trail(location, manifest, options)
    found = find_messages(path, options.message_per_line, cutter=capture.cutter)
    captured = location.captured(manifest.captured) if manifest and not options.again else ()
    known = recognise(found, captured)
    source = known.files
    existing = location.definitions()
    capture = infer_tables(capture, found, existing)
    definitions = capture.tables if existing is None else existing.merge(capture.tables)
    check_tables(definitions, options)
    asked = (replace(capture, now=0), source, prefix, options)
    fingerprint = hashlib.sha256(repr(asked).encode()).hexdigest()
    now, run, done, staging = time.time_ns() // 1000, "", None, location.backend.staging("staging")
    if not options.dry_run:
        staging, now = location.backend.begin_run(fingerprint, now)
        run = f"{fingerprint}-{now}"
        location.begin()
        if manifest is not None and manifest.last_run == run:
            done = CaptureSummary.of(manifest.summary)
    process = capture.rules.environment.group
    header = file_header(prefix, options.seq_digits, now, process)
    ids = None
    if capture.options.gives_ids:
        last = None if manifest is None or options.again else manifest.last_id or None
        ordered, by_id = not options.unordered_ids, capture.options.by_id
        ids = IdRule(location.address, last, ordered, by_id)
    message_ids = None
    if any(file.json for file in source.files):
        message_ids = MessageIdRule.of(
            capture.options, ordered=not options.unordered_ids, remembered=options.remembered_ids
        )
    capture = replace(capture, now=now, first_file=0 if manifest is None else manifest.sources)
    apart = not capture.options.by_id and message_ids is None
    ranges = () if done else plan_ranges(source, options.split_bytes, apart=apart)
    staged = Target(location, staging, run, header, definitions, options)
    return CaptureJob(capture, source, staged, options, ranges, done, known, ids, message_ids)


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
OTHER_REASONS: Final = "other reasons"


def sum_reasons(reports: Iterable[RangeReport]) -> dict[str, int]:
    """Return how many messages are bad for which reason, the most frequent first."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.reasons)
    return dict(counts.most_common())


def rank(reasons: Mapping[str, int]) -> dict[str, int]:
    """Return the reasons that most messages have, and the sum of the others."""
    pairs = list(reasons.items())
    rest = sum(count for _, count in pairs[RANKED:])
    return dict(pairs[:RANKED]) | ({OTHER_REASONS: rest} if rest else {})


def as_values(error: TrailgateError) -> dict[str, Any]:
    """Return an error as plain values: its problem, its hint, and what is known of its place."""
    place = {field.name: getattr(error.where, field.name) for field in fields(Where)}
    raw = place.pop("raw")
    if raw is not None:
        text = place["text"] or raw.decode("utf-8", "backslashreplace")
        place |= {"text": text, "bytes": raw.hex()}
    known = {name: value for name, value in place.items() if value is not None}
    return {"problem": error.problem, **known, **({"hint": error.hint} if error.hint else {})}


Progress = Callable[[int, int], None]


def run_local(
    job: CaptureJob,
    progress: Progress | None = None,
    threads: int | None = None,
) -> CaptureSummary:
    """Run all ranges here and publish them; ``threads`` None: one a core.

    ``progress`` is called with the number of ranges done, and of all.
    """
    ranges = range(len(job.ranges))
    many = max(1, min(thread_count(threads), len(ranges)))
    reports, bad = [], 0
    try:
        for report in in_order(lambda index: (run_range(job, index),), ranges, many):
            reports.append(report)
            if progress is not None:
                progress(len(reports), len(ranges))
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


def _unmatched(job: CaptureJob) -> list[str]:
    """Return a sentence for each TABLE statement that no table fits. Its messages count as captured, since other statements may have taken operations of them."""
    known = sorted({table.name for table in job.capture.definitions})
    if not known:
        return []
    hint = " The messages count as captured: when the statement is right, --again captures them once more"
    return [one + hint for one in job.capture.rules.unmatched(known)]


def _summary(job: CaptureJob, reports: Sequence[RangeReport]) -> CaptureSummary:
    counts = sum_counts(report.counts for report in reports)
    known = job.recognised
    notes = frozenset[str]().union(*(report.notes for report in reports))
    prefix, options = job.target.prefix, job.options
    sums = {name: sum(getattr(report, name) for report in reports) for name in SUMMED}
    return CaptureSummary(
        target=prefix,
        counts={table: counts[table] for table in sorted(counts)},
        dry_run=options.dry_run,
        definitions=None if options.trail_format.by_index else f"{prefix}.def",
        notes=(*sorted(job.capture.warnings(notes)), *_unmatched(job)) if reports else (),
        reasons=rank(sum_reasons(reports)),
        problems=tuple(as_values(error) for report in reports for error in report.errors),
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
        reasons = sum_reasons(reports)
        named = "; ".join(f"{number:,} x {reason}" for reason, number in [*reasons.items()][:NAMED])
        problem = f"{count:,} messages are bad, and at most {job.options.max_bad:,} may be: {named}"
        hint = "Nothing was published; --dry-run lists all of them"
        raise DecodeError(problem, hint=hint)


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


@check_arguments
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
