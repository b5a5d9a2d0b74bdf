"""Tables in an Iceberg catalog of the session, which reads and writes them in its tasks.

``iceberg:CATALOG`` has the table HR.JOBS as ``CATALOG.hr.jobs``, and ``iceberg:CATALOG.NAMESPACE``
as ``CATALOG.NAMESPACE.hr.jobs``. The position of a table is a property of the snapshot that
contains its rows. The position of all tables together is a row of the table ``_trailgate.GROUP``,
which is written after the tables of a batch are committed, as in ``apply/targets/delta.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from trailgate.apply.effects.nets import RowEffect, build_complete_rows
from trailgate.apply.effects.table_changes import ClosingUpdate, TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.spark.merge import ERRORS, join_condition, merge, quote_name, stage_rows
from trailgate.apply.targets import sql
from trailgate.apply.targets.checkpoints import (
    ICEBERG_POSITION,
    LAKE_STATE,
    AppliedTables,
    RestoredState,
    decode_lake_checkpoint,
    encode_lake_checkpoint,
    iceberg_group_name,
)
from trailgate.apply.targets.faults import build_concurrent_run_error, build_conflict_error
from trailgate.apply.targets.iceberg_history import IcebergHistory, IcebergSnapshot
from trailgate.apply.targets.target import AppliedPosition, TablePosition
from trailgate.errors import ApplyError, DefinitionError, Where
from trailgate.spark.errors import find_cause_line
from trailgate.spark.schemas import arrow_schema, frame_of_table, spark_schema
from trailgate.spark.sessions import temporary_settings

SETTING: Final = "spark.sql.iceberg.snapshot-property."
CONFLICTS: Final = ("CommitFailedException", "Found conflicting files", "Found new conflicting")
NO_ICEBERG: Final = (
    "Start the session with spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0 (for its version of Spark), "
    "and configure the catalog with spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog and its type and warehouse"
)


class _Commits(NamedTuple):
    """The ID of an Iceberg table's current snapshot, or None, and what its snapshots tell about the group's commits."""

    version: int | None
    history: IcebergHistory

    @property
    def position(self) -> str | None:
        """The group's position in the current snapshot and its ancestors."""
        return self.history.position


