"""Messages to a trail: the ranges of a job are run, here or elsewhere, and published in one place.

A range owns the messages from the first transaction that begins in it (``jobs/capture/range_reader.py``)
and writes their trail files into a staging folder. Publishing checks that the ranges meet,
numbers the files and lists them in the manifest, which comes last: until then nothing happened. ``capture_files`` does all of it by one call.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, Literal

from trailgate.errors import OptionError, StorageError, TrailgateError, TransactionError, WriteError
from trailgate.jobs.capture.job import CaptureJob, CaptureOptions, CaptureSummary, prepare
from trailgate.jobs.capture.loading import PathLike, load, warn_ignored
from trailgate.jobs.capture.range_reader import RangeReader
from trailgate.jobs.capture.range_run import (
    RangeReport,
    RangeRun,
    as_values,
    rank,
    together,
    too_many,
)
from trailgate.jobs.capture.repeats import IdCheck, check_spans
from trailgate.messages.metadata import MessageIds
from trailgate.storage.files.addresses import absolute
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.files.manifest import captured_lines
from trailgate.storage.publish.protocol import OvertakenError
from trailgate.storage.reading.message_files import MessagePlace, MessageRange
from trailgate.storage.reading.threads import in_order, thread_count
from trailgate.storage.writing.table_writing import sum_counts
from trailgate.storage.writing.target import location_of
from trailgate.storage.writing.trail_location import Staged
from trailgate.storage.writing.trail_location import publish as publish_staged

KNOWN: Final = ("skipped", "continued", "changed", "copied")  # of what was captured before


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
    return CaptureSummary(
        target=prefix,
        counts={table: counts[table] for table in sorted(counts)},
        messages=sum(report.messages for report in reports),
        transactions=sum(report.transactions for report in reports),
        operations=sum(report.operations for report in reports),
        quarantined=sum(report.quarantined for report in reports),
        dry_run=options.dry_run,
        definitions=None if options.trail_format.by_index else f"{prefix}.def",
        notes=tuple(sorted(job.capture.warnings(notes))) if reports else (),
        skipped_operations=sum(report.skipped for report in reports),
        repeated_operations=sum(report.repeated for report in reports),
        late_operations=sum(report.late for report in reports),
        duplicate_messages=sum(report.duplicates for report in reports),
        reasons=rank(bad),
        problems=tuple(map(as_values, bad.errors)),
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
    if message_per not in ("file", "line"):
        raise OptionError(f"message_per must be file or line, not {message_per!r}")
    loaded = load(
        properties, extract, None, definitions, base=base, ignore_unsupported=ignore_unsupported
    )
    warn_ignored(loaded)
    options = CaptureOptions(
        on_error=on_error,
        max_bad=max_bad,
        dry_run=dry_run,
        again=again,
        unordered_ids=unordered_ids,
        message_per_line=message_per == "line",
        max_bytes=loaded.max_bytes(max_bytes),
        seq_digits=seq_digits,
        trail_format=loaded.trail_format(format_release, byte_order, update_format),
    )
    if base is not None:
        source, trail = [absolute(one, base) for one in addresses_of(source)], absolute(trail, base)
    location = location_of(trail)
    with nullcontext() if dry_run else location.backend.held():
        return runner(prepare(loaded.capture, source, location, options))
