"""Write the tables of a DuckDB file. All tables of a batch, and the position, are one transaction.

Changes are registered as the staging table ``trailgate_staging``, which DuckDB reads in place from
Arrow memory. Updated rows are completed in a temporary table, deleted and inserted again, because
that is faster in DuckDB than updating columns. DuckDB locks the file for one process, so it is
closed between batches (``release``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb
import pyarrow as pa

from trailgate.apply.effects.operation_errors import CHECK, DUPLICATE, FOREIGN_KEY, NULL
from trailgate.apply.effects.stored_types import DatabaseColumnType, StorageRule
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.targets import database_checks, sql
from trailgate.apply.targets.checkpoints import (
    STATUS,
    check_known_columns,
    encode_known_columns,
    parse_group_positions,
)
from trailgate.apply.targets.faults import DISK, FaultSign, build_concurrent_run_error, find_fault
from trailgate.apply.targets.target import (
    AppliedPosition,
    GroupPosition,
    RowRefusedError,
    TablePosition,
)
from trailgate.errors import (
    ApplyError,
    OptionError,
    StorageError,
    TargetConflictError,
    TargetLockedError,
    TrailgateError,
    Where,
    WriteError,
)

STAGING: Final = "trailgate_staging"
WHOLE: Final = "trailgate_whole_rows"
DATABASE: Final = "trailgate_target"
EVERY: Final = ""  # the target of the row with the position of all tables
SIGNS: Final = (
    FaultSign(duckdb.IOException, "could not set lock", TargetLockedError),
    FaultSign(duckdb.TransactionException, "conflict", TargetConflictError),
    *DISK,
    FaultSign(duckdb.IOException, "permission denied", WriteError),
)
# DuckDB's text about a locked file: ... Conflicting lock is held in /usr/bin/python3 (PID 4711)
HOLDER: Final = re.compile(r"held in (.*) \(PID (\d+)\)")
CREATE_HINT: Final = "DuckDB reserves some schemas, such as temp and information_schema. MAP the table to another schema in a parameter file (--params)"
LOCKED: Final = (
    "Only one process can open a DuckDB file. A run that follows a trail closes it between batches"
)
REFUSALS: Final = (
    ("Duplicate key", DUPLICATE),
    ("NOT NULL constraint failed", NULL),
    ("CHECK constraint failed", CHECK),
    ("Violates foreign key constraint", FOREIGN_KEY),
)
# Of the errors of class InvalidInputException, only those with this text are about a value.
CONVERTED: Final = "Could not convert"
_AS_TEXT: Final = frozenset(
    {StorageRule.INTEGER, StorageRule.PRINTED, StorageRule.PRINTED_KEY, StorageRule.UUID}
)
DUCKDB: Final = sql.StagingDialect(
    staged=_AS_TEXT, read=_AS_TEXT, printed="CAST({} AS VARCHAR)", cast="TRY_CAST"
)
# DuckDB types that Arrow has too. All other types are read as text.
ARROW_TYPES: Final = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN|DATE|TIMESTAMP(_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE|BLOB|VARCHAR"
)
# By DuckDB's name of a type.
RULES_OF_TYPES: Final = MappingProxyType(
    {
        **dict.fromkeys(("HUGEINT", "UHUGEINT", "BIGNUM", "VARINT"), StorageRule.INTEGER),
        **dict.fromkeys(("TIME", "TIME_NS", "BIT", "JSON"), StorageRule.PRINTED_KEY),
        "UUID": StorageRule.UUID,
    }
)


class DuckDBTarget:
    """The target of tables in a DuckDB file."""

    widens = True
    folds_names = True
    commits_alone = False

    def __init__(self, path: str, group: str) -> None:
        check_place(path)
        self._path, self._group = path, group
        self._attached: duckdb.DuckDBPyConnection | None = None
        self._open = self._known = False
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {sql.CHECKPOINT} (grp VARCHAR, target VARCHAR, trail VARCHAR, "
            "position VARCHAR, csn VARCHAR, op_ts BIGINT, digest VARCHAR, reached VARCHAR, known_columns VARCHAR, PRIMARY KEY (grp, target))"
        )
        for name in sql.ADDED_COLUMNS:
            self._execute(f"ALTER TABLE {sql.CHECKPOINT} ADD COLUMN IF NOT EXISTS {name} VARCHAR")
        self._at, self._known = self.position(None), True

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The open connection. Opens the file again after ``release``, and raises TargetConflictError if another run of this group has written to it meanwhile."""
        if self._attached is None:
            self._attached = _attach(self._path)
            if self._known and self.position(None) != self._at:
                raise build_concurrent_run_error(self._group, self._path)
        return self._attached

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return a table's position from the checkpoint table in the DuckDB file.

        If ``table`` is None, return the position of all tables.
        """
        names = ", ".join(sql.POSITION_COLUMNS)
        text = f"SELECT {names} FROM {sql.CHECKPOINT} WHERE grp = ? AND target = ?"
        rows = self._execute(text, [self._group, _name(table)])
        return AppliedPosition(*rows[0]) if rows else None

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as the DuckDB file defines it, or None if it does not exist."""
        schema, name = _parts(table)
        rows = self._execute(
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = current_database() "
            "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
            [schema, name],
        )
        if not rows:
            self._check_no_view(schema, name)
            return None
        found_name, text = (rows[0][0], rows[0][1]), rows[0][2]
        empty = self._arrow(f"SELECT * FROM {sql.quote_sql_name(*found_name)} LIMIT 0").schema
        types = dict(
            self._execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database() "
                "AND schema_name = ? AND table_name = ?",
                list(found_name),
            )
        )
        computed = self._generated_columns(found_name)
        stored = {one: _stored_type(one, kind, text) for one, kind in types.items()}
        fields = [pa.field(one.name, _arrow_type(one.type, stored[one.name])) for one in empty]
        existing = table.as_defined(found_name, pa.schema(fields))
        columns = tuple(
            replace(one, stored=stored[one.name], computed=one.name in computed)
            for one in existing.columns
        )
        existing = replace(existing, columns=columns).without_computed()
        for (known,) in self._execute(
            sql.KNOWN_COLUMNS.format("?", "?"), [self._group, str(existing)]
        ):
            check_known_columns(table, existing, known)
        return database_checks.check_key_types(existing)

    def _check_no_view(self, schema: str, name: str) -> None:
        rows = self._execute(
            "SELECT view_name FROM duckdb_views() WHERE database_name = current_database() "
            "AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)",
            [schema, name],
        )
        if rows:
            raise database_checks.not_a_table_error("a view", f"{schema}.{rows[0][0]}")

    def _generated_columns(self, name: tuple[str, str]) -> frozenset[str]:
        """Return the names of a DuckDB table's generated columns."""
        rows = self._execute(
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "
            "AND table_schema = ? AND table_name = ? AND is_generated = 'ALWAYS'",
            list(name),
        )
        return frozenset(one for (one,) in rows)

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return the table unchanged, because DuckDB can represent all of its types."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table and its schema in the DuckDB file, without a primary key."""
        self._begin()
        schema, name = _parts(table)
        quoted = sql.quote_sql_name(schema, name)
        empty = table.schema.empty_table()
        self._connection.register(STAGING, empty)
        try:
            self._execute(f"CREATE SCHEMA IF NOT EXISTS {sql.quote_sql_name(schema)}", table=table)
            self._execute(f"CREATE TABLE {quoted} AS SELECT * FROM {STAGING}", table=table)
        except ApplyError as error:
            error.hint = error.hint or CREATE_HINT
            raise
        self._connection.unregister(STAGING)

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns to a DuckDB table, in the transaction of the batch. Existing rows have NULL."""
        self._begin()
        for column in table.columns:
            if column.name in names:
                kind = self._type(column)
                self._execute(
                    f"ALTER TABLE {sql.quote_sql_name(*_parts(table))} ADD COLUMN {sql.quote_sql_name(column.name)} {kind}"
                )

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Widen integer columns of a DuckDB table to BIGINT, in the transaction of the batch."""
        self._begin()
        for name in names:
            alter = f"ALTER TABLE {sql.quote_sql_name(*_parts(table))} ALTER {sql.quote_sql_name(name)} TYPE BIGINT"
            self._execute(alter, table=table)

    def _type(self, column: TargetColumn) -> str:
        """Return the DuckDB type of an Arrow column."""
        self._connection.register(STAGING, pa.schema([("c", column.type)]).empty_table())
        ((kind,),) = self._execute(f"SELECT column_type FROM (DESCRIBE {STAGING})")
        self._connection.unregister(STAGING)
        return str(kind)

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Look up rows by joining the DuckDB table with a table of the keys.

        Key columns of the result have the canonical spelling, so that they compare equal to
        ``keys``.
        """
        self._connection.register(STAGING, sql.rename_key_columns(table, keys))
        self._check_printed(table, table.key)
        result = self._arrow(DUCKDB.selection(table, STAGING, keys_alone=keys_alone))
        self._connection.unregister(STAGING)
        return database_checks.normalize_keys(table, result)

    def check_values(self, effects: TableChanges) -> None:
        """Cast values to the types of the DuckDB table.

        Raises RowRefusedError if a value would change. Writes nothing.
        """
        table = effects.nets.table
        if any(one.stored is not None and one.stored.is_printed for one in table.columns):
            self._connection.register(STAGING, sql.build_staging_rows(effects))
            self._check_printed(table, range(len(table.columns)))
            self._connection.unregister(STAGING)

    def _check_printed(self, table: TargetTable, columns: Iterable[int]) -> None:
        """Raise ValuesRefusedError if DuckDB prints a staged value differently from the trail."""
        for column, text in DUCKDB.printed_values(table, STAGING, columns):
            with database_checks.convert_value_errors(column):
                rows = self._execute(text, table=table)
            if rows:
                raise database_checks.build_refused_values_error(table, column, rows)

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Read all rows of a DuckDB table."""
        rows: pa.RecordBatchReader = (
            self._connection.cursor()
            .sql(
                f"SELECT {DUCKDB.select_list(table.columns)} FROM {DATABASE}.{sql.quote_sql_name(*_parts(table))} AS t"
            )
            .to_arrow_reader()
        )
        return rows

    def limit_memory(self, most: str, folder: str) -> None:
        """Limit the memory of DuckDB's statements, for example to "1GB".

        Larger intermediate results are stored in files in ``folder``.
        """
        quoted = folder.replace("'", "''")
        self._execute(f"SET memory_limit = '{most}'")
        self._execute(f"SET temp_directory = '{quoted}'")

    def mark_unknown(self, table: TargetTable, keys: pa.Table) -> None:
        """Store in a table of known keys (``apply/effects/known_keys.py``) that nothing is known about some keys."""
        self._connection.register(STAGING, sql.rename_key_columns(table, keys))
        name, names = (
            sql.quote_sql_name(*table.name),
            ", ".join(map(sql.quote_sql_name, table.key_names)),
        )
        same = sql.build_key_match(table)
        self._execute(f"DELETE FROM {name} AS t USING {STAGING} AS s WHERE {same}")
        self._execute(f"INSERT INTO {name} ({names}) SELECT * FROM {STAGING}")
        self._connection.unregister(STAGING)

    def compare(
        self,
        table: TargetTable,
        rows: pa.RecordBatchReader,
        names: Sequence[str],
        most: int,
        *,
        determined: bool = False,
        is_whole: bool = True,
    ) -> tuple[dict[str, int], list[tuple[Any, ...]]]:
        """Compare a table of this file, which has the expected rows, with the actual ``rows`` by key.

        The columns ``names`` are compared. Returns the number of rows of each kind, and the first
        ``most`` differing rows. The kinds are explained in ``sql.build_comparison_statements``, and
        ``determined`` and ``is_whole`` in ``sql.ComparisonScope``.
        """
        # The two statements below read the rows twice, and a reader yields them only once: copy them.
        self._connection.register(STAGING, rows)
        self._execute(f"CREATE OR REPLACE TEMP TABLE {WHOLE} AS SELECT * FROM {STAGING}")
        self._connection.unregister(STAGING)
        key = table.key_names or ("_position",)
        known = sql.ComparisonScope(key, determined, is_whole)
        counts, differing = sql.build_comparison_statements(
            sql.quote_sql_name(*table.name), WHOLE, names, known, most
        )
        return dict(self._execute(counts)), self._execute(differing)

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Stage the changes of one table, and delete and insert rows of the DuckDB table, in the transaction of the batch."""
        self._begin()
        table, rows = effects.nets.table, sql.build_staging_rows(effects, defaults=True)
        if closing := sql.build_closing_statement(effects):
            self._execute(closing, table=table)
        self._connection.register(STAGING, rows)
        self._check_printed(table, range(len(table.columns)))
        for text, expected in sql.build_replacing_statements(effects, rows, STAGING, WHOLE, DUCKDB):
            # DuckDB returns the number of changed rows as the only row of such a statement.
            ((changed,),) = self._execute(text, table=table)
            if changed != expected >= 0:
                raise database_checks.build_row_count_error(table, expected, changed)
        for column, text in DUCKDB.computed_values(table, STAGING):
            for sent, stored in self._execute(text, table=table):
                raise database_checks.build_changed_value_error(table, column, sent, stored)
        self._connection.unregister(STAGING)
        self._store_position(table, at)

    def commit(self, at: AppliedPosition) -> None:
        """Commit the transaction of the batch in the DuckDB file, together with the position."""
        self._begin()
        self._store_position(None, at)
        self._execute("COMMIT")
        self._open, self._at = False, at

    def keep_tables(self) -> None:
        """Commit tables created in the DuckDB file, without storing a position."""
        if self._open:
            self._execute("COMMIT")
            self._open = False

    def rollback(self) -> None:
        """Roll back the transaction of the batch in the DuckDB file."""
        if self._open and self._attached is not None:
            # After a disk error there may be no transaction, or no database, to roll back.
            with suppress(duckdb.Error):
                self._attached.execute("ROLLBACK")
        self._open = False

    def release(self) -> None:
        """Close the DuckDB file, so that other processes can open it until the next batch."""
        self.rollback()
        self.close()

    def positions(self) -> list[TablePosition]:
        """Return the position of each table that the group has in the DuckDB file's checkpoint table."""
        text = f"SELECT target, position FROM {sql.CHECKPOINT} WHERE grp = ? AND target <> '' ORDER BY 1"
        return [TablePosition(*row) for row in self._execute(text, [self._group])]

    def close(self) -> None:
        """Close the DuckDB file."""
        if self._attached is not None:
            self._attached.close()
        self._attached = None

    def _store_position(self, table: TargetTable | None, at: AppliedPosition) -> None:
        """Store the position of ``table`` in the checkpoint table of the DuckDB file; None stands for all tables."""
        names = ", ".join((*sql.POSITION_COLUMNS, "known_columns"))
        position = [getattr(at, name) for name in sql.POSITION_COLUMNS]
        self._execute(
            f"INSERT OR REPLACE INTO {sql.CHECKPOINT} (grp, target, {names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [self._group, _name(table), *position, encode_known_columns(table)],
        )

    def _begin(self) -> None:
        if not self._open:
            self._execute("BEGIN")
            self._open = True

    def _arrow(self, text: str) -> pa.Table:
        try:
            result: pa.Table = self._connection.sql(text).to_arrow_reader().read_all()
        except duckdb.Error as error:
            raise _refusal(error, self._path) from None
        return result

    def _execute(
        self, text: str, values: list[Any] | None = None, table: TargetTable | None = None
    ) -> list[Any]:
        """Run a statement in DuckDB and return its rows. All rows are fetched, because an unfinished result would block the next statement."""
        where = Where(source=self._path, table=None if table is None else str(table))
        try:
            rows: list[Any] = self._connection.execute(text, values).fetchall()
        # DuckDB shortens values in the text of an error, and may cut a UTF-8 character in half.
        except UnicodeDecodeError:
            problem = "DuckDB refuses a value with non-ASCII characters"
            raise RowRefusedError(problem, where=where) from None
        except duckdb.Error as error:
            raise _refusal(error, self._path, table) from None
        return rows


