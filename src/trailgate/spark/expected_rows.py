"""Batches as Spark expects them: exactly its schema, names and types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def as_expected(
    batches: Iterable[pa.RecordBatch], schema: StructType, zone: str = "UTC"
) -> Iterator[pa.RecordBatch]:
    """Yield batches, whose columns are those of a schema in its order, with its names and types."""
    exact: Any = to_arrow_schema(schema, timezone=zone)
    for batch in batches:
        yield batch.rename_columns(exact.names).cast(exact)