class SessionIcebergTarget:
    """The target of Iceberg tables in a Spark session's catalog, or in a namespace of it."""

    widens = True
    folds_names = False
    commits_alone = True

    def __init__(self, address: str, group: str, spark: SparkSession) -> None:
        self._group = iceberg_group_name(group)
        self._spark, self._root = spark, tuple(address.split("."))
        self._property = ICEBERG_POSITION.format(self._group)
        with _refusing(address):
            # Raises now if the session has no such catalog.
            spark.sql(f"SHOW NAMESPACES IN {quote_name(self._root[0])}").collect()
        self._checkpoint = self._checkpoint_row()
        self._applied = AppliedTables([self._checkpoint] if self._checkpoint else [])

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return a table's position from the properties of its snapshots, read through the session.

        If ``table`` is None, or does not exist any more, return the position of all tables, from the
        checkpoint table.
        """
        row = self._checkpoint
        whole = None if row is None else decode_lake_checkpoint(row)
        if table is None:
            return whole
        name = self._name(table.name)
        with _refusing(name):
            if not self._exists(name):
                return whole if table in self._applied else None
        last = self._read_commits(name).position
        if last is None:
            return None
        # The checkpoint lacks this table, or columns of it, if a run was killed after the table's commit.
        self._applied.set_at_least(table, last)
        return AppliedPosition("", last)

    def _read_commits(self, name: str) -> _Commits:
        """Read the positions in the snapshots of an Iceberg table."""
        with _refusing(name):
            rows = self._spark.sql(
                f"SELECT s.snapshot_id, s.parent_id, s.summary['{self._property}'] AS position, r.name IS NOT NULL AS is_current "
                f"FROM {name}.snapshots AS s LEFT JOIN {name}.refs AS r ON r.name = 'main' AND r.snapshot_id = s.snapshot_id"
            ).collect()
        version = next((row["snapshot_id"] for row in rows if row["is_current"]), None)
        snapshots = {
            row["snapshot_id"]: IcebergSnapshot(row["parent_id"], row["position"]) for row in rows
        }
        return _Commits(version, IcebergHistory.read(version, snapshots))

    def _check_rows(self, table: TargetTable, commits: _Commits) -> None:
        """Raise StorageError if the Iceberg table was rolled back to a snapshot before the group's last one."""
        restored = self._find_restored(table.name, commits)
        if restored is not None:
            raise restored.build_error(table)

    def _find_restored(self, name: Sequence[str], commits: _Commits) -> RestoredState | None:
        return commits.history.find_restored("", self._applied.position(name))

    def _checkpoint_row(self) -> dict[str, Any] | None:
        name = self._name((LAKE_STATE, self._group))
        with _refusing(name):
            if not self._exists(name):
                return None
            (row,) = self._spark.table(name).collect()
        values: dict[str, Any] = row.asDict()
        return values

    def _exists(self, name: str) -> bool:
        """Return whether an Iceberg table exists in the session's catalog.

        Clears what the session has cached about the table, because another process may have written
        it.
        """
        exists: bool = self._spark.catalog.tableExists(name)
        if exists:
            self._spark.catalog.refreshTable(name)
        return exists

    def positions(self) -> list[TablePosition]:
        """Return the position and current snapshot of each Iceberg table that the group has written."""
        applied = []
        for path in self._applied.paths():
            name = self._name(path.split("/"))
            with _refusing(name):
                exists = self._exists(name)
            found = self._read_commits(name) if exists else None
            if found is not None and found.position is not None:
                shown = path.replace("/", ".")
                restored = self._find_restored(path.split("/"), found)
                notice = None if restored is None else restored.describe(shown)
                at = TablePosition(shown, found.position, found.version, notice=notice)
                applied.append(at)
        return applied

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as the session's catalog defines it, or None if it does not exist."""
        name = self._name(table.name)
        with _refusing(name):
            if not self._spark.catalog.tableExists(name):
                return None
            existing = table.as_defined(table.name, arrow_schema(self._spark.table(name).schema))
        try:
            self._applied.check_columns(table, existing)
        except DefinitionError:
            # A column that was added later is missing in a restored table too.
            self._check_rows(table, self._read_commits(name))
            raise
        return existing

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return the table unchanged, because Iceberg can represent all of its types."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create an Iceberg table, and its namespace, with the session's SQL."""
        name = self._name(table.name)
        with _refusing(name):
            self._create_namespace(table.name[:-1])
            self._spark.sql(
                f"CREATE TABLE {name} ({_columns(table.schema)}) USING iceberg"
            ).collect()

    def _create_namespace(self, parts: Sequence[str]) -> None:
        # Parents first: CREATE NAMESPACE does not create them.
        for end in range(1, len(parts) + 1):
            namespace = self._name(parts[:end])
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}").collect()

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns to an Iceberg table with the session's ALTER TABLE. Existing rows have NULL."""
        added = pa.schema([table.schema.field(name) for name in names])
        self._alter(table, f"ADD COLUMNS ({_columns(added)})")

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Widen integer columns of an Iceberg table to ``bigint`` with the session's ALTER TABLE."""
        for name in names:
            self._alter(table, f"ALTER COLUMN {quote_name(name)} TYPE bigint")

    def _alter(self, table: TargetTable, change: str) -> None:
        name = self._name(table.name)
        with _refusing(name):
            self._spark.sql(f"ALTER TABLE {name} {change}").collect()

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Look up rows by key with the session's SQL, which reads them in its tasks."""
        names = list(table.key_names) if keys_alone else [one.name for one in table.columns]
        wanted = ", ".join(f"t.{quote_name(one)}" for one in names)
        key_values = [keys[one].combine_chunks() for one in table.key_names]
        name = self._name(table.name)
        with _refusing(name), stage_rows(self._spark, sql.rename_key_columns(table, keys)) as view:
            result = self._spark.sql(
                f"SELECT {wanted} FROM {name} AS t JOIN {view} AS s ON {join_condition(table, key_values)}"
            ).toArrow()
        return result.cast(pa.schema([table.schema.field(one) for one in names]))

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Read all rows of an Iceberg table through the session, as Arrow."""
        name = self._name(table.name)
        with _refusing(name):
            return self._spark.table(name).toArrow().to_reader()

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write the changes of one Iceberg table in one snapshot that also has the position.

        Raises TargetConflictError if another run has applied the same operations.
        """
        table = effects.nets.table
        # The position is read from the table's snapshots, so it includes commits of other processes.
        name = self._name(table.name)
        commits = self._read_commits(name)
        if commits.position is not None and commits.position >= at.position:
            raise build_concurrent_run_error(self._group, name)
        self._check_rows(table, commits)
        # The setting adds the position to the properties of the snapshot that the write commits.
        with (
            _refusing(name),
            temporary_settings(self._spark, {SETTING + self._property: at.position}),
        ):
            self._write(name, effects)
        # The position of before: a statement that finds no row commits no snapshot.
        self._applied.set(table, commits.position)

    def _write(self, name: str, effects: TableChanges) -> None:
        """Write changes to an Iceberg table with the cheapest statement of the session: overwrite, append, UPDATE or MERGE."""
        nets = effects.nets
        # No row has to be found by its key: append, or replace all rows.
        if effects.emptied or effects.appended:
            inserted = build_complete_rows(nets.where(nets.effect != RowEffect.DELETE))
            rows = frame_of_table(self._spark, inserted).writeTo(name)
            if effects.emptied:
                rows.overwrite(lit(True))
            else:
                rows.append()
        elif effects.closing is not None:
            self._spark.sql(_closing(name, effects.closing)).collect()
        elif len(nets):
            merge(self._spark, name, effects)

    def commit(self, at: AppliedPosition) -> None:
        """Record through the session, in the checkpoint table, that all Iceberg tables are applied up to the position."""
        row = encode_lake_checkpoint(at, self._applied, pa.int64())
        name = self._name((LAKE_STATE, self._group))
        with _refusing(name):
            self._create_namespace((LAKE_STATE,))
            frame_of_table(self._spark, row).writeTo(name).using("iceberg").createOrReplace()

    def rollback(self) -> None:
        """Do nothing: written Iceberg tables are committed, and are skipped when the batch is applied again."""

    def release(self) -> None:
        """Do nothing: the session keeps no Iceberg table open between batches."""

    def close(self) -> None:
        """Do nothing: the caller owns the session."""

    def _name(self, parts: Sequence[str]) -> str:
        return quote_name(*self._root, *parts)


