"""Write the Spark format ``trail``, as a batch or as a stream: append operations to a trail.

``df.write.format("trail").mode("append").save("dirdat/ot")``.

Tasks write trail files into a staging folder. The commit numbers and lists them, and writes the
manifest last; until then the trail is unchanged. A batch of a stream is committed only once: the
manifest contains the number of each query's last batch (``storage/live/batch_commit.py``).
``write`` and ``commit`` run in different processes from the constructor, so only values that tasks
return reach ``commit``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time_ns
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from trailgate.errors import OptionError, StorageError
from trailgate.options import COUNT, PATH, Option, Options, option_from_annotation
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import BASE, one_path, read_with_paths
from trailgate.storage.live.batch_commit import BatchPart, QueryBatch, commit_batch
from trailgate.storage.writing.options import (
    ByteOrderName,
    FormatRelease,
    MaxBytes,
    SeqDigits,
    UpdateFormatName,
)
from trailgate.storage.writing.run_preparation import TableOptions, plan_target, prepare_writing
from trailgate.storage.writing.segments import MAX_BYTES
from trailgate.storage.writing.table_writing import (
    StagedPart,
    check_columns,
    publish_parts,
    write_part,
)
from trailgate.storage.writing.trail_location import TrailTarget
from trailgate.storage.writing.transaction_chain import TransactionChain
from trailgate.trail.writing.trail_format import TrailFormat

WRITING: Final = Options(
    "trail",
    (
        Option("definitions", PATH, "a definitions file, if the trail lacks definitions"),
        option_from_annotation("max_bytes", MaxBytes, MAX_BYTES),
        option_from_annotation("seq_digits", SeqDigits),
        option_from_annotation("format_release", FormatRelease),
        option_from_annotation("byte_order", ByteOrderName),
        option_from_annotation("update_format", UpdateFormatName),
        BASE,
    ),
)
STREAMING: Final = Options(
    "trail",
    (
        *WRITING,
        Option(
            "max_age_seconds",
            COUNT,
            "the age of a file, in seconds, after which a stream starts a new one",
        ),
    ),
)

# Options that Spark passes to every sink.
OF_SPARK: Final = ("checkpointlocation", "queryname")
QUERY: Final = "sql.streaming.queryId"  # local properties of Spark's tasks
BATCH: Final = "streaming.sql.batchId"


@dataclass
class StagedOperations(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """The trail files that a Spark task has staged for a DataFrame."""

    part: StagedPart


@with_brief_errors
class TrailWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Appends the operations of a DataFrame to a trail, with partitions and rows in order (batch writer of ``trail``)."""

    def __init__(self, target: TrailTarget) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedOperations:
        """Stage the operations of a DataFrame's partition as trail files. A second attempt of the task writes separate files."""
        task = TaskContext.get()
        stem = f"{task.partitionId():06}-{task.taskAttemptId()}"
        return StagedOperations(write_part(self._target, stem, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append the trail files that the Spark tasks have staged to the trail."""
        parts = [message.part for message in messages if isinstance(message, StagedOperations)]
        publish_parts(self._target, parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staging folder, after a write of a DataFrame to a trail has failed."""
        del messages  # failed tasks sent none, so discard the complete staging folder
        self._target.discard()


def trail_writer(
    options: Any, schema: StructType, folder: str | None = None, *, overwrite: bool
) -> TrailWriter:
    """Return the batch writer for the options of the format ``trail``. Raises OptionError."""
    if overwrite:
        problem = "a trail is never overwritten"
        raise OptionError(problem, hint='Write with .mode("append"), or to another path')
    path, written, _ = _read(WRITING, options, schema, '.save("dirdat/ot")', folder)
    return TrailWriter(prepare_writing(path, written))


def _read(
    known: Options, given: Any, schema: StructType, example: str, folder: str | None
) -> tuple[str, TableOptions, Mapping[str, Any]]:
    """Parse the options with which a DataFrame or stream is written to a trail. Raises OptionError.

    Returns the path, the options that describe how operations are written, and the values of all
    options by name.
    """
    paths, values = read_with_paths(known, given, example, folder)
    check_columns(schema.names)
    form = TrailFormat.from_options(
        values["format_release"], values["byte_order"], values["update_format"]
    )
    written = TableOptions(values["definitions"], values["max_bytes"], values["seq_digits"], form)
    return one_path(paths, "writing a trail"), written, values


@dataclass
class StagedBatch(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """The trail files that a task has staged for a streaming query."""

    query: str
    part: BatchPart


@with_brief_errors
class TrailStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Appends the batches of a stream to a trail, with partitions and rows in order (stream writer of ``trail``)."""

    def __init__(self, target: TrailTarget, max_age: int | None) -> None:
        self._target, self._max_age = target, max_age

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        """Stage a partition of the stream's batch as trail files.

        A second attempt of the task writes separate files.
        """
        task = TaskContext.get()
        query, number = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        if query is None or number is None:
            raise StorageError("Spark does not state which query and batch this is")
        target = _stage(self._target, query, int(number))
        target.location.backend.create_staging(target.staging)
        # the header's creation time is the time of this batch, not of the query's start
        header = target.header
        now = replace(header.trail, creation_time=time_ns() // 1000)
        target = replace(target, header=replace(header, trail=now))
        # A restarted query numbers its attempts from 0 again, so the name also needs a random part.
        stem = f"{task.partitionId():06}-{task.taskAttemptId()}-{uuid4().hex[:8]}"
        chain = TransactionChain()
        part = write_part(target, stem, iterator, chain)
        return StagedBatch(query, BatchPart(part.segments, len(target.file_start()), chain.ends))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Append the stream's batch to the trail, unless it has already been appended."""
        written = [message for message in messages if isinstance(message, StagedBatch)]
        if not written:
            return
        query = written[0].query
        target = _stage(self._target, query, batchId)
        parts = [message.part for message in written]
        commit_batch(target, QueryBatch(query, batchId, self._max_age), parts)
        target.location.backend.discard_query(target.staging)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Remove the trail files that the tasks of a failed batch of a stream have staged.

        A published batch remains, because the manifest lists it.
        """
        for message in messages:
            if isinstance(message, StagedBatch):
                names = [segment.name for segment in message.part.segments]
                staging = _stage(self._target, message.query, batchId).staging
                self._target.location.backend.discard(staging, names)


def _stage(target: TrailTarget, query: str, number: int) -> TrailTarget:
    """Return the trail to write to, with the staging folder of one batch of a streaming query."""
    return replace(
        target, staging=target.location.backend.staging(f"stream-{query}") / f"{number:09}"
    )


def trail_stream_writer(
    options: Any, schema: StructType, folder: str | None = None
) -> TrailStreamWriter:
    """Return the stream writer for the options of the format ``trail``. Raises OptionError."""
    named = {name: value for name, value in options.items() if name.casefold() not in OF_SPARK}
    path, written, values = _read(STREAMING, named, schema, '.start("dirdat/ot")', folder)
    target = plan_target(path, written)
    target.location.backend.check()
    return TrailStreamWriter(target, values["max_age_seconds"])
