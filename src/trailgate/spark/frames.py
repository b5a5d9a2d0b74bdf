"""Read trails and messages as DataFrames by ``mapInArrow``.

The rows are the same as those of the Spark formats, but Spark plans one projection less for them;
docs/spark.md explains which to choose. Only the DataFrame API is used, so this also works with
Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession

from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.options import check_arguments
from trailgate.spark.options import check_session
from trailgate.spark.schemas import cast_batches
from trailgate.spark.sources import SparkSource, map_parts
from trailgate.storage.files.addresses import Address, Addresses, addresses_of


@check_arguments
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
    times: Literal["timestamp", "text"] = "timestamp",
    undo: Literal["show", "exclude"] = "show",
    open_transactions: Literal["hold", "show"] = "hold",
    split_bytes: int | None = None,
    base: Address | None = None,
) -> DataFrame:
    """Read a trail as a DataFrame. The options are those of the format ``trail``."""
    options = {name: value for name, value in locals().items() if name not in ("spark", "path")}
    from trailgate.spark.trail import TrailSource  # noqa: PLC0415  what is not read is not loaded

    return frame_of(spark, TrailSource, path, options)


@check_arguments
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
    """Read the operations of message files as a DataFrame.

    The options are those of the format ``message_capture``.
    """
    options = {name: value for name, value in locals().items() if name not in ("spark", "path")}
    from trailgate.spark.messages import MessageCaptureSource  # noqa: PLC0415

    return frame_of(spark, MessageCaptureSource, path, options)


def frame_of(
    spark: SparkSession,
    kind: type[SparkSource],
    path: Addresses,
    options: Mapping[str, Any],
    counts: Accumulator[PolicyTally] | None = None,
) -> DataFrame:
    """Read one of our Spark formats (``kind``) as a DataFrame by ``mapInArrow``.

    ``counts`` is used for copybook files: the tasks add to it the number of values to which each
    policy option, such as ``padding=left``, was applied.
    """
    check_session(spark)
    # The reader is planned in this process, so relative paths start at its working folder, over
    # Spark Connect too.
    source: Any = kind({"paths": addresses_of(path), **options})
    schema = source.schema()
    reader = source.reader(schema)
    zone = str(spark.conf.get("spark.sql.session.timeZone"))

    def rows(_: int, part: Any) -> Iterator[pa.RecordBatch]:
        found = reader.rows(part) if counts is None else reader.counted_rows(part, counts)
        return cast_batches(found, schema, zone)

    return map_parts(spark, [part.value for part in reader.partitions()], rows, schema)
