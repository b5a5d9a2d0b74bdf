"""Delta tables that the Spark session merges into, for tables that are too large for the driver's process.

Folders, the application transaction and its version are the same as in ``apply/targets/delta.py``,
so a run with either library continues what the other one applied. delta-rs reads the log, creates
tables, adds columns, overwrites and appends. Changes by key are one MERGE of the session; Delta
skips it if its version is committed already.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.spark.merge import ERRORS, merge, quote_name
from trailgate.apply.targets.delta import DeltaTarget
from trailgate.apply.targets.delta_checks import ROW, RowRule
from trailgate.apply.targets.delta_errors import match_known_refusal
from trailgate.apply.targets.delta_properties import has_rounded_statistics
from trailgate.apply.targets.faults import build_concurrent_run_error, build_conflict_error
from trailgate.apply.targets.target import AppliedPosition, RowRefusedError
from trailgate.arrays import Longs
from trailgate.errors import ApplyError, TrailgateError, Where
from trailgate.spark.errors import find_cause_line
from trailgate.spark.schemas import frame_of_table
from trailgate.spark.sessions import temporary_settings
from trailgate.storage.files.addresses import absolute

APPLICATION: Final = "spark.databricks.delta.write.txnAppId"
VERSION: Final = "spark.databricks.delta.write.txnVersion"
GENERATION: Final = "delta.generationExpression"
METADATA: Final = "spark.databricks.delta.commitInfo.userMetadata"
NO_DELTA: Final = (
    "Start the session with spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0 (for its version of Spark), "
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog; "
    "without merge='session' it needs none of these"
)


class SessionDeltaTarget(DeltaTarget):
    """The target of Delta tables that a Spark session merges into (``merge="session"``).

    The tables are below a folder whose address is valid both for this process and for the session.
    """

    def __init__(self, root: str, group: str, spark: SparkSession) -> None:
        super().__init__(root, group)
        self._spark = spark

    def _find_rule_breaks(
        self, table: TargetTable, rows: pa.Table, rules: Sequence[RowRule]
    ) -> Iterable[tuple[Longs, RowRefusedError]]:
        """Return for each rule the indexes of the rows that break it, and the error. The session evaluates the rules, as its MERGE does."""
        delta = self._open_existing(table)
        generated = {
            field.name: str(field.metadata[GENERATION])
            for field in delta.schema().fields
            if GENERATION in field.metadata
        }
        return find_rule_breaks(self._spark, rows, generated, rules)

    def _merge(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Merge changes by key into a Delta table with one statement of the session, which also commits the position."""
        path, (application, version) = self._path(effects.nets.table), self._transaction(at)
        settings = {
            APPLICATION: application,
            VERSION: str(version),
            METADATA: json.dumps(self._metadata(at)),
        }
        target = f"delta.{quote_name(str(absolute(path)))}"
        try:
            with temporary_settings(self._spark, settings):
                done = merge(self._spark, target, effects, _has_exact_statistics)
        except ERRORS as error:
            raise _refusal(error, path) from None
        # Delta skips the MERGE if the transaction's version is committed, and returns no counts.
        if not done:
            raise build_concurrent_run_error(self._group, path)


def open_tables(address: str, group: str, spark: SparkSession) -> SessionDeltaTarget:
    """Open a folder of Delta tables for a group, to be written by a Spark session."""
    return SessionDeltaTarget(address, group, spark)


def find_rule_breaks(
    spark: SparkSession, rows: pa.Table, generated: Mapping[str, str], rules: Sequence[RowRule]
) -> Iterator[tuple[Longs, RowRefusedError]]:
    """Yield the indexes of the rows that break a rule of a Delta table, with the error, for each rule.

    ``generated`` has the expressions of generated columns. A rule that the session cannot evaluate
    for these rows is left to its MERGE.
    """
    frame = frame_of_table(spark, rows.append_column(ROW, pa.array(np.arange(rows.num_rows))))
    for name, expression in generated.items():
        frame = frame.withColumn(name, expr(expression))
    for rule in rules:
        try:
            broken = frame.where(f"NOT coalesce(({rule.condition}\n), false)").select(ROW).toArrow()
        except ERRORS:
            continue
        yield np.sort(broken[ROW].to_numpy()), rule.error


def _has_exact_statistics(data_type: pa.DataType) -> bool:
    """Return whether a Delta column's statistics are exact, even if delta-rs wrote them."""
    return not has_rounded_statistics(data_type)


def _refusal(error: Exception, path: str) -> TrailgateError:
    """Build the error for a MERGE into a Delta table that fails in Spark."""
    text = str(error)
    if "[DELTA_CONCURRENT" in text:
        return build_conflict_error(find_cause_line(error), path)
    known = match_known_refusal(text, path)
    if known is not None:
        return known
    problem = f"the session cannot merge into the Delta table: {find_cause_line(error)}"
    return ApplyError(problem, where=Where(source=path), hint="" if "[DELTA_" in text else NO_DELTA)
