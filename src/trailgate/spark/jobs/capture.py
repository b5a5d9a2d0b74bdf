"""The job from messages to a trail on Spark: ranges run in Python workers, the driver publishes.

Only the DataFrame API is used, so a session over Spark Connect will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from trailgate.jobs.capture.job import CaptureJob
from trailgate.jobs.capture.options import CaptureSummary
from trailgate.jobs.capture.range_run import RangeReport
from trailgate.jobs.capture.running import publish, run_part
from trailgate.spark.jobs.numbered_tasks import on_session, run_numbered


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
