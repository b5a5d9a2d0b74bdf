"""The capture job on Spark: ranges run in Python workers, the driver publishes.

Only the DataFrame API is used, so a session over Spark Connect will do.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from trailgate.spark.session import session
from trailgate.storage.capture import CaptureJob, CaptureSummary, RangeReport, publish, run_range

REPORTS: Final = pa.schema([("number", pa.int64()), ("report", pa.binary())])


def run_capture(spark: SparkSession | str, job: CaptureJob) -> CaptureSummary:
    """Run a capture job on a session, or on one made for this master, and publish the trail.

    Raises the earliest error of the input, as the job in one process does.
    """
    if not isinstance(spark, str):
        return publish(job, run_ranges(spark, job))
    running = SparkSession.getActiveSession() is not None
    made = session(spark)
    try:
        return publish(job, run_ranges(made, job))
    finally:
        if not running:
            made.stop()


def run_ranges(spark: SparkSession, job: CaptureJob) -> list[RangeReport]:
    """Return the reports of all ranges in their order; one task a range."""
    count = len(job.ranges)
    if not count:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                # An error is part of the report: a failed task would be tried again.
                report = pickle.dumps(run_range(job, number))
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number]), pa.array([report])], schema=REPORTS
                )

    numbers = spark.range(0, count, 1, numPartitions=count)
    rows = numbers.mapInArrow(run, "number long, report binary").collect()
    ordered = sorted(rows, key=lambda row: int(row["number"]))
    return [pickle.loads(row["report"]) for row in ordered]  # noqa: S301  our own workers' reports