def check_place(path: str) -> None:
    """Raise OptionError if DuckDB cannot write to a file because it is in a store, and StorageError if its folder does not exist."""
    if "://" in path:
        hint = "Name a local file, or use delta:, which supports object stores"
        raise OptionError(f"duckdb: writes to local files, not to {path}", hint=hint)
    # DuckDB expands ~ too.
    if path and not Path(path).expanduser().absolute().parent.is_dir():
        problem = "the folder of the DuckDB file does not exist"
        raise StorageError(
            problem, where=Where(source=path), hint="Create it first, or correct the path"
        )


def open_tables(address: str, group: str) -> DuckDBTarget:
    """Open the tables of a DuckDB file for a group."""
    return DuckDBTarget(address, group)


def _attach(path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB file under a fixed database name, because the file's own name could equal one of its schemas.

    Raises StorageError, or TargetLockedError if another process has the file open.
    """
    if read_only and not Path(path).exists():
        raise StorageError("there is no such file", where=Where(source=path))
    connection = duckdb.connect()
    quoted = path.replace("'", "''")
    how = " (READ_ONLY)" if read_only else ""
    try:
        connection.execute("SET default_collation = ''").fetchall()
        connection.execute(f"ATTACH '{quoted}' AS {DATABASE}{how}").fetchall()
        connection.execute(f"USE {DATABASE}").fetchall()
    except duckdb.Error as error:
        connection.close()
        refusal = _refusal(error, path)
        if isinstance(refusal, ApplyError):
            refusal = StorageError(_line(error), where=Where(source=path))
        raise refusal from None
    return connection


def _refusal(error: duckdb.Error, path: str, table: TargetTable | None = None) -> TrailgateError:
    """Convert an error of DuckDB to ours: a fault to retry, a rejected row, or another refusal."""
    where = Where(source=path, table=None if table is None else str(table))
    fault = find_fault(error, SIGNS)
    if fault is TargetLockedError:
        holder = HOLDER.search(str(error))
        by = f": {holder[1]}, process {holder[2]}" if holder else ""
        return TargetLockedError(f"another process has the file open{by}", where=where, hint=LOCKED)
    if fault is not None:
        return fault(f"DuckDB refuses: {_line(error)}", where=where)
    of_value = isinstance(error, duckdb.InvalidInputException) and CONVERTED in str(error)
    is_of_row = of_value or isinstance(error, duckdb.IntegrityError | duckdb.DataError)
    kind = RowRefusedError if is_of_row else ApplyError
    numbers = next((oracle_numbers for text, oracle_numbers in REFUSALS if text in str(error)), ())
    return kind(f"DuckDB refuses: {_line(error)}", where=where).with_numbers(numbers)


def group_positions(path: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the tables of a DuckDB file."""
    connection = _attach(path, read_only=True)
    try:
        result = connection.execute(STATUS)
        names, rows = [column[0] for column in result.description or ()], result.fetchall()
    except duckdb.CatalogException:
        return []
    except duckdb.Error as error:
        raise _refusal(error, path) from None
    finally:
        connection.close()
    return parse_group_positions(names, rows)


def _stored_type(name: str, type_name: str, text: str) -> DatabaseColumnType | None:
    """Return a DuckDB column's type if it stores less of a value than the Arrow type, otherwise None.

    ``text`` is the CREATE TABLE statement, the only place where DuckDB shows collations.
    """
    if type_name == "VARCHAR":
        # For example, the column "name" in: CREATE TABLE t("name" VARCHAR COLLATE NOCASE)
        collated = rf'(?<![\w"])("?){re.escape(name)}\1 VARCHAR COLLATE (\w+)'
        match = re.search(collated, text)
        return (
            DatabaseColumnType(f"VARCHAR COLLATE {match[2]}", StorageRule.UNCASED)
            if match
            else None
        )
    if ARROW_TYPES.fullmatch(type_name):
        return None
    rule = StorageRule.PRINTED_KEY if type_name.startswith("ENUM") else StorageRule.PRINTED
    return DatabaseColumnType(type_name, RULES_OF_TYPES.get(type_name, rule))


def _arrow_type(data_type: pa.DataType, stored: DatabaseColumnType | None) -> pa.DataType:
    return data_type if stored is None else pa.string()


def table_rows(address: str) -> pa.RecordBatchReader:
    """Read a table of a DuckDB file, such as ``shop.duckdb/hr/jobs``.

    A table of the schema ``main`` is named without a schema.
    """
    path, mark, names = address.partition(".duckdb/")
    name = sql.quote_sql_name(*names.split("/"))
    connection = _attach(f"{path}{mark.rstrip('/')}", read_only=True)
    try:
        rows: pa.RecordBatchReader = connection.sql(f"SELECT * FROM {name}").to_arrow_reader()
    except duckdb.Error as error:
        connection.close()
        raise StorageError(_line(error), where=Where(source=address)) from None
    return rows


def _parts(table: TargetTable) -> tuple[str, str]:
    return database_checks.schema_and_name(table, "main", "DuckDB")


def _name(table: TargetTable | None) -> str:
    return EVERY if table is None else str(table)


def _line(error: Exception) -> str:
    return " ".join(str(error).partition("\n")[0].split())
