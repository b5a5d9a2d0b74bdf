"""Files of records to Parquet on Spark: tasks decode and write, the driver publishes.

Rows do not cross to the JVM, so this is the fastest way from records to tables.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from trailgate.errors import TrailgateError
from trailgate.jobs.record_files.parquet import ParquetJob, publishing, write_part
from trailgate.spark.jobs.numbered_tasks import on_session, run_numbered


def run_parquet(spark: SparkSession | str, job: ParquetJob) -> int:
    """Run a job on a session, or on one made for this master; return the number of records.

    Raises the error of the earliest part that has one; then nothing is published.
    """
    job = job.anywhere()
    with publishing(job), on_session(spark) as running:
        reports = run_numbered(running, len(job.parts), lambda number: _part(job, number))
        for report in reports:
            if isinstance(report, TrailgateError):
                raise report
    return sum(report for report in reports if isinstance(report, int))


def _part(job: ParquetJob, number: int) -> int | TrailgateError:
    try:
        return write_part(job, number)
    except TrailgateError as error:
        return error
