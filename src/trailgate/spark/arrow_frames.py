"""Trails, messages and files of records as DataFrames by ``mapInArrow``.

The rows are those of the formats. Spark plans one projection less for them than for a format's rows; docs/spark.md
names which way is for what. Only the DataFrame API is used, so a session over Spark Connect will do.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from trailgate.jobs.record_files.keywords import RecordKeywords
from trailgate.jobs.record_files.options import OPTIONS
from trailgate.options import listed
from trailgate.spark.expected_rows import as_expected
from trailgate.storage.files.addresses import Address
from trailgate.storage.files.found_files import Addresses, addresses_of


def read_trail(  # noqa: PLR0913  one parameter an option
    spark: SparkSession,
    path: Addresses,
    *,
    table: str | None = None,
    tables: str | Iterable[str] | None = None,
    records: Literal["operations", "all"] = "operations",
    columns: str | Iterable[str] | None = None,
    definitions: Address | None = None,
    charset: str | None = None,
    after: str | None = None,
    from_position: str | None = None,
    to_position: str | None = None,
    from_csn: str | None = None,
    to_csn: str | None = None,
    undo: Literal["show", "exclude"] = "show",
    open_transactions: Literal["hold", "show"] = "hold",
    split_bytes: int | None = None,
    base: Address | None = None,
) -> DataFrame:
    """Return the rows of a trail; the options are those of the format ``trail``."""
    options = {name: value for name, value in locals().items() if name not in ("spark", "path")}
    from trailgate.spark.trail.source import TrailSource  # noqa: PLC0415  what is not read is not loaded

    return _frame(spark, TrailSource, path, options)


def read_messages(  # noqa: PLR0913  one parameter an option
    spark: SparkSession,
    path: Addresses,
    properties: Address | None = None,
    *,
    extract: Address | None = None,
    table: str | None = None,
    columns: str | Iterable[str] | None = None,
    message_per: Literal["file", "line"] = "file",
    split_bytes: int | None = None,
    ignore_unsupported: bool = False,
    base: Address | None = None,
) -> DataFrame:
    """Return the operations of message files; the options are those of the format ``message_capture``."""
    options = {name: value for name, value in locals().items() if name not in ("spark", "path")}
    from trailgate.spark.messages.source import MessageCaptureSource  # noqa: PLC0415

    return _frame(spark, MessageCaptureSource, path, options)


@listed(RecordKeywords, OPTIONS)
def read_records(
    spark: SparkSession,
    path: Addresses,
    copybook: Address | None = None,
    *,
    base: Address | None = None,
    **options: Unpack[RecordKeywords],
) -> DataFrame:
    """Return the records of files; the options are those of the format ``copybook``."""
    from trailgate.spark.copybook.source import CopybookSource  # noqa: PLC0415

    return _frame(spark, CopybookSource, path, {"copybook": copybook, "base": base, **options})


def _frame(
    spark: SparkSession, kind: type[DataSource], path: Addresses, options: Mapping[str, Any]
) -> DataFrame:
    # Planned in this process, so relative paths are from its working folder, over Spark Connect too.
    source = kind({"paths": addresses_of(path), **options})
    schema = source.schema()
    reader = source.reader(schema)
    # Each task unpickles its own partition only.
    parts = [pickle.dumps(part) for part in reader.partitions()]
    zone = str(spark.conf.get("spark.sql.session.timeZone"))

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from reader.read(pickle.loads(parts[number]))  # noqa: S301  our own partitions

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return as_expected(rows(numbers), schema, zone)

    numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
    return numbers.mapInArrow(run, schema)
