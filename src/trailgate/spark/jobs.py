"""Run jobs on Spark: tasks in Python workers read and write, and the driver publishes.

A job is a numbered list of parts, with one task for each (``run_numbered``). Rows never pass
through the JVM. Only the DataFrame API is used, so this also works with Spark Connect.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from trailgate.jobs.capture.job import publish_capture
from trailgate.jobs.capture.plan import CaptureJob
from trailgate.jobs.capture.ranges import run_range
from trailgate.jobs.capture.summary import CaptureSummary
from trailgate.options import check_arguments
from trailgate.spark.frames import rows_of_tasks
from trailgate.spark.sessions import use_session

Part = TypeVar("Part")
Report = TypeVar("Report")
REPORTS: Final = pa.schema([("number", pa.int64()), ("report", pa.binary())])


def run_numbered(
    spark: SparkSession, parts: Sequence[Part], work: Callable[[int, Part], Report]
) -> list[Report]:
    """Run ``work`` on each part of a job and its number, in a separate Spark task, and return the results in order.

    ``work`` must return errors about the input instead of raising them, because Spark would retry
    the task.
    """
    if not parts:
        return []

    def rows(number: int, part: Part) -> Iterator[pa.RecordBatch]:
        report = pickle.dumps(work(number, part))
        _exempt_modules()
        yield pa.RecordBatch.from_arrays([pa.array([number]), pa.array([report])], schema=REPORTS)

    rows_of_reports = rows_of_tasks(spark, parts, rows, "number long, report binary").collect()
    # collect() returns the rows in any order
    ordered = sorted(rows_of_reports, key=lambda row: int(row["number"]))
    return [pickle.loads(row["report"]) for row in ordered]  # noqa: S301  our own workers' reports


def _exempt_modules() -> None:
    """Exclude all objects that a Spark worker has loaded so far from garbage collection, once.

    Spark's workers collect garbage after each task, before they start the next one. Visiting the
    objects of all modules takes as long as parsing 10 MB of messages.
    """
    if not gc.get_freeze_count():
        gc.freeze()


@check_arguments
def capture_runner(spark: SparkSession | str) -> Callable[[CaptureJob], CaptureSummary]:
    """Return a function that runs the jobs of ``trailgate.capture_files`` on a Spark session or master."""
    return partial(run_capture, spark)


def run_capture(spark: SparkSession | str, job: CaptureJob) -> CaptureSummary:
    """Run a capture job on a Spark session or master, and publish the trail.

    Raises the first error in the input, like a run in one process.
    """
    with use_session(spark) as running:
        portable = job.anywhere()
        work = partial(run_range, replace(portable, ranges=()))
        return publish_capture(job, run_numbered(running, portable.ranges, work))
