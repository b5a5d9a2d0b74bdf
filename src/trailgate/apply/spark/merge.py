"""Build and run the MERGE with which a Spark session writes changes by key, for all table formats.

Changes are staged as a temporary view of a DataFrame of Arrow columns, which also works over Spark
Connect. A staged row has the key and values ``c0``, ``c1`` ..., the flags ``m0``, ``m1`` ... of
values to keep, and the effect ``e`` (delete, patch or insert).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets import sql
from trailgate.apply.targets.lake_keys import find_key_range
from trailgate.spark.schemas import frame_of_table

try:
    from py4j.protocol import Py4JError
except ImportError:  # only the client of Spark Connect is installed
    Py4JError = PySparkException

ERRORS: Final = (PySparkException, Py4JError)
IsRanged = Callable[[pa.DataType], bool]


def quote_name(*parts: str) -> str:
    """Quote the parts of a name for Spark's SQL, as in `hr`.`jobs`."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def merge(
    spark: SparkSession, target: str, effects: TableChanges, is_ranged: IsRanged = lambda _: True
) -> list[Row]:
    """Merge changes by key into a Delta or Iceberg table with a Spark session, and return Spark's counts (no rows if it skips the statement).

    Spark skips files by the range of the keys. This is used for the types for which ``is_ranged``
    returns true, because their statistics are exact.
    """
    with stage_rows(spark, sql.build_staging_rows(effects)) as rows:
        counts: list[Row] = spark.sql(merge_statement(effects, target, rows, is_ranged)).collect()
    return counts


@contextmanager
def stage_rows(spark: SparkSession, rows: pa.Table) -> Iterator[str]:
    """Context manager: create a temporary view of a Spark session with these rows, and yield its name."""
    name = f"trailgate_{uuid4().hex}"
    frame_of_table(spark, rows).createOrReplaceTempView(name)
    try:
        yield name
    finally:
        spark.catalog.dropTempView(name)


def merge_statement(
    effects: TableChanges, target: str, rows: str, is_ranged: IsRanged = lambda _: True
) -> str:
    """Build the MERGE of staged rows into a table, in Spark's SQL."""
    clauses = sql.build_merge_clauses(effects, quote_name, resets=True)
    values = ", ".join(f"{name} = {value}" for name, value in clauses.updated.items())
    names, inserted = ", ".join(clauses.inserted), ", ".join(clauses.inserted.values())
    # t is the table, s the staged rows
    condition = join_condition(effects.nets.table, effects.nets.key, is_ranged)
    is_deleted, is_patched, is_inserted = map(
        sql.staged_effect, (RowEffect.DELETE, RowEffect.PATCH, RowEffect.INSERT)
    )
    parts = [
        f"MERGE INTO {target} AS t USING {rows} AS s ON {condition}",
        f"WHEN MATCHED AND {is_deleted} THEN DELETE",
        f"WHEN MATCHED AND {is_patched} THEN UPDATE SET {values}" if values else "",
        f"WHEN NOT MATCHED AND {is_inserted} THEN INSERT ({names}) VALUES ({inserted})",
    ]
    return " ".join(filter(None, parts))


def join_condition(
    table: TargetTable, key: Sequence[pa.Array], is_ranged: IsRanged = lambda _: True
) -> str:
    """Build the join condition of Spark's MERGE: equal keys, and the range of all keys, with which Spark skips files."""
    conditions = [sql.build_key_match(table, quote=quote_name)]
    for at, values in zip(table.key, key, strict=True):
        # Text may be compared by a collation, which its bounds do not follow.
        found = None if pa.types.is_string(values.type) else find_key_range(values)
        if found is not None and is_ranged(values.type):
            low, high = map(_literal, found)
            conditions.append(f"t.{quote_name(table.columns[at].name)} BETWEEN {low} AND {high}")
    return " AND ".join(conditions)


def _literal(value: pa.Scalar) -> str:
    plain = value.as_py()
    if pa.types.is_date(value.type):
        return f"DATE '{plain}'"
    return f"{plain:f}" if pa.types.is_decimal(value.type) else str(plain)
