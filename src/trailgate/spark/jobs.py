"""Jobs on Spark: tasks in Python workers read and write, the driver publishes.

Work is numbered, one task a number (``run_numbered``). Rows do not cross to the JVM. Only the DataFrame API is used, so a session over Spark Connect will do.
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

from trailgate.jobs.capture.job import CaptureJob, CaptureSummary, publish
from trailgate.jobs.capture.ranges import run_range
from trailgate.options import check_arguments
from trailgate.spark.local_session import session
from trailgate.spark.options import checked_session
from trailgate.spark.sources import map_parts

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
