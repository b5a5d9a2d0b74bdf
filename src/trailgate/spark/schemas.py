"""Convert schemas, tables and batches between Arrow and Spark, with exactly the schema that Spark expects.

``cast_batches`` converts batches to the names and types that Spark expects, and reports the first
value that does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import ArrayType, StructField, StructType

from trailgate.errors import DecodeError, Where
from trailgate.model.positions import short_position

POSITIONS: Final = ("_position", "position")  # columns with the position of a row in a trail


def spark_schema(schema: pa.Schema) -> StructType:
    """Convert an Arrow schema to Spark, with the metadata of its fields.

    Times without a zone stay without one. Spark shows a ``comment`` in the metadata when it
    describes a table.
    """
    return _with_metadata(from_arrow_schema(schema, prefer_timestamp_ntz=True), schema)


def _with_metadata(struct: StructType, fields: Iterable[pa.Field]) -> StructType:
    return StructType(
        [
            StructField(
                spark_field.name,
                _type_with_metadata(spark_field.dataType, field.type),
                spark_field.nullable,
                {name.decode(): value.decode() for name, value in (field.metadata or {}).items()},
            )
            for spark_field, field in zip(struct.fields, fields, strict=True)
        ]
    )


def _type_with_metadata(own: Any, kind: pa.DataType) -> Any:
    if isinstance(own, StructType):
        return _with_metadata(own, kind)
    if isinstance(own, ArrayType):
        return ArrayType(_type_with_metadata(own.elementType, kind.value_type), own.containsNull)
    return own


def arrow_schema(schema: StructType, zone: str = "UTC") -> Any:
    """Convert a Spark schema to Arrow.

    PySpark 4.1 expects all timestamps in UTC. Later releases expect the session's time zone if rows
    pass through a DataFrame.
    """
    if "timezone" in signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone=zone)
    return to_arrow_schema(schema)


def cast_batches(
    batches: Iterable[pa.RecordBatch], schema: StructType, zone: str = "UTC"
) -> Iterator[pa.RecordBatch]:
    """Convert Arrow batches to the column names and types of Spark's schema.

    The columns must already be in the order of the schema. Raises DecodeError for a value that does
    not fit.
    """
    exact = arrow_schema(schema, zone)
    for batch in batches:
        named = batch.rename_columns(exact.names)
        try:
            yield named.cast(exact)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise _unfit(named, exact) from None


def _unfit(batch: pa.RecordBatch, schema: pa.Schema) -> DecodeError:
    """Build the error for the first value of a batch that cannot be converted to its type in Spark's schema."""
    # Cast the values one by one to find the first that fails. This runs only to report an error.
    at, row = next(
        (at, row)
        for at, field in enumerate(schema)
        for row in range(len(batch))
        if not _fits(batch.column(at).slice(row, 1), field.type)
    )
    field, column = schema.field(at), batch.column(at)
    place = next((batch[name] for name in POSITIONS if name in batch.schema.names), None)
    source = None if place is None else f"position {short_position(place[row].as_py())}"
    problem = (
        f"{field.name} is {column.type}, but {column[row].as_py()!r} cannot be read as {field.type}"
    )
    hint = f"Read it as {from_arrow_type(column.type).simpleString()}, and cast it in Spark"
    return DecodeError(problem, where=Where(source=source, field=field.name), hint=hint)


def _fits(value: pa.Array, kind: pa.DataType) -> bool:
    try:
        value.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def frame_of_table(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Create a Spark DataFrame of the rows and the schema of an Arrow table."""
    return spark.createDataFrame(rows, spark_schema(rows.schema))
