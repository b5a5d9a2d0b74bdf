"""Operations as messages in a DataFrame: a trail's, or those of an operations table."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from trailgate.errors import OptionError
from trailgate.jobs.publishing.reading import plan, read_changes
from trailgate.messages.publications import publish_options, writer_for
from trailgate.messages.publishing.messages import Messages
from trailgate.messages.publishing.options import PublishOptions
from trailgate.messages.publishing.whole import WholeTransactions
from trailgate.model.operations_schema import OPERATIONS_SCHEMA
from trailgate.model.table_patterns import TablePatterns
from trailgate.model.tables import Definitions
from trailgate.operations.operations_table import from_operations
from trailgate.spark.expected_rows import as_expected
from trailgate.spark.trail.partitions import AHEAD
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.definitions_file import read_definitions
from trailgate.storage.files.trail_files import find_trail
from trailgate.storage.reading.trail.splits import SPLIT_BYTES

# The columns that Kafka's sink takes.
HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(HEADER))]
)
_COLUMNS: Final = tuple(OPERATIONS_SCHEMA.names)
Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


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
    split_bytes: int = SPLIT_BYTES,
) -> DataFrame:
    """Return operations as messages: ``value``, and ``key`` and ``headers`` as Kafka's sink takes them.

    ``source`` is a trail, of which each task reads whole transactions, or a DataFrame of operations (``spark.read.format("trail")``), whose
    partitions have whole transactions in order; that needs the ``definitions`` of its tables. The other options are those of
    ``trailgate.publish_trail``. A transaction that has not ended where the trail ends is left out.

    Raises OptionError; EncodeError, for what the format cannot hold, when the rows are taken.
    """
    asked = {"content": content, "max_message_bytes": max_message_bytes, **(options or {})}
    own = publish_options(format, {name: v for name, v in asked.items() if v is not None})
    if isinstance(source, DataFrame):
        if tables is not None or after is not None:
            raise OptionError("tables and after are about a trail", hint="Filter the DataFrame")
        return _of_frame(source, format, own, definitions)
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise OptionError("there is no active Spark session", hint="Make one before publishing")
    trail = find_trail(source, definitions)
    patterns = None if tables is None else TablePatterns(_names(tables))
    # Each task unpickles its own part only; the definitions are sent once.
    tables_known, last, files_only = trail.definitions, trail.end.number, trail.undefined()
    parts = [
        pickle.dumps((files_only.window(s.start.number, min(s.end.number + AHEAD, last)), s))
        for s in plan(trail, after, split_bytes)
    ]

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                files, split = pickle.loads(parts[number])  # noqa: S301  our own parts
                files = replace(files, definitions=tables_known)
                whole = WholeTransactions(writer_for(format, own))
                for changes in read_changes(files, [split], after, patterns):
                    yield from map(_row_batch, whole.write(changes))
                yield from map(_row_batch, whole.finish())

    frame = spark.range(0, len(parts), 1, max(1, len(parts)))
    return _mapped(frame, rows)


def _names(tables: str | Iterable[str]) -> tuple[str, ...]:
    return tuple(tables.split(",")) if isinstance(tables, str) else tuple(tables)


def _of_frame(
    frame: DataFrame,
    name: str,
    options: PublishOptions,
    definitions: Address | Definitions | None,
) -> DataFrame:
    if definitions is None:
        problem = "the definitions of the tables are not given"
        raise OptionError(problem, hint="Give definitions, as the trail's .def file")
    lacking = [column for column in _COLUMNS if column not in frame.columns]
    if lacking:
        problem = f"the DataFrame has no column {lacking[0]}"
        raise OptionError(problem, hint="It must have those of the operations table")
    known = definitions if isinstance(definitions, Definitions) else read_definitions(definitions)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = writer_for(name, options)
        for batch in batches:
            typed = pa.RecordBatch.from_arrays(
                [batch.column(field.name).cast(field.type) for field in OPERATIONS_SCHEMA],
                schema=OPERATIONS_SCHEMA,
            )
            yield _row_batch(writer.write(from_operations(typed, known)))
        yield _row_batch(writer.finish())

    return _mapped(frame.select(*_COLUMNS), rows)


def _mapped(frame: DataFrame, rows: Rows) -> DataFrame:
    schema = from_arrow_schema(SCHEMA)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return as_expected((batch for batch in rows(batches) if batch.num_rows), schema)

    return frame.mapInArrow(run, schema)


def _row_batch(messages: Messages) -> pa.RecordBatch:
    """Return messages as rows."""
    count = len(messages)
    keys = pa.nulls(count, pa.binary()) if messages.keys is None else messages.keys
    columns = [keys.cast(pa.binary()), messages.bodies.cast(pa.binary()), _headers(messages)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _headers(messages: Messages) -> pa.Array:
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
