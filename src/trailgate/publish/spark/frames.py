"""Publish the operations of a trail or of a DataFrame as a DataFrame of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trailgate.capture.formats import publish_options
from trailgate.errors import OptionError
from trailgate.messages.publishing import PublishOptions
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.operations_table import from_operations
from trailgate.model.table_names import TablePatterns
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments
from trailgate.publish.job import plan_publishing, read_changes
from trailgate.publish.spark.rows import SCHEMA, MessageRows, topic_names
from trailgate.spark.errors import brief_rows
from trailgate.spark.frames import rows_of_tasks
from trailgate.spark.schemas import cast_batches, spark_schema
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.text_files import read_definitions_file
from trailgate.storage.files.trail_files import TrailFiles, check_last_files, find_trail
from trailgate.storage.reading.splits import TRAIL_SPLIT_BYTES, TrailSplit, files_for_split

_COLUMNS: Final = tuple(OPERATIONS_SCHEMA.names)


@check_arguments
def publish(  # noqa: PLR0913  one parameter an option
    source: DataFrame | Address,
    format: str = "delimited",  # noqa: A002  the option's name
    *,
    tables: str | Iterable[str] | None = None,
    after: str | None = None,
    definitions: Address | Definitions | None = None,
    content: Literal["transaction", "row"] | None = None,
    max_message_bytes: int | None = None,
    topic: str | None = None,
    options: Mapping[str, Any] | None = None,
    split_bytes: int = TRAIL_SPLIT_BYTES,
) -> DataFrame:
    """Return a DataFrame with operations as messages, one message per row, in the form that Spark's Kafka writer expects.

    The columns are ``key``, ``value``, ``headers``, ``topic``, and the place in the trail:
    ``table``, ``position``, and ``number``, which orders messages of the same position. ``topic``
    is a template: ``${schema}`` and ``${table}`` are the names of the message's table.

    ``source`` is a trail or a DataFrame. From a trail, each task reads complete transactions. A
    DataFrame has operations (``spark.read.format("trail")``), its partitions must contain complete
    transactions in order, and the ``definitions`` of its tables are required. The other options are
    the options of ``trailgate.publish_trail``. A transaction that has not ended at the end of the
    trail is skipped.

    Raises OptionError. Reading the rows raises EncodeError for values that the format cannot
    represent.
    """
    format_options = {"content": content, "max_message_bytes": max_message_bytes, **(options or {})}
    parsed_options = publish_options(
        format, {name: v for name, v in format_options.items() if v is not None}
    )
    topic_names(topic, parsed_options)  # raises OptionError here, and not in a task
    if isinstance(source, DataFrame):
        if tables is not None or after is not None:
            problem = "the arguments tables and after need a trail, not a DataFrame"
            raise OptionError(problem, hint="Filter the DataFrame instead")
        return _of_frame(source, format, parsed_options, topic, definitions)
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise OptionError("there is no active Spark session", hint="Make one before publishing")
    trail = find_trail(source, definitions)
    check_last_files(trail)
    patterns = None if tables is None else TablePatterns.of(tables)
    # The definitions are sent once, not with each part.
    known = trail.definitions
    parts = [
        (files_for_split(trail, split), split)
        for split in plan_publishing(trail, after, split_bytes)
    ]

    schema = spark_schema(SCHEMA)

    def rows(_: int, part: tuple[TrailFiles, TrailSplit]) -> Iterator[pa.RecordBatch]:
        files, split = part
        messages = MessageRows(format, parsed_options, topic)
        files = replace(files, definitions=known)
        for changes in read_changes(files, [split], after, patterns):
            yield from cast_batches(messages.write(changes), schema)
        yield from cast_batches(messages.finish(), schema)

    return rows_of_tasks(spark, parts, rows, schema)


def _of_frame(
    frame: DataFrame,
    name: str,
    options: PublishOptions,
    topic: str | None,
    definitions: Address | Definitions | None,
) -> DataFrame:
    if definitions is None:
        problem = "the definitions of the tables are not given"
        raise OptionError(problem, hint="Give definitions, for example the trail's .def file")
    lacking = [column for column in _COLUMNS if column not in frame.columns]
    if lacking:
        problem = f"the DataFrame has no column {lacking[0]}"
        raise OptionError(problem, hint="It must have the columns of the operations table")
    known = (
        definitions if isinstance(definitions, Definitions) else read_definitions_file(definitions)
    )

    def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = MessageRows(name, options, topic)
        for batch in batches:
            typed = batch.select(_COLUMNS).cast(OPERATIONS_SCHEMA)
            yield from rows.write(from_operations(typed, known))
        # A partition must contain complete transactions, so nothing of the last one can follow.
        yield from rows.finish(with_open=True)

    schema = spark_schema(SCHEMA)

    @brief_rows
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return cast_batches(messages(batches), schema)

    return frame.select(*_COLUMNS).mapInArrow(run, schema)
