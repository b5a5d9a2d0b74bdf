"""Capture messages into a trail: plan the job, run its ranges, publish the result.

`plan_capture` lists the input files, skips those that were captured before, and cuts the rest into
ranges of bytes. The `CaptureJob` that it returns can be pickled and contains everything that a
worker needs. Workers run the ranges (`ranges.py`) and write trail records into a staging folder.
`publish_capture` checks that the ranges join without gap or overlap, numbers their files, and
finally writes the manifest. Readers see nothing of the run before the manifest is written.
`capture_loaded` does all steps, for the command line and for `capture_files`.

A run that was interrupted is repeated with its original start time, so that its files have the same
bytes.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple

from trailgate.capture.capture import Capture
from trailgate.errors import (
    DecodeError,
    OptionError,
    StorageError,
    TrailgateError,
    TransactionError,
    WriteError,
    count_noun,
)
from trailgate.jobs.capture.loading import (
    LoadedCapture,
    PathLike,
    infer_capture_tables,
    load_with_notes,
    warn_of_ignored_parameters,
)
from trailgate.jobs.capture.options import CaptureArguments
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.jobs.capture.ranges import RangeReport, run_range
from trailgate.jobs.capture.recognized_files import recognize_files
from trailgate.jobs.capture.sequence_ids import SequenceIdRule, check_spans
from trailgate.jobs.capture.summary import (
    KNOWN,
    SUMMED,
    CaptureSummary,
    error_values,
    rank_bad_reasons,
)
from trailgate.messages.message_ids import REMEMBERED, MessageIdRule
from trailgate.messages.skipped import add_skipped, skipped_notes
from trailgate.model.operation_counts import sum_counts
from trailgate.options import check_arguments
from trailgate.storage.files.addresses import Address, Addresses, absolute, addresses_of
from trailgate.storage.files.manifest import Manifest, format_captured_files
from trailgate.storage.publish.protocol import OvertakenError
from trailgate.storage.reading.message_files import (
    MessageFile,
    MessageFiles,
    find_messages,
    plan_ranges,
)
from trailgate.storage.reading.message_lines import MessagePosition
from trailgate.storage.reading.threads import run_in_order, thread_count
from trailgate.storage.writing.file_headers import build_file_header
from trailgate.storage.writing.run_preparation import check_appendable, check_tables
from trailgate.storage.writing.trail_location import (
    StagedRun,
    TrailLocation,
    TrailTarget,
    location_of,
)
from trailgate.storage.writing.trail_location import publish as publish_staged

NAMED: Final = 3  # reasons listed in an error message


Progress = Callable[[int, int], None]


class _BegunRun(NamedTuple):
    """A run that was begun: its staging folder, its start time in microseconds, its id, and its result if it has published already."""

    staging: Path
    now: int
    run: str = ""
    done: CaptureSummary | None = None


def plan_capture(
    capture: Capture,
    path: Addresses,
    target: Address | TrailLocation,
    options: CaptureOptions | None = None,
) -> CaptureJob:
    """Plan a capture of the messages at `path` (one address or several) into the trail `target`.

    Files that were captured into this trail before are skipped, unless `options.again` is set. If a
    run over the same input was interrupted, its start time is used again, so that the files get the
    same bytes. Raises StorageError if the run may not write to the trail. If messages are repaired
    ones of its quarantine, raises DecodeError if one was captured before, and TransactionError if
    others of their transaction are missing.
    """
    options = options or CaptureOptions()
    location = location_of(target) if isinstance(target, str | os.PathLike) else target
    if options.dry_run:
        manifest = location.manifest()
    else:
        location, manifest = location.recover()
    prefix = location.prefix
    check_appendable(location, manifest, options)
    found = find_messages(path, options.message_per_line, cutter=capture.cutter)
    captured = location.captured_files(manifest.captured) if manifest and not options.again else ()
    known = recognize_files(found, captured)
    source = known.files
    existing = location.definitions()
    capture = infer_capture_tables(capture, found, existing)
    definitions = capture.tables if existing is None else existing.merge(capture.tables)
    check_tables(definitions, options)
    repaired = _check_repaired(capture, source, location, manifest, again=options.again)
    # The time is not part of the fingerprint: the same input with the same options is the same run.
    asked = (replace(capture, now=0), source, prefix, options)
    fingerprint = hashlib.sha256(repr(asked).encode()).hexdigest()
    begun = _begin_run(location, manifest, fingerprint, dry_run=options.dry_run)
    process = capture.rules.environment.group
    header = build_file_header(prefix, options.seq_digits, begun.now, process)
    ids, message_ids = _id_rules(capture, source, location, manifest, options)
    capture = replace(
        capture, now=begun.now, first_file=0 if manifest is None else manifest.sources
    )
    # Ids of messages and transactions known by id depend on everything before, so such input is one
    # range.
    apart = not capture.options.by_id and message_ids is None
    ranges = () if begun.done else plan_ranges(source, options.split_bytes, independent=apart)
    staged = TrailTarget(
        location=location,
        staging=begun.staging,
        run=begun.run,
        header=header,
        definitions=definitions,
        options=options,
    )
    return CaptureJob(
        capture=capture,
        source=source,
        target=staged,
        options=options,
        ranges=ranges,
        done=begun.done,
        recognized=known,
        ids=ids,
        message_ids=message_ids,
        repaired=repaired,
    )


def _begin_run(
    location: TrailLocation, manifest: Manifest | None, fingerprint: str, *, dry_run: bool
) -> _BegunRun:
    """Begin a capture whose input and options have a fingerprint, or continue the interrupted one with the same fingerprint.

    That one's start time is used again, so that its files get the same bytes. A dry run has no id,
    and starts now.
    """
    now = time.time_ns() // 1000
    if dry_run:
        return _BegunRun(location.backend.staging("staging"), now)
    staging, now = location.backend.begin_run(fingerprint, now)
    run = f"{fingerprint}-{now}"
    location.begin_manifest()
    done = None
    # The interrupted run had already published: only its staging folder is left to remove.
    if manifest is not None and manifest.last_run == run:
        done = CaptureSummary.of(manifest.summary)
    return _BegunRun(staging, now, run, done)


def _check_repaired(
    capture: Capture,
    source: MessageFiles,
    location: TrailLocation,
    manifest: Manifest | None,
    *,
    again: bool,
) -> str:
    """Check the messages that are repaired ones of the trail's quarantine, and return the digests to remember.

    Raises StorageError if there are lines of a quarantine, and that of the trail was deleted or
    edited, unless they are captured ``again``.
    """
    if manifest is None or not manifest.quarantine:
        return ""
    from trailgate.jobs.capture.repaired_lines import TrailQuarantine, check_repaired_files  # noqa: PLC0415  only trails with a quarantine

    files = tuple(MessageFile(*one) for one in location.quarantine_files(manifest))
    check = partial(location.check_quarantine, manifest)
    quarantine = TrailQuarantine(files, check, manifest.repaired, again=again)
    state = capture.state_after(manifest.last_id or None)
    return check_repaired_files(capture, source.files, quarantine, state)


def _id_rules(
    capture: Capture,
    source: MessageFiles,
    location: TrailLocation,
    manifest: Manifest | None,
    options: CaptureOptions,
) -> tuple[SequenceIdRule | None, MessageIdRule | None]:
    """Return the rules by which a capture checks sequence ids and message ids.

    A rule is None if the messages have no such ids.
    """
    ids, ordered = None, not options.unordered_ids
    if capture.options.has_sequence_ids:
        last = None if manifest is None or options.again else manifest.last_id or None
        ids = SequenceIdRule(location.address, last, ordered, capture.options.by_id)
    # Only .jsonl files have headers, and thus message ids.
    if not any(file.json for file in source.files):
        return ids, None
    remembered = options.remembered_ids
    return ids, MessageIdRule.of(capture.options, ordered=ordered, remembered=remembered)


def run_local(
    job: CaptureJob,
    progress: Progress | None = None,
    threads: int | None = None,
) -> CaptureSummary:
    """Run all ranges of a capture in threads of this process, and publish the trail files.

    `threads` None means one per core. `progress(done, total)` is called after each range.
    """
    ranges = range(len(job.ranges))
    many = max(1, min(thread_count(threads), len(ranges)))
    reports, bad = [], 0
    try:
        for report in run_in_order(lambda index: (run_range(job, index),), ranges, many):
            reports.append(report)
            if progress is not None:
                progress(len(reports), len(ranges))
            bad += report.quarantined
            # The remaining ranges need not run: `publish_capture` raises the error.
            if report.error is not None or _too_many(job, bad):
                break
        return publish_capture(job, reports)
    except (WriteError, OvertakenError):
        job.target.discard()  # frees the disk, and leaves no orphaned files in a store
        raise


def publish_capture(job: CaptureJob, reports: Sequence[RangeReport]) -> CaptureSummary:
    """Make the trail files that the ranges of a capture have written part of the trail.

    `reports` are the results of all ranges. Raises the first error of a range, DecodeError if more
    than `max_bad` messages are bad, and StorageError if the ranges do not join. Then nothing is
    published.
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
    summary = summarize_capture(job, ordered)
    if job.options.dry_run:
        return summary
    if not job.ranges and not job.target.lacks_definitions:
        job.target.discard()
        return summary
    remembered = () if job.recognized is None else job.recognized.remembered
    staged = StagedRun(
        [segment for report in ordered for segment in report.segments],
        [report.quarantine for report in ordered if report.quarantine is not None],
        asdict(summary),
        job.capture.first_file + len(job.source.files),
        captured=format_captured_files(remembered),
        last_id=max((report.ids.highest for report in ordered if report.ids), default=""),
        repaired=job.repaired,
    )
    files, quarantine = publish_staged(job.target, staged)
    return replace(summary, files=files, quarantine=quarantine)


