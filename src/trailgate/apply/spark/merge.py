"""The MERGE of a session of Spark: effects by key as its statement over staged rows, for every table format that has one.

Staged rows are a DataFrame of Arrow's columns, so a session over Spark Connect will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from trailgate.apply.effects.batch import Effects
from trailgate.apply.effects.nets import Effect
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets import sql
from trailgate.spark.sources import spark_schema

try:
    from py4j.protocol import Py4JError
except ImportError:  # the client of Spark Connect alone
    Py4JError = PySparkException

CAUSE: Final = "Caused by: "
ERRORS: Final = (PySparkException, Py4JError)
IsRanged = Callable[[pa.DataType], bool]
RANGED: Final = (pa.types.is_integer, pa.types.is_decimal, pa.types.is_date)


def line_of(error: Exception) -> str:
    """Return the line of an error of Spark's that states its cause, else the first one."""
    java = getattr(error, "java_exception", None)
    lines = (str(error) if java is None else str(java.toString())).splitlines()
    causes = [line for line in str(error).splitlines() if line.startswith(CAUSE)]
    found = [line.removeprefix(CAUSE).strip() for line in (*causes[-1:], *lines) if line.strip()]
    return found[0] if found else type(error).__name__


def quoted(*parts: str) -> str:
    """Return a name of parts as Spark's SQL has it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def merge(
    spark: SparkSession, target: str, effects: Effects, is_ranged: IsRanged = lambda _: True
) -> list[Row]:
    """Merge effects by key into a table; return what Spark states was changed, nothing where it leaves the statement out.

    Files are skipped by the range of keys whose type ``is_ranged``: their statistics are exact.
    """
    with staged(spark, sql.staging_rows(effects)) as rows:
        found: list[Row] = spark.sql(statement(effects, target, rows, is_ranged)).collect()
    return found


@contextmanager
def staged(spark: SparkSession, rows: pa.Table) -> Iterator[str]:
    """Give the name of a view that has rows."""
    name = f"trailgate_{uuid4().hex}"
    frame_of(spark, rows).createOrReplaceTempView(name)
    try:
        yield name
    finally:
        spark.catalog.dropTempView(name)


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return rows as a DataFrame."""
    return spark.createDataFrame(rows, spark_schema(rows.schema))


def statement(
    effects: Effects, target: str, rows: str, is_ranged: IsRanged = lambda _: True
) -> str:
    """Return the MERGE of staging rows into a table."""
    table, key = effects.nets.table, effects.nets.key
    # Without a value a column that the source lacks gets its default, and a computed one is computed.
    written = {
        at: quoted(column.name)
        for at, column in enumerate(table.columns)
        if not column.computed and not (column.extra and effects.nets.values[at].values is None)
    }
    values = ", ".join(
        f"{name} = CASE WHEN s.m{at} THEN t.{name} ELSE s.c{at} END"
        for at, name in written.items()
        if at not in table.key
    )
    inserted = ", ".join(f"s.c{at}" for at in written)
    parts = [
        f"MERGE INTO {target} AS t USING {rows} AS s ON {match(table, key, is_ranged)}",
        f"WHEN MATCHED AND s.e = {Effect.DELETE:d} THEN DELETE",
        f"WHEN MATCHED AND s.e = {Effect.PATCH:d} THEN UPDATE SET {values}" if values else "",
        f"WHEN NOT MATCHED AND s.e = {Effect.INSERT:d} THEN INSERT ({', '.join(written.values())}) VALUES ({inserted})",
    ]
    return " ".join(filter(None, parts))


def match(table: TargetTable, key: Sequence[pa.Array], is_ranged: IsRanged = lambda _: True) -> str:
    """Return the condition that a row has the key of a staged one, and one within the bounds of all keys: files without such rows are not read."""
    equal = "IS NOT DISTINCT FROM" if table.keyless else "="
    found = [f"(t.{quoted(table.columns[at].name)} {equal} s.c{at})" for at in table.key]
    for at, values in zip(table.key, key, strict=True):
        ranged = any(fits(values.type) for fits in RANGED) and is_ranged(values.type)
        if len(values) and not values.null_count and ranged:
            bounds = pc.min_max(values)
            low, high = (_literal(bounds[one]) for one in ("min", "max"))
            found.append(f"t.{quoted(table.columns[at].name)} BETWEEN {low} AND {high}")
    return " AND ".join(found)


def _literal(value: pa.Scalar) -> str:
    found = value.as_py()
    if pa.types.is_date(value.type):
        return f"DATE '{found}'"
    return f"{found:f}" if pa.types.is_decimal(value.type) else str(found)


@contextmanager
def settings_of(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Give a session settings while a statement runs, and then those that it had."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, earlier in before.items():
            if earlier is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, earlier)
