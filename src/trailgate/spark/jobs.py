"""Numbered work, one task a number: what both jobs run on.

Only the DataFrame API is used, so a session over Spark Connect will do.

The job from messages to a trail on Spark: ranges run in Python workers, the driver publishes.

Only the DataFrame API is used, so a session over Spark Connect will do.

Files of records to Parquet on Spark: tasks decode and write, the driver publishes.

Rows do not cross to the JVM, so this is the fastest way from records to tables.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from trailgate.errors import TrailgateError
from trailgate.jobs.capture.job import CaptureJob, CaptureSummary
from trailgate.jobs.capture.range_run import RangeReport
from trailgate.jobs.capture.running import publish, run_part
from trailgate.jobs.parquet import ParquetJob, WrittenPart, publishing, write_part
from trailgate.spark.local_session import session
from trailgate.storage.reading.record_files import RecordSplit

Part = TypeVar("Part")
Report = TypeVar("Report")
REPORTS: Final = pa.schema([("number", pa.int64()), ("report", pa.binary())])


@contextmanager
def on_session(spark: SparkSession | str) -> Iterator[SparkSession]:
    """Give a session, or one made for this master, which is stopped again if none was running."""
    if not isinstance(spark, str):
        yield spark
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
    count = len(parts)
    # Every task is sent all parts, and makes objects of its own one alone.
    packed = [pickle.dumps(part) for part in parts]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                part = pickle.loads(packed[number])  # noqa: S301  our own driver's
                report = pickle.dumps(work(number, part))
                _exempt_modules()
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number]), pa.array([report])], schema=REPORTS
                )

    numbers = spark.range(0, count, 1, numPartitions=count)
    rows = numbers.mapInArrow(run, "number long, report binary").collect()
    ordered = sorted(rows, key=lambda row: int(row["number"]))
    return [pickle.loads(row["report"]) for row in ordered]  # noqa: S301  our own workers' reports


def _exempt_modules() -> None:
    """Exempt what a worker has loaded from garbage collection, once.

    Spark's workers collect garbage after each task, before they take the next one: through all objects of all modules that
    takes as long as 10 MB of messages.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def capture_runner(spark: SparkSession | str) -> Callable[[CaptureJob], CaptureSummary]:
    """Return what runs the jobs of ``trailgate.capture_files`` on a session, or on one made for this master."""
    return partial(run_capture, spark)


def run_capture(spark: SparkSession | str, job: CaptureJob) -> CaptureSummary:
    """Run a capture job on a session, or on one made for this master, and publish the trail.

    Raises the earliest error of the input, as the job in one process does.
    """
    with on_session(spark) as running:
        return publish(job, run_ranges(running, job.anywhere()))


def run_ranges(spark: SparkSession, job: CaptureJob) -> list[RangeReport]:
    """Return the reports of all ranges in their order; one task a range."""
    return run_numbered(spark, job.ranges, partial(run_part, replace(job, ranges=())))


def run_parquet(spark: SparkSession | str, job: ParquetJob) -> int:
    """Run a job on a session, or on one made for this master; return the number of records.

    Raises the error of the earliest part that has one; then nothing is published.
    """
    job = job.anywhere()
    with publishing(job) as parts, on_session(spark) as running:
        for report in run_numbered(running, job.parts, partial(_part, replace(job, parts=()))):
            if isinstance(report, TrailgateError):
                raise report
            parts.append(report)
    return sum(part.rows for part in parts)


def _part(job: ParquetJob, number: int, part: RecordSplit) -> WrittenPart | TrailgateError:
    try:
        return write_part(job, number, part)
    except TrailgateError as error:
        return error
