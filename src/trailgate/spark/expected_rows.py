"""Batches as Spark expects them: exactly its schema, names and types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def arrow_schema(schema: StructType, zone: str = "UTC") -> Any:
    """Return a schema of Spark as Arrow's.

    PySpark 4.1 expects all timestamps in UTC. Later releases expect the session's zone where rows pass through a DataFrame.
    """
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone=zone)
    return to_arrow_schema(schema)


def as_expected(
    batches: Iterable[pa.RecordBatch], schema: StructType, zone: str = "UTC"
) -> Iterator[pa.RecordBatch]:
    """Yield batches, whose columns are those of a schema in its order, with its names and types."""
    exact = arrow_schema(schema, zone)
    for batch in batches:
        yield batch.rename_columns(exact.names).cast(exact)
