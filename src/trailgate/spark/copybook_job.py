"""Files of records to Parquet on Spark: tasks decode and write, the driver publishes.

Rows do not cross to the JVM, so this is the fastest way from records to tables. Only the DataFrame API is used.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from trailgate.errors import TrailgateError
from trailgate.spark.session import session
from trailgate.storage.parquet_files import ParquetJob, discard, publish, write_part

REPORTS: Final = pa.schema([("number", pa.int64()), ("report", pa.binary())])


def run_parquet(spark: SparkSession | str, job: ParquetJob) -> int:
    """Run a job on a session, or on one made for this master; return the number of records.

    Raises the error of the earliest part that has one; then nothing is published.
    """
    if not isinstance(spark, str):
        return _run(spark, job)
    running = SparkSession.getActiveSession() is not None
    made = session(spark)
    try:
        return _run(made, job)
    finally:
        if not running:
            made.stop()


def _run(spark: SparkSession, job: ParquetJob) -> int:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                report = pickle.dumps(_part(job, number))
                yield pa.RecordBatch.from_arrays(
                    [pa.array([number]), pa.array([report])], schema=REPORTS
                )

    count = len(job.parts)
    reports: list[int | TrailgateError] = []
    if count:
        numbers = spark.range(0, count, 1, numPartitions=count)
        rows = numbers.mapInArrow(run, "number long, report binary").collect()
        ordered = sorted(rows, key=lambda row: int(row["number"]))
        reports = [pickle.loads(row["report"]) for row in ordered]  # noqa: S301  our own workers'
    for report in reports:
        if isinstance(report, TrailgateError):
            discard(job)
            raise report
    publish(job)
    return sum(report for report in reports if isinstance(report, int))


def _part(job: ParquetJob, number: int) -> int | TrailgateError:
    try:
        return write_part(job, number)
    except TrailgateError as error:
        return error  # part of the report: a failed task would be tried again
