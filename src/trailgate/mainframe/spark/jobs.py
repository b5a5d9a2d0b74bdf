"""Convert files of records to Parquet, or verify them, in Spark tasks."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Unpack

from pyspark.sql import SparkSession

from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.errors import TrailgateError
from trailgate.mainframe.files.record_files import RecordSplit
from trailgate.mainframe.jobs.options import OPTIONS, RecordKeywords
from trailgate.mainframe.jobs.parquet import ParquetJob, count_written_records, write_part
from trailgate.mainframe.jobs.part_folder import WrittenPart, publishing
from trailgate.mainframe.jobs.verifying import (
    SHOWN,
    RecordsReport,
    VerifyFindings,
    VerifyJob,
    join_findings,
    prepare_verify,
    verify_splits,
)
from trailgate.mainframe.spark.reader import RecordFileOptions, pack_splits
from trailgate.options import check_arguments, list_names
from trailgate.spark.jobs import run_numbered
from trailgate.spark.sessions import use_session
from trailgate.storage.files.addresses import Address, Addresses, addresses_of


def run_parquet(
    spark: SparkSession | str, job: ParquetJob, tally: PolicyTally | None = None
) -> int:
    """Run a conversion of record files to Parquet on a Spark session or master.

    Returns the number of records.

    Policy counts are added to ``tally``. Raises the error of the earliest part that failed; nothing
    is published then.
    """
    job = job.anywhere()
    with publishing(job.folder) as parts, use_session(spark) as running:
        # Each task gets its own part, so the job is sent to the tasks without the list of parts.
        for report in run_numbered(running, job.parts, partial(_part, replace(job, parts=()))):
            # Reports are in the order of the parts, so this is the earliest error.
            if isinstance(report, TrailgateError):
                raise report
            parts.append(report)
    return count_written_records(parts, tally)


def _part(job: ParquetJob, number: int, part: RecordSplit) -> WrittenPart | TrailgateError:
    # The error is returned, because Spark would retry a task that raises it.
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
    examples: int = SHOWN,
    base: Address | None = None,
    **options: Unpack[RecordKeywords],
) -> RecordsReport:
    """Verify files of records like ``trailgate.verify_records``, but read the files in Spark tasks.

    ``spark`` is a session, or a master for which a session is created. Relative paths start at
    ``base``, or at the working folder. Raises OptionError, DefinitionError and StorageError.
    """
    given = {"paths": addresses_of(path), "copybook": copybook, "base": base, **options}
    files = RecordFileOptions.of(given)
    return run_verify(spark, prepare_verify(files.paths, files.records, examples))


def run_verify(spark: SparkSession | str, job: VerifyJob) -> RecordsReport:
    """Run the verification of record files on a Spark session or master, and return its report."""
    splits = (split.anywhere() for split in job.splits)
    parts = list(pack_splits(splits, job.options.split_bytes))
    with use_session(spark) as running:
        findings = run_numbered(running, parts, partial(_findings, replace(job, files=())))
    return join_findings(job, chain.from_iterable(findings))


def _findings(job: VerifyJob, _: int, splits: tuple[RecordSplit, ...]) -> list[VerifyFindings]:
    return list(verify_splits(job, splits))
