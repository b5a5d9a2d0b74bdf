"""Publish operations, of a trail or of a DataFrame, as a DataFrame of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from trailgate.capture.formats import publish_options, writer_for
from trailgate.errors import OptionError
from trailgate.messages.publishing import CompleteTransactions, PublishOptions, WrittenMessages
from trailgate.model.changes import OPERATIONS_SCHEMA
from trailgate.model.operations_table import from_operations
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Definitions
from trailgate.options import check_arguments
from trailgate.publish.job import plan_publishing, read_changes
from trailgate.spark.errors import brief_rows, cast_batches
from trailgate.spark.sources import map_parts, spark_schema
from trailgate.spark.trail import AHEAD
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.listing import read_definitions
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.splits import TRAIL_SPLIT_BYTES, TrailSplit

# The columns that Kafka's sink accepts.
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER))]
)
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
    options: Mapping[str, Any] | None = None,
    split_bytes: int = TRAIL_SPLIT_BYTES,
) -> DataFrame:
    """Return operations as messages: ``value``, and ``key`` and ``headers`` in the form of Kafka's sink.

    ``source`` is a trail or a DataFrame. Of a trail, each task reads complete transactions. A
    DataFrame has operations (``spark.read.format("trail")``), its partitions must contain complete
    transactions in order, and it needs the ``definitions`` of its tables. The other options are the
    options of ``trailgate.publish_trail``. A transaction that has not ended at the end of the trail
    is skipped.

    Raises OptionError. Reading the rows raises EncodeError for values that the format cannot
    represent.
    """
    format_options = {"content": content, "max_message_bytes": max_message_bytes, **(options or {})}
    parsed_options = publish_options(
        format, {name: v for name, v in format_options.items() if v is not None}
    )
    if isinstance(source, DataFrame):
        if tables is not None or after is not None:
            raise OptionError("tables and after apply only to a trail", hint="Filter the DataFrame")
        return _of_frame(source, format, parsed_options, definitions)
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise OptionError("there is no active Spark session", hint="Make one before publishing")
    trail = find_trail(source, definitions)
    names = tuple(tables.split(",") if isinstance(tables, str) else tables or ())
    patterns = None if tables is None else TablePatterns(names)
    # The definitions are sent once, not with each part.
    tables_known, last, files_only = (
        trail.definitions,
        trail.end.number,
        trail.without_definitions(),
    )
    parts = [
        (files_only.window(split.start.number, min(split.end.number + AHEAD, last)), split)
        for split in plan_publishing(trail, after, split_bytes)
    ]

    def rows(_: int, part: tuple[TrailFiles, TrailSplit]) -> Iterator[pa.RecordBatch]:
        files, split = part
        whole = CompleteTransactions(writer_for(format, parsed_options))
        files = replace(files, definitions=tables_known)
        for changes in read_changes(files, [split], after, patterns):
            yield from _as_rows(whole.write(changes))
        yield from _as_rows(whole.finish())

    return map_parts(spark, parts, rows, spark_schema(SCHEMA))


def _of_frame(
    frame: DataFrame,
    name: str,
    options: PublishOptions,
    definitions: Address | Definitions | None,
) -> DataFrame:
    if definitions is None:
        problem = "the definitions of the tables are not given"
        raise OptionError(problem, hint="Give definitions, for example the trail's .def file")
    lacking = [column for column in _COLUMNS if column not in frame.columns]
    if lacking:
        problem = f"the DataFrame has no column {lacking[0]}"
        raise OptionError(problem, hint="It must have the columns of the operations table")
    known = definitions if isinstance(definitions, Definitions) else read_definitions(definitions)

    def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[WrittenMessages]:
        writer = writer_for(name, options)
        for batch in batches:
            typed = batch.select(_COLUMNS).cast(OPERATIONS_SCHEMA)
            yield writer.write(from_operations(typed, known))
        # The writer buffers the messages of the last transaction.
        yield writer.finish()

    @brief_rows
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _as_rows(messages(batches))

    return frame.select(*_COLUMNS).mapInArrow(run, spark_schema(SCHEMA))


def _as_rows(groups: Iterable[WrittenMessages]) -> Iterator[pa.RecordBatch]:
    """Convert messages to rows."""
    batches = (_row_batch(messages) for messages in groups if len(messages))
    return cast_batches(batches, spark_schema(SCHEMA))


def _row_batch(messages: WrittenMessages) -> pa.RecordBatch:
    count = len(messages)
    keys = pa.nulls(count, pa.binary()) if messages.keys is None else messages.keys
    bodies = messages.bodies.cast(pa.binary())
    columns = [keys.cast(pa.binary()), bodies, _published_headers(messages)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _published_headers(messages: WrittenMessages) -> pa.Array:
    kind = SCHEMA.field("headers").type
    if not messages.headers:
        return pa.nulls(len(messages), kind)
    named = {name: values.to_pylist() for name, values in messages.headers.items()}
    made = [
        [
            {"key": name, "value": values[at].encode()}
            for name, values in named.items()
            if values[at] is not None
        ]
        for at in range(len(messages))
    ]
    return pa.array(made, kind)
