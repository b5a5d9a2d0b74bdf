"""Messages to a trail: planned once, run range by range anywhere, published in one place.

A range owns the messages from the first transaction that begins in it (``jobs/capture/range_reader.py``)
and writes their trail files into a staging folder. Publishing checks that the ranges meet,
numbers the files and lists them in the manifest, which comes last: until then nothing happened.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trailgate.errors import StorageError, TransactionError
from trailgate.jobs.capture.range_reader import OwnedMessages
from trailgate.jobs.capture.range_run import RangeReport, RangeRun
from trailgate.messages.capture import Capture
from trailgate.storage.files.manifest import CaptureOptions, CaptureSummary, Target
from trailgate.storage.files.manifest import prepare_target as _prepare_target
from trailgate.storage.files.manifest import publish_target as _publish_target
from trailgate.storage.files.quarantine import error_from
from trailgate.storage.reading.message_files import (
    MessageSource,
    Place,
    Range,
    find_messages,
    plan_ranges,
)
from trailgate.storage.writing.segments import Counts, added

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


@dataclass(frozen=True)
class CaptureJob:
    """All that a worker needs to run any of the ranges; it can be pickled."""

    capture: Capture
    source: MessageSource
    target: Target
    options: CaptureOptions
    ranges: tuple[Range, ...]


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
    options = job.options
    stem = f"{index:06d}-{uuid.uuid4().hex[:8]}"
    writer = None if options.dry_run else job.target.writer(stem, options)
    owned = OwnedMessages(job.capture, job.source, job.ranges[index])
    stop = options.on_error == "stop"
    return RangeRun(owned, job.source, writer, job.target.encoding(options), stop=stop).run(index)


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
    """Check that each message is owned once: where a range ended, the next one began."""
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
            hint="The sequence id (seqid) must have a fixed length, so that text order is its order",
        )