def _too_many(job: CaptureJob, bad: int) -> bool:
    """Return whether a capture must stop because more than `max_bad` messages are bad.

    A dry run never stops, because it counts all bad messages.
    """
    most = job.options.max_bad
    return most is not None and bad > most and not job.options.dry_run


def _check_bad(job: CaptureJob, reports: Sequence[RangeReport]) -> None:
    """Raise DecodeError if more than `max_bad` messages are bad."""
    count = sum(report.quarantined for report in reports)
    if _too_many(job, count):
        reasons = count_reasons(reports)
        named = "; ".join(f"{number:,} x {reason}" for reason, number in [*reasons.items()][:NAMED])
        problem = f"{count_noun(count, 'message')} {'is' if count == 1 else 'are'} bad, but --max-bad (max_bad) allows at most {job.options.max_bad:,}: {named}"
        hint = "Nothing was published; --dry-run lists all of them"
        raise DecodeError(problem, hint=hint)


def _check_chain(job: CaptureJob, reports: Sequence[RangeReport]) -> None:
    """Check that every message was captured once, and that ids ascend from range to range.

    Each range must begin where the previous range ended, and the last one must end with the input.
    """
    if [report.index for report in reports] != list(range(len(job.ranges))):
        raise StorageError("some ranges of the messages were not run")
    _check_id_lengths(reports)
    if job.ids is not None and job.ids.ordered:
        check_spans((report.ids for report in reports if report.ids is not None), job.source)
    reached: MessagePosition | None = None
    for report in reports:
        # The range owns nothing: no run begins in it.
        if report.start is None:
            continue
        if reached is not None and report.start != reached:
            problem = f"range {report.index} begins at {report.start}, but the one before ended at {reached}"
            raise StorageError(problem, hint="Were the files changed during the run?")
        reached = report.end
    if reached is not None and reached != job.source.end:
        problem = f"the messages from {reached} on were not captured"
        hint = "Were files changed or removed during the run? Nothing was published: run it again"
        raise StorageError(problem, hint=hint)