def open_tables(address: str, group: str, spark: SparkSession) -> SessionIcebergTarget:
    """Open the tables of an Iceberg catalog for a group, to be written by a Spark session."""
    return SessionIcebergTarget(address, group, spark)


def _columns(schema: pa.Schema) -> str:
    """Format the columns of an Iceberg table for CREATE TABLE in Spark's SQL."""
    return ", ".join(
        f"{quote_name(field.name)} {field.dataType.simpleString()}"
        for field in spark_schema(schema)
    )


def _closing(name: str, closing: ClosingUpdate) -> str:
    """Build the UPDATE in Spark's SQL for a ``ClosingUpdate``, such as ending all current row versions."""
    values = ", ".join(
        f"{quote_name(column)} = CAST('{one.as_py()}' AS {_type(one.type)})"
        for column, one in closing.values.items()
    )
    # IS NOT TRUE is also true for NULL.
    is_open = f"{quote_name(closing.column)} IS {'TRUE' if closing.when else 'NOT TRUE'}"
    return f"UPDATE {name} SET {values} WHERE {is_open}"


def _type(data_type: pa.DataType) -> str:
    return str(spark_schema(pa.schema([("c", data_type)]))[0].dataType.simpleString())


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Context manager: convert errors of Spark about an Iceberg table or catalog to ours."""
    try:
        yield
    except ERRORS as error:
        line = find_cause_line(error)
        if any(one in str(error) for one in CONFLICTS):
            raise build_conflict_error(line, name) from None
        problem = f"the session refuses: {line}"
        raise ApplyError(problem, where=Where(source=name), hint=NO_ICEBERG) from None
