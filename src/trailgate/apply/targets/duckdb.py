"""Tables of a DuckDB file: all tables of a batch, and the position, in one transaction."""

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

from trailgate.apply.effects.batch import TableChanges
from trailgate.apply.effects.faults import CHECK, DUPLICATE, FOREIGN_KEY, NULL
from trailgate.apply.effects.stored_types import DatabaseColumnType, StorageRule
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.targets import sql
from trailgate.apply.targets.checkpoints import STATUS, group_positions_of
from trailgate.apply.targets.faults import DISK, Sign, fault_of
from trailgate.apply.targets.target import (
    GroupPosition,
    Position,
    RowRefusedError,
    TablePosition,
    moved_on,
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
EVERY: Final = ""  # the table's name in the row of all tables
SIGNS: Final = (
    Sign(duckdb.IOException, "could not set lock", TargetLockedError),
    Sign(duckdb.TransactionException, "conflict", TargetConflictError),
    *DISK,
    Sign(duckdb.IOException, "permission denied", WriteError),
)
HOLDER: Final = re.compile(r"held in (.*) \(PID (\d+)\)")
LOCKED: Final = (
    "DuckDB's file is one process's: it is free between the batches of a run that follows a trail"
)
REFUSALS: Final = (
    ("Duplicate key", DUPLICATE),
    ("NOT NULL constraint failed", NULL),
    ("CHECK constraint failed", CHECK),
    ("Violates foreign key constraint", FOREIGN_KEY),
)
CONVERTED: Final = "Could not convert"  # a value: other errors of this class are not about one
_AS_TEXT: Final = frozenset(
    {StorageRule.INTEGER, StorageRule.PRINTED, StorageRule.PRINTED_KEY, StorageRule.UUID}
)
DUCKDB: Final = sql.Dialect(
    staged=_AS_TEXT, read=_AS_TEXT, printed="CAST({} AS VARCHAR)", cast="TRY_CAST"
)
# The types that Arrow has too; of the others, those whose values are equal if their text is.
ARROW_TYPES: Final = re.compile(
    r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|FLOAT|DOUBLE|DECIMAL\(.*\)|BOOLEAN|DATE|TIMESTAMP(_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE|BLOB|VARCHAR"
)
RULES_OF_TYPES: Final = MappingProxyType(
    {
        **dict.fromkeys(("HUGEINT", "UHUGEINT", "BIGNUM", "VARINT"), StorageRule.INTEGER),
        **dict.fromkeys(("TIME", "TIME_NS", "BIT", "JSON"), StorageRule.PRINTED_KEY),
        "UUID": StorageRule.UUID,
    }
)


class TableTarget:
    """The tables of a DuckDB file."""

    widens = True
    commits_alone = False

    def __init__(self, path: str, group: str) -> None:
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
        """Return the connection, opened again after ``release``."""
        if self._attached is None:
            self._attached = _attached(self._path)
            if self._known and self.position(None) != self._at:
                raise moved_on(self._group, self._path)
        return self._attached

    def position(self, table: TargetTable | None) -> Position | None:
        """Return how far a table was applied, or with None how far all tables were."""
        names = ", ".join(sql.POSITION_COLUMNS)
        text = f"SELECT {names} FROM {sql.CHECKPOINT} WHERE grp = ? AND target = ?"
        rows = self._execute(text, [self._group, _name(table)])
        return Position(*rows[0]) if rows else None

    def held(self, table: TargetTable) -> TargetTable | None:
        """Return the table as it is in the file; None where there is none."""
        schema, name = _parts(table)
        rows = self._execute(
            "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE database_name = current_database() "
            "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
            [schema, name],
        )
        if not rows:
            self._check_no_view(schema, name)
            return None
        found, text = (rows[0][0], rows[0][1]), rows[0][2]
        empty = self._arrow(f"SELECT * FROM {sql.quoted(*found)} LIMIT 0").schema
        types = dict(
            self._execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE database_name = current_database() "
                "AND schema_name = ? AND table_name = ?",
                list(found),
            )
        )
        computed = self._computed(found)
        stored = {one: _stored_type(one, kind, text) for one, kind in types.items()}
        fields = [pa.field(one.name, _arrow_type(one.type, stored[one.name])) for one in empty]
        held = table.as_held(found, pa.schema(fields))
        columns = tuple(
            replace(one, stored=stored[one.name], computed=one.name in computed)
            for one in held.columns
        )
        held = replace(held, columns=columns).without_computed()
        for (known,) in self._execute(sql.KNOWN_COLUMNS.format("?", "?"), [self._group, str(held)]):
            sql.check_known_columns(table, held, known)
        return sql.check_key_types(held)

    def _check_no_view(self, schema: str, name: str) -> None:
        rows = self._execute(
            "SELECT view_name FROM duckdb_views() WHERE database_name = current_database() "
            "AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)",
            [schema, name],
        )
        if rows:
            raise sql.not_a_table("a view", f"{schema}.{rows[0][0]}")

    def _computed(self, name: tuple[str, str]) -> frozenset[str]:
        """Return the names of a table's generated columns."""
        rows = self._execute(
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = current_database() "
            "AND table_schema = ? AND table_name = ? AND is_generated = 'ALWAYS'",
            list(name),
        )
        return frozenset(one for (one,) in rows)

    def planned(self, table: TargetTable) -> TargetTable:
        """Return a table that is to be created: its types keep all that Arrow's do."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table, and its schema."""
        self._begin()
        schema, name = _parts(table)
        self._execute(f"CREATE SCHEMA IF NOT EXISTS {sql.quoted(schema)}")
        empty = table.schema.empty_table()
        self._connection.register(STAGING, empty)
        self._execute(f"CREATE TABLE {sql.quoted(schema, name)} AS SELECT * FROM {STAGING}")
        self._connection.unregister(STAGING)

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns of a table, NULL in all rows."""
        self._begin()
        for column in table.columns:
            if column.name in names:
                kind = self._type(column)
                self._execute(
                    f"ALTER TABLE {sql.quoted(*_parts(table))} ADD COLUMN {sql.quoted(column.name)} {kind}"
                )

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Give columns of integers eight bytes."""
        self._begin()
        for name in names:
            alter = f"ALTER TABLE {sql.quoted(*_parts(table))} ALTER {sql.quoted(name)} TYPE BIGINT"
            self._execute(alter, table=table)

    def _type(self, column: TargetColumn) -> str:
        """Return the type that DuckDB gives an Arrow column."""
        self._connection.register(STAGING, pa.schema([("c", column.type)]).empty_table())
        ((kind,),) = self._execute(f"SELECT column_type FROM (DESCRIBE {STAGING})")
        self._connection.unregister(STAGING)
        return str(kind)

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows that have one of some keys: all columns, or those of the key alone."""
        self._connection.register(STAGING, sql.key_columns(table, keys))
        self._check_printed(table, table.key)
        found = self._arrow(DUCKDB.selection(table, STAGING, keys_alone=keys_alone))
        self._connection.unregister(STAGING)
        return sql.spelled_keys(table, found)

    def check_values(self, effects: TableChanges) -> None:
        """Raise RowRefusedError for a value that a type would change, without writing anything."""
        table = effects.nets.table
        if any(one.stored is not None and one.stored.is_printed for one in table.columns):
            self._connection.register(STAGING, sql.staging_rows(effects))
            self._check_printed(table, range(len(table.columns)))
            self._connection.unregister(STAGING)

    def _check_printed(self, table: TargetTable, columns: Iterable[int]) -> None:
        """Raise ValuesRefusedError for staged values that DuckDB prints in another way than the trail."""
        for column, text in DUCKDB.printed_values(table, STAGING, columns):
            with sql.refusing_values(column):
                rows = self._execute(text, table=table)
            if rows:
                raise sql.refused_values(table, column, rows)

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows."""
        rows: pa.RecordBatchReader = (
            self._connection.cursor()
            .sql(
                f"SELECT {DUCKDB.select_list(table.columns)} FROM {DATABASE}.{sql.quoted(*_parts(table))} AS t"
            )
            .to_arrow_reader()
        )
        return rows

    def limit_memory(self, most: str, folder: str) -> None:
        """Let statements take no more memory than that, and write what needs more to files in a folder."""
        quoted = folder.replace("'", "''")
        self._execute(f"SET memory_limit = '{most}'")
        self._execute(f"SET temp_directory = '{quoted}'")

    def forget(self, table: TargetTable, keys: pa.Table) -> None:
        """Let nothing be known of some keys in a table of known keys (``apply/effects/determined.py``)."""
        self._connection.register(STAGING, sql.key_columns(table, keys))
        name, names = sql.quoted(*table.name), ", ".join(map(sql.quoted, table.key_names))
        same = sql.match(table, "t", "s")
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
        """Return how many of a table's rows are in others by key, by kind, and the first that differ, as ``sql.comparison`` has them.

        With ``determined`` the table is one of known keys (``apply/effects/determined.py``), and ``is_whole`` states whether it has all keys that there can be.
        """
        self._connection.register(STAGING, rows)
        self._execute(f"CREATE OR REPLACE TEMP TABLE {WHOLE} AS SELECT * FROM {STAGING}")
        self._connection.unregister(STAGING)
        key = table.key_names or ("_position",)
        known = sql.Known(key, determined, is_whole)
        counts, differing = sql.comparison(sql.quoted(*table.name), WHOLE, names, known, most)
        return dict(self._execute(counts)), self._execute(differing)

    def write(self, effects: TableChanges, at: Position) -> None:
        """Write the effects on one table."""
        self._begin()
        table, rows = effects.nets.table, sql.staging_rows(effects, defaults=True)
        if closing := sql.closing_statement(effects):
            self._execute(closing, table=table)
        self._connection.register(STAGING, rows)
        self._check_printed(table, range(len(table.columns)))
        for text, expected in sql.replacing_statements(effects, rows, STAGING, WHOLE, DUCKDB):
            ((changed,),) = self._execute(text, table=table)
            if changed != expected >= 0:
                raise sql.changed_meanwhile(table, expected, changed)
        for column, text in DUCKDB.computed_values(table, STAGING):
            for own, theirs in self._execute(text, table=table):
                raise sql.changed_value(table, column, own, theirs)
        self._connection.unregister(STAGING)
        self._note(table, at)

    def commit(self, at: Position) -> None:
        """Make what was written since the last commit last, and with it the position."""
        self._begin()
        self._note(None, at)
        self._execute("COMMIT")
        self._open, self._at = False, at

    def keep_tables(self) -> None:
        """Commit tables that were created, without a position."""
        if self._open:
            self._execute("COMMIT")
            self._open = False

    def rollback(self) -> None:
        """Forget what was written since the last commit."""
        if self._open and self._attached is not None:
            # After a fault of the disk there may be no transaction, or no database, to roll back.
            with suppress(duckdb.Error):
                self._attached.execute("ROLLBACK")
        self._open = False

    def release(self) -> None:
        """Close the file, so that others can open it until the next batch."""
        self.rollback()
        self.close()

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied."""
        text = f"SELECT target, position FROM {sql.CHECKPOINT} WHERE grp = ? AND target <> '' ORDER BY 1"
        return [TablePosition(*row) for row in self._execute(text, [self._group])]

    def close(self) -> None:
        """Close the file."""
        if self._attached is not None:
            self._attached.close()
        self._attached = None

    def _note(self, table: TargetTable | None, at: Position) -> None:
        names = ", ".join((*sql.POSITION_COLUMNS, "known_columns"))
        position = [getattr(at, name) for name in sql.POSITION_COLUMNS]
        self._execute(
            f"INSERT OR REPLACE INTO {sql.CHECKPOINT} (grp, target, {names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [self._group, _name(table), *position, sql.known_columns(table)],
        )

    def _begin(self) -> None:
        if not self._open:
            self._execute("BEGIN")
            self._open = True

    def _arrow(self, text: str) -> pa.Table:
        try:
            found: pa.Table = self._connection.sql(text).to_arrow_reader().read_all()
        except duckdb.Error as error:
            raise _refusal(error, self._path) from None
        return found

    def _execute(
        self, text: str, values: list[Any] | None = None, table: TargetTable | None = None
    ) -> list[Any]:
        """Return the rows of a statement; all of them are fetched, since a result that is not is in the way of the next one."""
        where = Where(source=self._path, table=None if table is None else str(table))
        try:
            rows: list[Any] = self._connection.execute(text, values).fetchall()
        except UnicodeDecodeError:  # the error's own text, in which a value is cut off
            problem = "DuckDB refuses a value with other letters than those of ASCII"
            raise RowRefusedError(problem, where=where) from None
        except duckdb.Error as error:
            raise _refusal(error, self._path, table) from None
        return rows


def _attached(path: str, *, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """Return a connection to a file, by a name of its own: the file's own name may be that of a schema in it. Raises StorageError if it cannot be opened."""
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
    """Return DuckDB's error as ours."""
    where = Where(source=path, table=None if table is None else str(table))
    fault = fault_of(error, SIGNS)
    if fault is TargetLockedError:
        holder = HOLDER.search(str(error))
        by = f": {holder[1]}, process {holder[2]}" if holder else ""
        return TargetLockedError(f"another process has the file open{by}", where=where, hint=LOCKED)
    if fault is not None:
        return fault(f"DuckDB refuses: {_line(error)}", where=where)
    of_value = isinstance(error, duckdb.InvalidInputException) and CONVERTED in str(error)
    is_of_row = of_value or isinstance(error, duckdb.IntegrityError | duckdb.DataError)
    kind = RowRefusedError if is_of_row else ApplyError
    numbers = next((own for text, own in REFUSALS if text in str(error)), ())
    return kind(f"DuckDB refuses: {_line(error)}", where=where).numbered(numbers)


def group_positions(path: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the tables of a file."""
    connection = _attached(path, read_only=True)
    try:
        found = connection.execute(STATUS)
        names, rows = [column[0] for column in found.description or ()], found.fetchall()
    except duckdb.CatalogException:
        return []
    except duckdb.Error as error:
        raise _refusal(error, path) from None
    finally:
        connection.close()
    return group_positions_of(names, rows)


def _stored_type(name: str, kind: str, text: str) -> DatabaseColumnType | None:
    """Return what a column's type keeps beside its Arrow type; ``text`` is the statement that makes the table."""
    if kind == "VARCHAR":
        collated = rf'(?<![\w"])("?){re.escape(name)}\1 VARCHAR COLLATE (\w+)'
        found = re.search(collated, text)
        return (
            DatabaseColumnType(f"VARCHAR COLLATE {found[2]}", StorageRule.UNCASED)
            if found
            else None
        )
    if ARROW_TYPES.fullmatch(kind):
        return None
    rule = StorageRule.PRINTED_KEY if kind.startswith("ENUM") else StorageRule.PRINTED
    return DatabaseColumnType(kind, RULES_OF_TYPES.get(kind, rule))


def _arrow_type(kind: pa.DataType, stored: DatabaseColumnType | None) -> pa.DataType:
    return kind if stored is None else pa.string()


def table_rows(place: str) -> pa.RecordBatchReader:
    """Return a reader of a table: ``shop.duckdb/hr/jobs``, without a schema of one in ``main``."""
    path, mark, names = place.partition(".duckdb/")
    name = sql.quoted(*names.split("/"))
    connection = _attached(f"{path}{mark.rstrip('/')}", read_only=True)
    try:
        rows: pa.RecordBatchReader = connection.sql(f"SELECT * FROM {name}").to_arrow_reader()
    except duckdb.Error as error:
        connection.close()
        raise StorageError(_line(error), where=Where(source=place)) from None
    return rows


def _parts(table: TargetTable) -> tuple[str, str]:
    """Return the schema and the name of a table; one without a schema is in ``main``."""
    if len(table.name) == 1:
        return "main", table.name[0]
    if len(table.name) == 2:
        return table.name[0], table.name[1]
    hint = "MAP it to SCHEMA.TABLE in a parameter file"
    raise OptionError(f"DuckDB has no catalogs, and {table} names one", hint=hint)


def _name(table: TargetTable | None) -> str:
    return EVERY if table is None else str(table)


def _line(error: Exception) -> str:
    return " ".join(str(error).partition("\n")[0].split())
