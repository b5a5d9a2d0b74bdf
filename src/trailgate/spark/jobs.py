"""Jobs on Spark: tasks in Python workers read and write, the driver publishes.

Captures of messages to a trail, files of records to Parquet, and files of records verified: work is numbered, one task a number (``run_numbered``). Rows do not cross to the
JVM, so this is the fastest way from records to tables. Only the DataFrame API is used, so a session over Spark Connect will do.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Final, TypeVar, Unpack

import pyarrow as pa
from pyspark.sql import SparkSession

from trailgate.cobol.records.fields import Tally
from trailgate.errors import TrailgateError
from trailgate.jobs.capture.job import CaptureJob, CaptureSummary, publish
from trailgate.jobs.capture.ranges import run_range
from trailgate.jobs.parquet import ParquetJob, count_records, write_part
from trailgate.jobs.part_folder import WrittenPart, publishing
from trailgate.jobs.record_options import OPTIONS, RecordKeywords
from trailgate.jobs.record_verify import (
    SHOWN,
    Findings,
    RecordsReport,
    VerifyJob,
    join_findings,
    prepare_verify,
    verify_splits,
)
from trailgate.options import check_arguments, list_names
from trailgate.spark.copybook import FileOptions, pack_splits
from trailgate.spark.local_session import session
from trailgate.spark.options import checked_session
from trailgate.spark.sources import map_parts
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.reading.record_files import RecordSplit

Part = TypeVar("Part")
Report = TypeVar("Report")
REPORTS: Final = pa.schema([("number", pa.int64()), ("report", pa.binary())])


@contextmanager
def on_session(spark: SparkSession | str) -> Iterator[SparkSession]:
    """Give a session, or one made for this master, which is stopped again if none was running."""
    if not isinstance(spark, str):
        yield checked_session(spark)
        return
    running = SparkSession.getActiveSession() is not None
    made = session(spark)
    try:
        yield made
    finally:
        if not running:
            made.stop()


def run_numbered(
    spark: SparkSession, parts: Sequence[Part], work: Callable[[int, Part], Report]
) -> list[Report]:
    """Return what ``work`` gives for each part and its number, in their order; one task each.

    An error that is about the input is to be part of what it gives: a failed task would be tried again.
    """
    if not parts:
        return []

    def rows(number: int, part: Part) -> Iterator[pa.RecordBatch]:
        report = pickle.dumps(work(number, part))
        _exempt_modules()
        yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([report])], schema=REPORTS)

    found = map_parts(spark, parts, rows, "number long, report binary").collect()
    ordered = sorted(found, key=lambda row: int(row["number"]))
    return [pickle.loads(row["report"]) for row in ordered]  # noqa: S301  our own workers' reports


def _exempt_modules() -> None:
    """Exempt what a worker has loaded from garbage collection, once.

    Spark's workers collect garbage after each task, before they take the next one: through all objects of all modules that
    takes as long as 10 MB of messages.
    """
    if not gc.get_freeze_count():
        gc.freeze()


@check_arguments
def capture_runner(spark: SparkSession | str) -> Callable[[CaptureJob], CaptureSummary]:
    """Return what runs the jobs of ``trailgate.capture_files`` on a session, or on one made for this master."""
    return partial(run_capture, spark)


def run_capture(spark: SparkSession | str, job: CaptureJob) -> CaptureSummary:
    """Run a capture job on a session, or on one made for this master, and publish the trail.

    Raises the earliest error of the input, as the job in one process does.
    """
    with on_session(spark) as running:
        own = job.anywhere()
        work = partial(run_range, replace(own, ranges=()))
        return publish(job, run_numbered(running, own.ranges, work))


def run_parquet(spark: SparkSession | str, job: ParquetJob, tally: Tally | None = None) -> int:
    """Run a job on a session, or on one made for this master; return the number of records.

    What policies decided on is added to ``tally``. Raises the error of the earliest part that has one; then nothing is published.
    """
    job = job.anywhere()
    with publishing(job.folder) as parts, on_session(spark) as running:
        for report in run_numbered(running, job.parts, partial(_part, replace(job, parts=()))):
            if isinstance(report, TrailgateError):
                raise report
            parts.append(report)
    return count_records(parts, tally)


def _part(job: ParquetJob, number: int, part: RecordSplit) -> WrittenPart | TrailgateError:
    try:
        return write_part(job, number, part)
    except TrailgateError as error:
        return error


@check_arguments
@list_names(RecordKeywords, OPTIONS)
def verify_records(
    spark: SparkSession | str,
    path: Addresses,
    copybook: Addresses | None = None,
    *,
    places: int = SHOWN,
    base: Address | None = None,
    **options: Unpack[RecordKeywords],
) -> RecordsReport:
    """Return what is bad in files of records, as ``trailgate.verify_records`` does: tasks read the files, which the options split.

    ``spark`` is a session, or a master for which one is made. Relative paths are from ``base``, else from the working folder. Raises OptionError, DefinitionError and StorageError.
    """
    given = {"paths": addresses_of(path), "copybook": copybook, "base": base, **options}
    files = FileOptions.of(given)
    return run_verify(spark, prepare_verify(files.paths, files.records, places))


def run_verify(spark: SparkSession | str, job: VerifyJob) -> RecordsReport:
    """Run a job on a session, or on one made for this master, and return its report."""
    splits = (split.anywhere() for split in job.splits)
    parts = list(pack_splits(splits, job.options.split_bytes))
    with on_session(spark) as running:
        found = run_numbered(running, parts, partial(_findings, replace(job, files=())))
    return join_findings(job, chain.from_iterable(found))


def _findings(job: VerifyJob, _: int, splits: tuple[RecordSplit, ...]) -> list[Findings]:
    return list(verify_splits(job, splits))