def _check_id_lengths(reports: Sequence[RangeReport]) -> None:
    """Raise TransactionError if the ranges of a capture have sequence ids of different lengths.

    Each range has already checked that its own ids have the same length.
    """
    lengths = [report.id_length for report in reports if report.id_length is not None]
    if len(set(lengths)) > 1:
        other = next(length for length in lengths if length != lengths[0])
        raise TransactionError(
            f"sequence ids of {lengths[0]} characters are followed by ids of {other}",
            hint="The sequence id (seqid) must have a fixed length, because ids are compared as text",
        )


Runner = Callable[[CaptureJob], CaptureSummary]


def capture_loaded(
    loaded: LoadedCapture,
    arguments: CaptureArguments,
    source: Addresses,
    location: TrailLocation,
    runner: Runner = run_local,
) -> CaptureSummary:
    """Plan a capture, run it with `runner`, and publish it into the trail at `location`.

    The trail is locked meanwhile, so that no other run writes to it.
    """
    options = CaptureOptions(
        on_error=arguments.on_error,
        max_bad=arguments.max_bad,
        dry_run=arguments.dry_run,
        again=arguments.again,
        unordered_ids=arguments.unordered_ids,
        remembered_ids=arguments.remember_ids or REMEMBERED,
        message_per_line=arguments.message_per == "line",
        **loaded.writing(arguments),
    )
    with nullcontext() if arguments.dry_run else location.backend.locked():
        return runner(plan_capture(loaded.capture, source, location, options))


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
    """Capture messages into a trail. The source is a folder, a file, a pattern, or a list of them.

    Files that were captured into the trail before are skipped and counted, unless `again` is set.

    `properties` is a properties file; alternatively, `extract` is an Extract parameter file that
    names one. `definitions` replaces the definitions file named in the properties. Relative paths,
    also those inside these files, start from `base`, or else from the working folder. The other
    options are those of `trailgate capture` (docs/cli.md). `runner` runs the job: in this process,
    or on Spark (`trailgate.spark.capture_runner`). All paths may be addresses in a store
    (docs/stores.md).

    Raises OptionError, DefinitionError, StorageError if another run has locked the trail or
    published to it first, and the first bad message's error unless `on_error` is "quarantine".
    """
    named = locals()
    if message_per not in ("file", "line"):
        raise OptionError(f"message_per must be file or line, not {message_per!r}")
    loaded = load_with_notes(
        properties, extract, None, definitions, base=base, ignore_unsupported=ignore_unsupported
    )
    warn_of_ignored_parameters(loaded)
    own = (field.name for field in fields(CaptureArguments))
    given = CaptureArguments(**{name: named[name] for name in own if name in named})
    if base is not None:
        source, trail = [absolute(one, base) for one in addresses_of(source)], absolute(trail, base)
    return capture_loaded(loaded, given, source, location_of(trail), runner)


