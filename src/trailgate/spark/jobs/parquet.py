"""Files of records to Parquet on Spark: tasks decode and write, the driver publishes.

Rows do not cross to the JVM, so this is the fastest way from records to tables.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from trailgate.errors import TrailgateError
from trailgate.jobs.record_files.parquet import ParquetJob, publishing, write_part
from trailgate.jobs.record_files.part_folders import WrittenPart
from trailgate.spark.jobs.numbered_tasks import on_session, run_numbered
from trailgate.storage.reading.record_files import RecordSplit


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
