"""Capture on Spark: the job from messages to a trail, and messages of a DataFrame parsed.

The job's ranges run in Python workers, the driver publishes.

Only the DataFrame API is used, so a session over Spark Connect will do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from trailgate.errors import DecodeError, OptionError, Where
from trailgate.jobs.capture.job import CaptureJob
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.options import CaptureSummary
from trailgate.jobs.capture.range_run import RangeReport
from trailgate.jobs.capture.running import publish, run_range
from trailgate.messages.capture import MessageBatch
from trailgate.model.operations_schema import OPERATIONS_SCHEMA
from trailgate.operations.shapes import to_operations
from trailgate.spark.jobs.numbered_tasks import on_session, run_numbered


def run_capture(spark: SparkSession | str, job: CaptureJob) -> CaptureSummary:
    """Run a capture job on a session, or on one made for this master, and publish the trail.

    Raises the earliest error of the input, as the job in one process does.
    """
    with on_session(spark) as running:
        return publish(job, run_ranges(running, job))


def run_ranges(spark: SparkSession, job: CaptureJob) -> list[RangeReport]:
    """Return the reports of all ranges in their order; one task a range."""
    return run_numbered(spark, len(job.ranges), lambda number: run_range(job, number))


def capture(
    frame: DataFrame, properties: str | None = None, extract: str | None = None
) -> DataFrame:
    """Return the operations of messages in a frame: one a row, as ``body`` and maybe ``headers``.

    ``body`` is text or bytes, ``headers`` a map of texts. Positions, and ids that are made from
    them, count partitions and their rows. Raises OptionError where transactions span messages:
    the rows of a frame have no order that would hold them together.
    """
    parser = load_capture(properties, extract)
    if parser.spans_messages:
        problem = "transactions that span messages (txind) cannot be taken from a DataFrame"
        raise OptionError(problem, hint="Capture their files, or into a trail first")
    if "body" not in frame.columns:
        raise OptionError("there is no column body", hint="One row is one message")
    schema = from_arrow_schema(OPERATIONS_SCHEMA)
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    expected = to_arrow_schema(schema, timezone=zone)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partition, row = TaskContext.get().partitionId(), 0
        for batch in batches:
            parsed = parser.parse(messages_of_rows(batch, partition, row))
            if parsed.problems:
                raise parsed.problems[0].error
            row += batch.num_rows
            yield to_operations(parsed.batch).cast(expected)

    wanted = [name for name in ("body", "headers") if name in frame.columns]
    return frame.select(*wanted).mapInArrow(run, schema)


def messages_of_rows(batch: pa.RecordBatch, partition: int, row: int) -> MessageBatch:
    """Return a batch's rows as messages; raises DecodeError where a body is null."""
    body = batch.column("body").cast(pa.large_binary())
    if body.null_count:
        first = int(np.flatnonzero(body.is_null().to_numpy(zero_copy_only=False))[0])
        raise DecodeError("the body is null", where=Where(message=row + first))
    _, bounds, data = body.buffers()
    ends = np.frombuffer(bounds, np.int64)[body.offset : body.offset + len(body) + 1]
    headers = None
    if "headers" in batch.schema.names:
        headers = tuple(dict(held or ()) for held in batch.column("headers").to_pylist())
    places = np.arange(row, row + len(body), dtype=np.int64)
    return MessageBatch(
        data or pa.py_buffer(b""),
        ends[:-1],
        ends[1:],
        np.full(len(body), partition, np.int64),
        places,
        headers,
        f"partition {partition}",
    )
