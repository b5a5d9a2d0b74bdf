"""DataFrames of rows that Spark tasks produce by ``mapInArrow``, without a data source.

``read_trail``, ``read_messages`` and ``read_records`` read one of our formats so (``frame_of``). The
rows are the same as those of the Spark format, but Spark plans one projection less for them;
docs/spark.md explains which to choose. Only the DataFrame API is used, so this also works with
Spark Connect.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.errors import OptionError
from trailgate.spark.errors import brief_rows
from trailgate.spark.schemas import cast_batches
from trailgate.spark.sessions import check_session
from trailgate.spark.sources import SparkSource
from trailgate.storage.files.addresses import Addresses, addresses_of

Part = TypeVar("Part")


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

    return rows_of_tasks(spark, [part.value for part in reader.partitions()], rows, schema)


def rows_of_tasks(
    spark: SparkSession,
    parts: Sequence[Part],
    rows: Callable[[int, Part], Iterable[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Return a DataFrame of the rows that Spark tasks produce, one task for each part, without a format.

    A task calls ``rows`` with the number of its part and the part. It unpickles only its own part.
    """
    packed = [pickle.dumps(part) for part in parts]

    @brief_rows
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from rows(number, pickle.loads(packed[number]))  # noqa: S301  our own parts

    # one partition, and so one task, for each number
    numbers = spark.range(0, len(parts), 1, max(1, len(parts)))
    return numbers.mapInArrow(run, schema)


def check_frame(frame: Any) -> Any:
    """Check that an argument is a DataFrame, possibly of Spark Connect, and return it.

    Raises OptionError.
    """
    if isinstance(frame, type) or not (hasattr(frame, "mapInArrow") and hasattr(frame, "schema")):
        raise OptionError(f"frame must be a DataFrame of Spark, not {type(frame).__name__}")
    return frame