def count_reasons(reports: Iterable[RangeReport]) -> dict[str, int]:
    """Count the bad messages of all ranges of a capture by reason, the most frequent first."""
    counts: Counter[str] = Counter()
    for report in reports:
        counts.update(report.reasons)
    return dict(counts.most_common())


def summarize_capture(job: CaptureJob, reports: Sequence[RangeReport]) -> CaptureSummary:
    """Return the summary of a capture from the reports of all its ranges."""
    counts = sum_counts(report.counts for report in reports)
    known = job.recognized
    notes = frozenset[str]().union(*(report.notes for report in reports))
    prefix, options = job.target.prefix, job.options
    empty = job.source.empty_note
    warnings = (
        *([empty] if empty else ()),
        *sorted(job.capture.warnings(notes)),
        *skipped_notes(add_skipped(*(report.skipped for report in reports))),
        *_unmatched_warnings(job),
    )
    sums = {name: sum(getattr(report, name) for report in reports) for name in SUMMED}
    manifest = job.target.location.manifest()
    return CaptureSummary(
        target=prefix,
        counts={table: counts[table] for table in sorted(counts)},
        dry_run=options.dry_run,
        definitions=None if options.trail_format.by_index else f"{prefix}.def",
        notes=(*job.target.notes(manifest), *(warnings if reports else ())),
        reasons=rank_bad_reasons(count_reasons(reports)),
        problems=tuple(error_values(error) for report in reports for error in report.errors),
        **sums,
        **({} if known is None else {f"{name}_files": getattr(known, name) for name in KNOWN}),
    )


def _unmatched_warnings(job: CaptureJob) -> list[str]:
    """Return a warning for each TABLE statement that matches no table.

    The messages nevertheless count as captured, because other statements may have captured
    operations from them.
    """
    hint = (
        " The messages count as captured: after correcting the statement, capture them with --again"
    )
    return [one + hint for one in job.capture.unmatched_warnings()]
