"""Write the format ``copybook``: rows become files of fixed-width records.

``df.write.format("copybook").option("copybook", "ACCOUNT.cpy").mode("append").save("new/")``.

Each task stages one file. The commit gives all files their final names at once, so the folder is
empty until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from trailgate.errors import OptionError
from trailgate.mainframe.jobs.options import with_base
from trailgate.mainframe.jobs.part_folder import WrittenPart
from trailgate.mainframe.jobs.writing import WRITING, WritingJob, WritingOptions, prepare_writing
from trailgate.options import Options
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import BASE, one_path, read_with_paths
from trailgate.spark.schemas import arrow_schema

ON_SPARK: Final = Options("copybook", (*WRITING, BASE))


@dataclass
class StagedRecords(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """The record file that a task of the format ``copybook`` has staged."""

    part: WrittenPart


@with_brief_errors
class CopybookWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Writes rows as records into a new folder, with one file per partition (batch writer of ``copybook``)."""

    def __init__(self, job: WritingJob) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRecords:
        """Stage a partition's records. A second attempt writes a separate file."""
        task = TaskContext.get()
        attempt = str(task.taskAttemptId())
        return StagedRecords(self._job.write_part(iterator, task.partitionId(), attempt))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the record files that the tasks have staged."""
        self._job.folder.publish([m.part for m in messages if isinstance(m, StagedRecords)])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete the record files that the tasks have staged."""
        del messages  # failed tasks sent none, so discard the complete staging folder
        self._job.folder.discard()


def copybook_writer(
    options: Any, schema: StructType, folder: str | None, *, overwrite: bool
) -> CopybookWriter:
    """Return the writer for the options of the format ``copybook``. Raises OptionError."""
    if overwrite:
        problem = "files of records are never overwritten"
        raise OptionError(problem, hint='Write with .mode("append") into a new folder')
    paths, values = read_with_paths(ON_SPARK, options, '.save("data/")', folder)
    target = one_path(paths, "writing records")
    chosen = WritingOptions.of_values(with_base(WRITING, values, values["base"]))
    job = prepare_writing(target, chosen, arrow_schema(schema))
    job.folder.begin()
    return CopybookWriter(job)
