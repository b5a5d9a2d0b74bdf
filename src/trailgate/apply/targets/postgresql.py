"""Write the tables of a PostgreSQL database. All tables of a batch, and the position, are one transaction.

The changes of a table are copied with COPY to the temporary table ``trailgate_staging``, and then a
few statements (``sql.py``) delete, update and insert. Arrow's CSV writer makes the text for COPY
from complete columns, which is much faster than a loop over rows.

Types without an Arrow equivalent, such as ``uuid``, ``inet`` or domains, are staged as text and
cast in the database. Before writing, their values are cast and printed again; if the text differs,
the value is refused, because the table would then differ from the source.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from psycopg import sql as psycopg_sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping, TransactionStatus

from trailgate.apply.effects.meta_columns import POSITION
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.operation_errors import (
    CHECK,
    DUPLICATE,
    FOREIGN_KEY,
    NULL,
    TOO_LARGE,
    TOO_LONG,
)
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
from trailgate.apply.targets.ddl import HELD, POSTGRESQL
from trailgate.apply.targets.faults import build_concurrent_run_error, find_sqlstate_fault
from trailgate.apply.targets.postgresql_times import format_times, load_times_as_text, parse_times
from trailgate.apply.targets.target import (
    AppliedPosition,
    GroupPosition,
    RefusedRows,
    RowRefusedError,
    TablePosition,
    ValuesRefusedError,
)
from trailgate.columnar.hex_digits import to_hex
from trailgate.errors import (
    ApplyError,
    DefinitionError,
    OptionError,
    StorageError,
    TargetUnavailableError,
    TrailgateError,
    Where,
    mask_logins,
)

Result = TypeVar("Result")
STAGING: Final = "trailgate_staging"
KEYS: Final = "trailgate_keys"
LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('trailgate apply'), hashtext(%s))"
# Detect a host that is gone within a minute. The defaults of operating systems take hours.
# 30 + 3 * 10 seconds for an idle connection. tcp_user_timeout is in milliseconds.
USUAL: Final = MappingProxyType(
    {
        "connect_timeout": 10,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
    }
)
FULL: Final = ("too many clients", "remaining connection slots", "too many connections")
LOGINS: Final = 2  # attempts to log in to a server that is up
EVERY: Final = ""  # the target of the row with the position of all tables
FETCHED: Final = 50_000  # rows per fetch of a scan
REFUSALS: Final = MappingProxyType(
    {
        "22001": TOO_LONG,
        "22003": TOO_LARGE,
        "23502": NULL,
        "23503": FOREIGN_KEY,
        "23505": DUPLICATE,
        "23514": CHECK,
    }
)  # by SQLSTATE
_PRINTED: Final = frozenset({StorageRule.PRINTED, StorageRule.PRINTED_KEY})
DIALECT: Final = sql.StagingDialect(
    staged=_PRINTED,
    read=_PRINTED | {StorageRule.JSON_VALUE, StorageRule.NUMBER, StorageRule.UUID},
    # format() prints values as COPY does. A cast to text does not: it trims the blanks of a char, and
    # adds the netmask to an inet.
    printed="CASE WHEN {0} IS NOT NULL THEN format('%s', {0}) END",
    override=" OVERRIDING SYSTEM VALUE",
)
# The text of values must not depend on settings of the server, the role or the environment (PGTZ,
# PGDATESTYLE).
SETTINGS: Final = MappingProxyType(
    {
        "client_encoding": "UTF8",
        "TimeZone": "UTC",
        "DateStyle": "ISO, YMD",
        "IntervalStyle": "postgres",
        "extra_float_digits": "1",
        "bytea_output": "hex",
        "standard_conforming_strings": "on",
    }
)
# The same settings for one transaction only (``true``), because a connection pool may give the next
# transaction another connection.
SETTING: Final = (
    "SELECT "
    + ", ".join(f"set_config('{name}', '{value}', true)" for name, value in SETTINGS.items())
).encode()
# By pg_class.relkind: relations that cannot be targets.
# The other kinds in ``_find_relation`` are tables: r is a plain and p a partitioned one.
NO_TABLES: Final = MappingProxyType(
    {"v": "a view", "m": "a materialized view", "f": "a foreign table"}
)
# pg_attribute.atttypmod: -1 for a type without parentheses, else the number in them plus 4. For
# example, varchar(20) has 24.
UNCONSTRAINED: Final = -1
HEADER: Final = 4
# The precision of Arrow's decimal128.
MOST_DIGITS: Final = 38
ENUM: Final = "e"  # pg_type.typtype
# Reversed because int8 and int16 both have the type smallint. A lookup by the name returns the
# first match, which must be int16.
ARROW_TYPES: Final = (
    (pa.timestamp("us", "UTC"), "timestamp with time zone"),
    *zip(reversed(HELD), reversed(POSTGRESQL.types), strict=True),
)
# By PostgreSQL's name of a type.
RULES_OF_TYPES: Final = MappingProxyType(
    {
        "uuid": StorageRule.UUID,
        "jsonb": StorageRule.JSON_VALUE,
        "citext": StorageRule.UNCASED,
        **dict.fromkeys(
            (
                '"char"',
                "bit",
                "bit varying",
                "cidr",
                "inet",
                "macaddr",
                "name",
                "oid",
                "time without time zone",
            ),
            StorageRule.PRINTED_KEY,
        ),
    }
)
# The columns of a table. The recursion replaces a domain by its base type, which may be a domain too.
COLUMNS: Final = """
WITH RECURSIVE base AS (
  SELECT a.attnum, a.atttypid AS type, a.atttypmod AS modifier FROM pg_attribute a
  WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.attnum, t.typbasetype, t.typtypmod FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype = 'd'
)
SELECT a.attname, b.type::regtype::text, b.modifier, format_type(b.type, b.modifier), t.typtype::text, a.attidentity::text,
  a.attgenerated::text, coalesce(c.collisdeterministic, true)
FROM base b JOIN pg_type t ON t.oid = b.type AND t.typtype <> 'd' JOIN pg_class r ON true
JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = b.attnum LEFT JOIN pg_collation c ON c.oid = a.attcollation
WHERE r.oid = %s ORDER BY a.attnum
"""
# The triggers that fire in usual sessions: O is the default, and A are those that always fire.
TRIGGERS_OF: Final = "SELECT tgname FROM pg_trigger WHERE tgrelid = %s AND NOT tgisinternal AND tgenabled IN ('O', 'A') ORDER BY 1"
TRIGGERS: Final = (
    "The table has triggers ({}): let them ignore sessions whose application_name begins with 'trailgate apply', "
    "or disable them, ALTER TABLE ... DISABLE TRIGGER"
)
HAS_PLPGSQL: Final = (
    "SELECT 1 FROM pg_language WHERE lanname = 'plpgsql' AND has_language_privilege(oid, 'USAGE')"
)
CASTING: Final = """
CREATE OR REPLACE FUNCTION pg_temp.trailgate_cast(own text, OUT printed text, OUT state text, OUT problem text) LANGUAGE plpgsql AS $trailgate$
BEGIN
  printed := {};
EXCEPTION WHEN others THEN
  state := SQLSTATE;
  problem := SQLERRM;
END $trailgate$
"""
# OFFSET 0 keeps the planner from inlining the subquery, which would call the function once for each
# field of its result.
CASTS: Final = f"""
SELECT own, (cast_).state, (cast_).problem FROM (
  SELECT own, pg_temp.trailgate_cast(own) AS cast_ FROM (SELECT DISTINCT {{0}} AS own FROM {{1}} WHERE {{0}} IS NOT NULL) AS values_ OFFSET 0
) AS tried WHERE (cast_).state IS NOT NULL LIMIT {sql.MOST_REFUSED}
"""
WRITING: Final = "trailgate_writing"  # the savepoint before the changes of a table
TRIES: Final = "trailgate_tries"
TRIED: Final = 5_000  # rows that one statement tries, so that it ends within a statement_timeout
# The order in which changes are tried: deletes first, as the statements of ``write`` run.
# ``number`` counts the staged rows in the order of COPY, so it is a row's index in
# ``TableChanges.nets``.
TRIES_OF: Final = f"""
CREATE TEMPORARY TABLE {TRIES} ON COMMIT DROP AS
SELECT row_number() OVER (ORDER BY s.e <> {RowEffect.DELETE:d}, s.ctid) AS turn, s.number, s.ctid AS staged, t.ctid AS stored
FROM (SELECT *, ctid, row_number() OVER (ORDER BY ctid) - 1 AS number FROM {STAGING}) AS s
LEFT JOIN {{}} AS t ON s.e <> {RowEffect.INSERT:d} AND {{}}
"""
# Each row is written in a block of its own, so that a refused row does not end the statement. All
# columns are qualified, as names of columns may be those of the function's variables.
# The conditions are the classes 23 and 22 of SQLSTATE. Any other error ends the statement.
TRYING: Final = f"""
CREATE OR REPLACE FUNCTION pg_temp.trailgate_try(begin_turn bigint, end_turn bigint, OUT number bigint, OUT state text, OUT problem text, OUT detail text,
  OUT field text, OUT relation text, OUT key_name text) RETURNS SETOF record LANGUAGE plpgsql AS $trailgate$
#variable_conflict use_column
DECLARE
  one record;
BEGIN
  FOR one IN SELECT tries.* FROM pg_temp.{TRIES} AS tries WHERE tries.turn >= begin_turn AND tries.turn < end_turn ORDER BY tries.turn LOOP
    BEGIN
      {{}};
    EXCEPTION WHEN integrity_constraint_violation OR data_exception THEN
      GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, problem = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, field = COLUMN_NAME,
        relation = TABLE_NAME, key_name = CONSTRAINT_NAME;
      number := one.number;
      RETURN NEXT;
    END;
  END LOOP;
END $trailgate$
"""
EXCLUDED: Final = "23P01"  # by another row that may not be final, so nothing is known yet
FOREIGN: Final = "23503"
KEYS_TO: Final = """
SELECT quote_ident(n.nspname) || '.' || quote_ident(r.relname), n.nspname || '.' || r.relname, c.conname::text,
  ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY AS k (number, place) JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = k.number ORDER BY k.place),
  ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY AS k (number, place) JOIN pg_attribute a ON a.attrelid = c.confrelid AND a.attnum = k.number ORDER BY k.place)
FROM pg_constraint c JOIN pg_class r ON r.oid = c.confrelid JOIN pg_namespace n ON n.oid = r.relnamespace
WHERE c.contype = 'f' AND c.condeferrable AND c.conrelid = %s::regclass ORDER BY 3
"""
# The foreign keys of a table and those that name it, each with its table and the table that it names.
TABLES_OF_KEY: Final = """
SELECT c.conname::text, t.relname::text, a.nspname || '.' || t.relname, b.nspname || '.' || r.relname FROM pg_constraint c
JOIN pg_class t ON t.oid = c.conrelid JOIN pg_namespace a ON a.oid = t.relnamespace
JOIN pg_class r ON r.oid = c.confrelid JOIN pg_namespace b ON b.oid = r.relnamespace
WHERE c.contype = 'f' AND (c.conrelid = %s::regclass OR c.confrelid = %s::regclass)
"""
SYSTEM_COLUMN: Final = "conflicts with a system column name"
SYSTEM_COLUMN_HINT: Final = (
    "Give the column another name with COLMAP in a parameter file (--params)"
)
VALUE_HINT: Final = "No operation of a trail can write such a value: give the row another one"
DEFERRABLE: Final = "A batch deletes, updates and inserts rows in this order: make foreign keys and additional unique constraints DEFERRABLE"

LIMITS: Final = "54"  # class of SQLSTATE: program_limit_exceeded
STAGED_LIMITS: Final = "A batch is copied to a temporary table first, which has two columns for each column of the table, and whose rows must fit a page"


class PostgreSQLTarget:
    """The target of tables in a PostgreSQL database."""

    widens = True
    folds_names = False
    commits_alone = False

    def __init__(self, rest: str, group: str) -> None:
        self._address, self._group = f"postgresql:{rest}", group
        self._types: dict[str, dict[str, str]] = {}
        self._triggers: dict[str, str] = {}  # the names of triggers, by table
        self._connection = _connect(self._address, group)
        self._is_locked = False
        try:
            self._make_checkpoint()
            self._at = self.position(None)
            self.release()
        except BaseException:
            self.close()
            raise

    def _make_checkpoint(self) -> None:
        """Create the checkpoint table in the PostgreSQL database if it does not exist.

        A login without the right to create tables can use an existing one.
        """
        if self._execute("SELECT to_regclass(%s)", [sql.CHECKPOINT]) != [(None,)]:
            self._add_position_columns()
            return
        # Two runs that begin at the same time would otherwise both create it.
        self._execute(LOCK, ["checkpoint"])
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {sql.CHECKPOINT} (grp text, target text, trail text, position text, csn text, op_ts bigint, "
            "digest text, reached text, known_columns text, PRIMARY KEY (grp, target))"
        )
        self._commit()

    def _commit(self) -> None:
        try:
            self._connection.commit()
        except psycopg.Error as error:
            raise self._refusal(error, None) from None

    def _lock(self) -> None:
        """Lock out other runs of this group until the PostgreSQL transaction ends.

        Raises TargetConflictError if one of them has written since the last batch.

        The lock belongs to the transaction, not to the session, so it also works through a
        connection pool that assigns connections per transaction.
        """
        if self._is_locked:
            return
        self._execute(LOCK, [self._group])
        # Read after the lock, so that no other run can commit between this test and our write.
        if self.position(None) != self._at:
            raise build_concurrent_run_error(self._group, self._shown)
        self._is_locked = True

    def _add_position_columns(self) -> None:
        """Add the columns that a PostgreSQL checkpoint table of an earlier version lacks.

        If no column is missing, no ALTER TABLE is run, because it would lock the table.
        """
        rows = self._execute(
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{sql.CHECKPOINT}'::regclass AND attnum > 0 AND NOT attisdropped"
        )
        for name in sorted(set(sql.ADDED_COLUMNS) - {existing for (existing,) in rows}):
            self._execute(f"ALTER TABLE {sql.CHECKPOINT} ADD COLUMN IF NOT EXISTS {name} text")
            self._commit()

    @property
    def _shown(self) -> str:
        return mask_logins(self._address)

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return a table's position from the checkpoint table in the PostgreSQL database.

        If ``table`` is None, return the position of all tables.
        """
        names = ", ".join(sql.POSITION_COLUMNS)
        text = f"SELECT {names} FROM {sql.CHECKPOINT} WHERE grp = %s AND target = %s"
        is_first = self._connection.info.transaction_status == TransactionStatus.IDLE
        rows = self._execute(text, [self._group, _name(table)])
        # Otherwise a run that waits for new operations would keep this transaction open.
        if is_first:
            self.rollback()
        return AppliedPosition(*rows[0]) if rows else None

    def positions(self) -> list[TablePosition]:
        """Return the position of each table that the group has in the PostgreSQL database's checkpoint table."""
        text = f"SELECT target, position FROM {sql.CHECKPOINT} WHERE grp = %s AND target <> '' ORDER BY 1"
        return [TablePosition(*row) for row in self._execute(text, [self._group])]

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as the PostgreSQL catalog defines it, or None if it does not exist."""
        match = self._find_relation(*_parts(table))
        if match is None:
            return None
        number, *name = match
        rows = self._execute(COLUMNS, [number, number])
        types = {one.name: _column_type(one) for one in (_Attribute(*row) for row in rows)}
        schema = pa.schema([(name, one.type) for name, one in types.items()])
        existing = table.as_defined((name[0], name[1]), schema)
        columns = tuple(
            replace(
                one,
                number=_is_number(types[one.name].stored),
                stored=types[one.name].stored,
                computed=types[one.name].computed,
                on_insert=types[one.name].on_insert,
            )
            for one in existing.columns
        )
        columns = tuple(_carry_as_text(one, types[one.name].staged) for one in columns)
        existing = replace(existing, columns=columns).without_computed()
        self._types[str(existing)] = {name: one.staged for name, one in types.items()}
        triggers = self._execute(TRIGGERS_OF, [number])
        self._triggers[str(existing)] = ", ".join(name for (name,) in triggers)
        asked = sql.KNOWN_COLUMNS.format("%s", "%s")
        for (known,) in self._execute(asked, [self._group, str(existing)]):
            check_known_columns(table, existing, known)
        return database_checks.check_key_types(existing)

    def _find_relation(self, schema: str, name: str) -> tuple[int, str, str] | None:
        """Find a table in the PostgreSQL catalog, and return its OID, schema and name, or None if it does not exist.

        An exact match takes precedence over a match that ignores case. Raises DefinitionError if
        several tables match without case, or if a view or foreign table has the name.
        """
        rows = self._execute(
            "SELECT c.oid::bigint, n.nspname, c.relname, c.relkind::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE lower(n.nspname) = lower(%s) AND lower(c.relname) = lower(%s) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            [schema, name],
        )
        exact = [row for row in rows if row[1:3] == (schema, name)]
        if len(exact or rows) > 1:
            names = ", ".join(sorted(f"{row[1]}.{row[2]}" for row in rows))
            problem = f"the target has several tables whose names differ only in case: {names}"
            hint = "MAP the table to one of them, with its name in quotes"
            raise DefinitionError(problem, where=Where(table=f"{schema}.{name}"), hint=hint)
        for number, *parts, kind in exact or rows:
            if kind in NO_TABLES:
                raise database_checks.not_a_table_error(NO_TABLES[kind], ".".join(parts))
            return number, parts[0], parts[1]
        return None

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return a table to create, with the PostgreSQL types that its columns will have."""
        columns = []
        for column in table.columns:
            name, _, size = POSTGRESQL.type_of(column).partition("(")
            stored = column.stored
            if name == "numeric" and pa.types.is_string(column.type):
                stored = DatabaseColumnType(name, StorageRule.NUMBER)
            elif name == "varchar":
                stored = DatabaseColumnType(
                    f"{name}({size}", StorageRule.CHARACTERS, int(size.rstrip(")"))
                )
            elif name == "text":
                stored = DatabaseColumnType(name, StorageRule.CHARACTERS)
            columns.append(replace(column, stored=stored))
        return replace(table, columns=tuple(columns))

    def _type(self, table: TargetTable, at: int) -> str:
        """Return the type of a column in PostgreSQL's staging table: the type in the target, or text if the database casts it."""
        column = table.columns[at]
        if column.stored is not None and column.stored.rule in DIALECT.staged:
            return "text"
        return self._types.get(str(table), {}).get(column.name) or POSTGRESQL.type_of(column)

    def create(self, table: TargetTable) -> None:
        """Create a PostgreSQL table with its primary key, and its schema, in the transaction of the batch."""
        schema, _ = _parts(table)
        text = POSTGRESQL.create_statement(table, _parts(table))
        self._lock()
        try:
            self._execute(f"CREATE SCHEMA IF NOT EXISTS {sql.quote_sql_name(schema)}", table=table)
            self._execute(text, table=table)
        except ApplyError as error:
            if SYSTEM_COLUMN in error.problem:
                error.hint = SYSTEM_COLUMN_HINT
            raise

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns to a PostgreSQL table, in the transaction of the batch. Existing rows have NULL."""
        self._lock()
        for column in table.columns:
            if column.name in names:
                self._execute(
                    f"ALTER TABLE {_quoted_name(table)} ADD COLUMN {sql.quote_sql_name(column.name)} {POSTGRESQL.type_of(column)}"
                )

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Widen integer columns of a PostgreSQL table to ``bigint``, in the transaction of the batch."""
        self._lock()
        for name in names:
            alter = f"ALTER TABLE {_quoted_name(table)} ALTER COLUMN {sql.quote_sql_name(name)} TYPE bigint"
            self._execute(alter, table=table)
            # Forget the old type, so that the staging table gets bigint too.
            self._types.get(str(table), {}).pop(name, None)

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Copy the keys to a staging table, and fetch the rows of the PostgreSQL table that have one of them."""
        self._lock()
        kinds = {f"c{at}": self._type(table, at) for at in table.key}
        self._copy(KEYS, sql.rename_key_columns(table, keys), kinds, table)
        self._check_printed(table, KEYS, table.key)
        columns = [table.columns[at] for at in table.key] if keys_alone else list(table.columns)
        fetched = self._execute(DIALECT.selection(table, KEYS, keys_alone=keys_alone), table=table)
        # Without rows, zip returns no columns.
        values = list(zip(*fetched, strict=True)) or [()] * len(columns)
        arrays = [
            _array(column_values, column)
            for column_values, column in zip(values, columns, strict=True)
        ]
        rows = pa.table(arrays, names=[column.name for column in columns])
        return database_checks.normalize_keys(table, rows)

    def check_values(self, effects: TableChanges) -> None:
        """Cast values to the types of the PostgreSQL table.

        Raises RowRefusedError if a value would change. Writes nothing.
        """
        table = effects.nets.table
        if any(one.stored is not None and one.stored.is_printed for one in table.columns):
            self._stage(effects, sql.build_staging_rows(effects))
            self.rollback()

    def _stage(self, effects: TableChanges, rows: pa.Table) -> None:
        """Copy the rows of changes to PostgreSQL's staging table, and check the values whose text PostgreSQL may change."""
        table, columns = effects.nets.table, range(len(effects.nets.table.columns))
        kinds = {f"c{at}": self._type(table, at) for at in columns}
        kinds |= {f"m{at}": "boolean" for at in columns} | {"x": "bigint", "e": "integer"}
        self._copy(STAGING, rows, kinds, table)
        self._check_printed(table, STAGING, columns)

    def _check_printed(self, table: TargetTable, staging: str, columns: Iterable[int]) -> None:
        """Raise ValuesRefusedError if PostgreSQL refuses a staged value, or prints it differently from the trail."""
        for at in columns:
            for column, text in DIALECT.printed_values(table, staging, [at]):
                # After an error PostgreSQL accepts statements only if it can return to a savepoint.
                self._execute(f"SAVEPOINT {STAGING}")
                try:
                    with database_checks.convert_value_errors(column):
                        rows = self._execute(text, table=table)
                except RowRefusedError as error:
                    self._execute(f"ROLLBACK TO SAVEPOINT {STAGING}")
                    raise self._refused_casts(table, staging, at, error) from None
                if rows:
                    raise database_checks.build_refused_values_error(table, column, rows)

    def _refused_casts(
        self, table: TargetTable, staging: str, at: int, first: RowRefusedError
    ) -> RowRefusedError:
        """Find all staged values of a column that PostgreSQL cannot cast.

        Returns one error with all of them, or ``first`` if they cannot be found. A plain statement
        ends at the first such value. Only a PL/pgSQL function can catch the error and continue. The
        function is temporary and disappears when the transaction is rolled back.
        """
        column = table.columns[at]
        assert column.stored is not None
        if not self._execute(HAS_PLPGSQL):
            return first
        printed = DIALECT.printed.format(f"CAST(own AS {column.stored.name})")
        self._execute(CASTING.format(printed))
        errors: dict[str, RowRefusedError] = {}
        for value, state, problem in self._execute(CASTS.format(f"c{at}", staging), table=table):
            text = mask_logins(" ".join(problem.split()))
            error = RowRefusedError(f"PostgreSQL refuses: {text}", where=first.where)
            errors[value] = error.with_numbers(REFUSALS.get(state, ()))
        if not errors:
            return first
        joined = ValuesRefusedError(first.problem, where=first.where)
        joined.errors = errors
        return joined.with_numbers(first.numbers)

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Read all rows of a PostgreSQL table with a server-side cursor, 50,000 at a time."""
        names = DIALECT.select_list(table.columns)
        cursor = self._connection.cursor(name="trailgate_scan")
        self._try(
            lambda: cursor.execute(f"SELECT {names} FROM {_quoted_name(table)} AS t".encode()),
            table,
        )

        def batches() -> Iterator[pa.RecordBatch]:
            while fetched := self._try(lambda: cursor.fetchmany(FETCHED), table):
                columns = zip(*fetched, strict=True)
                arrays = [
                    _array(values, column)
                    for values, column in zip(columns, table.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=table.schema)
            cursor.close()

        return pa.RecordBatchReader.from_batches(table.schema, batches())

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Stage the changes of one table, and write them to the PostgreSQL table in the transaction of the batch.

        Deferrable constraints are checked at the commit.
        """
        self._lock()
        table, rows = effects.nets.table, sql.build_staging_rows(effects, defaults=True)
        # Deferrable constraints are checked at the commit, when all tables of the batch are written.
        self._execute("SET CONSTRAINTS ALL DEFERRED")
        if closing := sql.build_closing_statement(effects):
            self._change(closing, table)
        self._stage(effects, rows)
        self._execute(f"SAVEPOINT {WRITING}")
        for text, expected in sql.build_write_statements(effects, rows, STAGING, DIALECT):
            changed = self._change(text, table)
            # An ``expected`` of -1 allows any number.
            if changed != expected >= 0:
                raise database_checks.build_row_count_error(table, expected, changed)
        for column, text in DIALECT.computed_values(table, STAGING):
            for sent, stored in self._execute(text, table=table):
                raise database_checks.build_changed_value_error(table, column, sent, stored)
        if (triggers := self._triggers.get(str(table))) and table.key:
            self._check_stored(table, triggers)
        self._execute(f"RELEASE SAVEPOINT {WRITING}")
        self._store_position(table, at)

    def find_refused_rows(self, effects: TableChanges) -> RefusedRows:
        """Return the rejected rows of the changes for which ``write`` has just raised RowRefusedError.

        Writes each row again separately, in a PL/pgSQL function that catches the errors of rows.
        The function is temporary, and disappears with the rows when the batch is rolled back.
        """
        table, rows = effects.nets.table, sql.build_staging_rows(effects, defaults=True)
        self._execute(f"ROLLBACK TO SAVEPOINT {WRITING}")
        if not self._execute(HAS_PLPGSQL):
            return _name_rows(effects, {})
        self._execute(f"DROP TABLE IF EXISTS pg_temp.{TRIES}")
        # A table of operations has no key to match, and its rows are only inserted.
        self._execute(TRIES_OF.format(_quoted_name(table), DIALECT.match(table) or "false"))
        texts = []
        for text, expected in sql.build_write_statements(effects, rows, STAGING, DIALECT):
            if expected < 0:  # the statement that empties the table
                self._execute(text)
                continue
            # An inserted row is not in the table yet, so it has no ``stored``.
            stored = "" if text.startswith("INSERT") else " AND t.ctid = one.stored"
            texts.append(f"{text} AND s.ctid = one.staged{stored}")
        self._execute(TRYING.format(";\n".join(texts)))
        own = ".".join(_parts(table))
        found: dict[int, tuple[RowRefusedError, str]] = {}
        waiting: set[int] = set()
        while True:
            refused = self._try_rows(table, own)
            again = {number for number, (_, other) in refused.items() if other == own}
            found |= refused
            # A row may name a row of the same table that was tried after it. So such rows are tried
            # again, as long as some of them are accepted.
            for number in waiting - again:
                if number not in refused:
                    del found[number]
            if not again or again == waiting:
                return _name_rows(effects, found)
            self._execute(
                f"DELETE FROM {TRIES} WHERE number NOT IN (SELECT unnest(%s::bigint[]))",
                [list(again)],
            )
            waiting = again

    def _try_rows(self, table: TargetTable, own: str) -> dict[int, tuple[RowRefusedError, str]]:
        """Write each staged row to the PostgreSQL table separately, and return the errors of the rejected rows.

        The result has for the number of each rejected row its error, and the other table of the
        foreign key that rejects it, or "". ``own`` is the name of the table, such as ``hr.jobs``.
        """
        others = {
            (child, name): parent if child_name == own else child_name
            for name, child, child_name, parent in self._execute(
                TABLES_OF_KEY, [_quoted_name(table), _quoted_name(table)]
            )
        }
        ((turns,),) = self._execute(f"SELECT coalesce(max(turn), 0) FROM {TRIES}")
        refused = {}
        for turn in range(1, turns + 1, TRIED):
            tried = f"SELECT * FROM pg_temp.trailgate_try({turn}, {turn + TRIED})"
            for number, state, problem, detail, field, child, key in self._execute(tried):
                if state != EXCLUDED:
                    other = others.get((child, key), "") if state == FOREIGN else ""
                    refused[number] = self._row_error(table, state, problem, detail, field), other
        return refused

    def check_deferred(self) -> None:
        """Raise RowRefusedError if a deferred constraint refuses a row written since the last commit."""
        self._execute(f"SAVEPOINT {WRITING}")
        try:
            self._execute("SET CONSTRAINTS ALL IMMEDIATE")
        except RowRefusedError:
            self._execute(f"ROLLBACK TO SAVEPOINT {WRITING}")
            raise
        self._execute(f"RELEASE SAVEPOINT {WRITING}")

    def find_deferred_rows(self, table: TargetTable) -> RefusedRows:
        """Return the rows of a table that violate a deferred foreign key, after ``check_deferred`` has raised an error."""
        columns = [one for one in table.columns if one.name in _identifying(table)]
        quoted = sql.quote_sql_name
        found, errors, related = [], [], []
        for parent, name, key, own, theirs in self._execute(KEYS_TO, [_quoted_name(table)]):
            known = " AND ".join(f"t.{quoted(one)} IS NOT NULL" for one in own)
            pairs = zip(own, theirs, strict=True)
            same = " AND ".join(f"p.{quoted(that)} = t.{quoted(this)}" for this, that in pairs)
            values = ", ".join(f"t.{quoted(one)}" for one in own)
            lacking = self._execute(
                f"SELECT {DIALECT.select_list(columns)}, concat_ws(', ', {values}) FROM {_quoted_name(table)} AS t "
                f"WHERE {known} AND NOT EXISTS (SELECT FROM {parent} AS p WHERE {same})"
            )
            problem = f'insert or update on table "{_parts(table)[1]}" violates foreign key constraint "{key}"'
            for *values_of_row, missing in lacking:
                detail = f"Key ({', '.join(own)})=({missing}) is not present in table {name}"
                found.append(tuple(values_of_row))
                errors.append(self._row_error(table, FOREIGN, problem, detail, None))
                related.append(name)
        by_column = list(zip(*found, strict=True)) or [()] * len(columns)
        arrays = [_array(one, column) for one, column in zip(by_column, columns, strict=True)]
        keys = pa.table(arrays, names=[one.name for one in columns])
        return RefusedRows(database_checks.normalize_keys(table, keys), errors, related)

    def _row_error(
        self, table: TargetTable, state: str, problem: str, detail: str | None, field: str | None
    ) -> RowRefusedError:
        """Build the error for one of several rows that PostgreSQL rejects, with the text of its other errors.

        ``state`` is the SQLSTATE, and ``problem``, ``detail`` and ``field`` (the column, or None)
        are the description of the error, as PostgreSQL states it.
        """
        text = f"PostgreSQL refuses: {' '.join(problem.split())}"
        text += f". {mask_logins(detail).strip()}" if detail else ""
        where = Where(source=self._shown, table=str(table), field=field or None)
        hint = DEFERRABLE if state.startswith("23") else ""
        error = RowRefusedError(text.rstrip("."), where=where, hint=hint)
        return error.with_numbers(REFUSALS.get(state, ()))

    def _check_stored(self, table: TargetTable, triggers: str) -> None:
        """Raise RowRefusedError if triggers changed or removed a row that was just written.

        ``triggers`` are the names of the table's triggers, for the error.
        """
        columns, text = DIALECT.stored_values(table, STAGING)
        for *values, is_there in self._execute(text, table=table):
            hint = TRIGGERS.format(triggers)
            where = Where(source=self._shown, table=str(table))
            if not is_there:
                raise RowRefusedError(
                    "a row does not exist after it was written", where=where, hint=hint
                )
            for column, sent, stored in zip(columns, values[::2], values[1::2], strict=True):
                if sent != stored:
                    problem = f"the trail has {sent!r}, but the target stored {stored!r}"
                    located = replace(where, field=column.name)
                    raise RowRefusedError(problem, where=located, hint=hint)

    def commit(self, at: AppliedPosition) -> None:
        """Commit the PostgreSQL transaction of the batch, together with the position."""
        self._lock()
        self._store_position(None, at)
        # If the connection is lost here, only the stored position shows whether the batch was
        # committed. The run reads it when it reconnects.
        self._commit()
        self._at, self._is_locked = at, False

    def rollback(self) -> None:
        """Roll back the PostgreSQL transaction of the batch."""
        self._is_locked = False
        # If the connection is lost, the server rolls back by itself.
        with suppress(psycopg.Error):
            self._connection.rollback()

    def release(self) -> None:
        """End the PostgreSQL transaction, so that it is not open while the run waits."""
        self.rollback()

    def close(self) -> None:
        """Close the connection to PostgreSQL."""
        self._connection.close()

    def _store_position(self, table: TargetTable | None, at: AppliedPosition) -> None:
        """Store the position of ``table`` in the checkpoint table of the PostgreSQL database; None stands for all tables."""
        names = (*sql.POSITION_COLUMNS, "known_columns")
        position = [getattr(at, name) for name in sql.POSITION_COLUMNS]
        self._change(
            f"INSERT INTO {sql.CHECKPOINT} (grp, target, {', '.join(names)}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s) "
            f"ON CONFLICT (grp, target) DO UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in names)}",
            table,
            [self._group, _name(table), *position, encode_known_columns(table)],
        )

    def _copy(
        self, staging: str, rows: pa.Table, kinds: dict[str, str], table: TargetTable | None = None
    ) -> None:
        """Create the temporary table ``staging`` in PostgreSQL, and copy rows to it. ``kinds`` are the types of its columns."""
        columns = ", ".join(f"{name} {kinds[name]}" for name in rows.schema.names)
        # Several tables of a batch are staged under this name in one transaction.
        self._execute(f"DROP TABLE IF EXISTS pg_temp.{staging}")
        self._execute(f"CREATE TEMPORARY TABLE {staging} ({columns}) ON COMMIT DROP", table=table)
        text = io.BytesIO()
        pyarrow.csv.write_csv(
            pa.table([_as_text(one) for one in rows.columns], names=rows.schema.names),
            text,
            pyarrow.csv.WriteOptions(include_header=False),
        )
        statement = psycopg_sql.SQL(f"COPY {staging} FROM STDIN WITH (FORMAT csv)")

        def copy() -> None:
            with self._connection.cursor() as cursor, cursor.copy(statement) as copied:
                copied.write(text.getbuffer())

        self._try(copy, table)

    def _change(
        self, text: str, table: TargetTable | None = None, values: list[Any] | None = None
    ) -> int:
        """Run a statement in PostgreSQL and return the number of changed rows."""
        return self._try(lambda: self._connection.execute(text.encode(), values).rowcount, table)

    def _execute(
        self, text: str, values: list[Any] | None = None, table: TargetTable | None = None
    ) -> list[Any]:
        """Run a statement in PostgreSQL and return its rows, or an empty list if it returns none."""

        def rows() -> list[Any]:
            cursor = self._connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []

        return self._try(rows, table)

    def _try(self, act: Callable[[], Result], table: TargetTable | None = None) -> Result:
        """Call ``act`` and convert errors of psycopg. At the beginning of a transaction, set ``SETTINGS`` for it."""
        try:
            if self._connection.info.transaction_status is TransactionStatus.IDLE:
                self._connection.execute(SETTING)
            return act()
        except psycopg.Error as error:
            raise self._refusal(error, table) from None

    def _refusal(self, error: psycopg.Error, table: TargetTable | None) -> TrailgateError:
        """Convert an error of psycopg to ours: a fault to retry, a rejected row, or another refusal.

        An integrity or data error is about a row. Faults are recognized by SQLSTATE.
        """
        name = None if table is None else str(table)
        where = Where(source=self._shown, table=name, field=_column_of(error, table))
        fault = find_sqlstate_fault(error.sqlstate or "")
        # The server reports a SQLSTATE. An error without one comes from libpq, as after a lost
        # connection.
        if error.sqlstate is None and self._connection.closed:
            fault = TargetUnavailableError
        if fault is not None:
            return fault(f"PostgreSQL refuses: {_line(error)}", where=where)
        hint = DEFERRABLE if isinstance(error, psycopg.IntegrityError) else ""
        if (error.sqlstate or "").startswith(LIMITS) and table is not None:
            hint = STAGED_LIMITS
        is_of_row = isinstance(error, psycopg.IntegrityError | psycopg.DataError)
        kind = RowRefusedError if is_of_row else ApplyError
        numbers = REFUSALS.get(error.sqlstate or "", ())
        detail = mask_logins(error.diag.message_detail or "").strip()
        problem = f"PostgreSQL refuses: {_line(error)}" + (f". {detail}" if detail else "")
        refusal = kind(problem.rstrip("."), where=where, hint=hint)
        return refusal.with_numbers(numbers)


def check_place(address: str) -> None:
    """Raise StorageError if this is not the address of a PostgreSQL database, or names an unknown parameter of libpq."""
    try:
        conninfo_to_dict(f"postgresql:{address}")
    except psycopg.Error as error:
        where = Where(source=mask_logins(f"postgresql:{address}"))
        raise StorageError(_line(error), where=where) from None


def open_tables(address: str, group: str) -> PostgreSQLTarget:
    """Connect to a PostgreSQL database, and open its tables for a group."""
    return PostgreSQLTarget(address, group)


def _connect(address: str, group: str) -> psycopg.Connection[Any]:
    """Connect to a PostgreSQL database.

    Raises TargetUnavailableError if the server does not answer or is not ready, and StorageError if
    it refuses the login.
    """
    where = Where(source=mask_logins(address))
    try:
        usual = {**USUAL, "fallback_application_name": f"trailgate apply {group}"}
        stated: dict[str, Any] = conninfo_to_dict(address)
        # libpq ignores the variable if the parameter is set, as it is in USUAL.
        if "PGCONNECT_TIMEOUT" in os.environ:
            stated["connect_timeout"] = os.environ["PGCONNECT_TIMEOUT"]
        login = make_conninfo(**{**usual, **stated})
        for _ in range(LOGINS):
            try:
                return _configure(psycopg.connect(login))
            except psycopg.OperationalError as error:
                text = _line(error)
            # libpq reports no SQLSTATE for a failed login, and the text is in the server's language.
            # So ping the server. If it accepts connections but refuses this login, it will refuse it
            # again, unless it has reached its connection limit. It may also have been starting up and
            # be ready now, so the login is tried once more. The ping blocks the process, and needs
            # the timeout of the login.
            is_up = PGconn.ping(login.encode()) == Ping.OK
            if not is_up or "FATAL" not in text or any(one in text for one in FULL):
                raise TargetUnavailableError(text, where=where)
    except psycopg.Error as error:
        raise StorageError(_line(error), where=where) from None
    raise StorageError(text, where=where)


def _configure(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Set our session settings on a connection to PostgreSQL, and return the connection. Closes it on an error."""
    try:
        for name, value in SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'".encode())
        connection.commit()
    except BaseException:
        connection.close()
        raise
    load_times_as_text(connection)
    return connection


def group_positions(path: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the tables of a PostgreSQL database."""
    address = f"postgresql:{path}"
    with closing(_connect(address, "--status")) as connection:
        try:
            result = connection.execute(STATUS.encode())
            names = [column.name for column in result.description or ()]
            return parse_group_positions(names, result.fetchall())
        except psycopg.errors.UndefinedTable:
            return []
        except psycopg.Error as error:
            raise StorageError(_line(error), where=Where(source=mask_logins(address))) from None


def _column_of(error: psycopg.Error, table: TargetTable | None) -> str | None:
    """Return the column that a PostgreSQL error is about: the column that COPY was reading, or else the one that the error names."""
    match = re.search(r"COPY \w+, line \d+, column [cm](\d+)", error.diag.context or "")
    if match is None or table is None:
        return error.diag.column_name
    # The staging table of rows has all columns, that of keys only the key columns.
    columns = range(len(table.columns)) if STAGING in match[0] else table.key
    return table.columns[int(match[1])].name if int(match[1]) in columns else None


class _Attribute(NamedTuple):
    """A column of a PostgreSQL table, as the query ``COLUMNS`` returns it."""

    name: str
    base: str  # the base type, if the type is a domain
    modifier: int
    written: str  # the type as written in SQL, such as numeric(10,2)
    kind: str  # pg_type.typtype
    identity: str
    generated: str
    is_cased: bool


class _ColumnType(NamedTuple):
    """The types of a PostgreSQL column: as an Arrow type, in its table and in a staging table, and flags.

    ``stored`` is set only if the PostgreSQL type stores less of a value than the Arrow type.
    ``computed`` and ``on_insert`` are those of ``TargetColumn``.
    """

    type: pa.DataType
    stored: DatabaseColumnType | None
    staged: str
    computed: bool
    on_insert: bool


def _column_type(one: _Attribute) -> _ColumnType:
    kind, stored = _types_of(one)
    # Identity "a" is GENERATED ALWAYS: an INSERT can override it, but no UPDATE can set it.
    return _ColumnType(kind, stored, one.written, bool(one.generated), one.identity == "a")


def _types_of(one: _Attribute) -> tuple[pa.DataType, DatabaseColumnType | None]:
    """Return the Arrow type of a PostgreSQL column, and its PostgreSQL type if that stores less of a value.

    Types without an Arrow equivalent become text.
    """
    size = one.modifier
    if one.base == "numeric":
        return _numeric(one)
    arrow = next((kind for kind, name in ARROW_TYPES if name == one.base), None)
    if arrow is not None:
        # The modifier of a timestamp is its number of fraction digits, without HEADER.
        rounded = pa.types.is_timestamp(arrow) and size != UNCONSTRAINED
        return arrow, DatabaseColumnType(
            one.written, StorageRule.FRACTION, size
        ) if rounded else None
    if one.base in ("text", "character varying") and one.is_cased:
        most = UNCONSTRAINED if size == UNCONSTRAINED else size - HEADER
        return pa.string(), DatabaseColumnType(one.written, StorageRule.CHARACTERS, most)
    if one.base == "character" and one.is_cased:
        most = UNCONSTRAINED if size == UNCONSTRAINED else size - HEADER
        return pa.string(), DatabaseColumnType(one.written, StorageRule.PADDED, most)
    rule = RULES_OF_TYPES.get(
        one.base, StorageRule.PRINTED_KEY if one.kind == ENUM else StorageRule.PRINTED
    )
    most = UNCONSTRAINED
    if one.base in ("text", "character varying", "character"):
        # Not handled above, so the collation is nondeterministic: different texts can be equal.
        rule = StorageRule.UNCASED
    if one.base == "character varying" and size != UNCONSTRAINED:
        most = size - HEADER
    return pa.string(), DatabaseColumnType(one.written, rule, most)


def _numeric(one: _Attribute) -> tuple[pa.DataType, DatabaseColumnType | None]:
    """Return the types of a numeric column, as ``_types_of`` does: a decimal if Arrow has one of this precision and scale, else text."""
    if one.modifier == UNCONSTRAINED:
        return pa.string(), DatabaseColumnType(one.written, StorageRule.NUMBER)
    digits = one.modifier - HEADER
    # The precision is in the upper 16 bits and the scale in the lower 11, in two's complement since
    # PostgreSQL 15: numeric(10,2) is 10 << 16 | 2, and numeric(10,-2) is 10 << 16 | 0x7FE. The scale
    # may be greater than the precision.
    size, scale = digits >> 16 & 0xFFFF, ((digits & 0x7FF) ^ 0x400) - 0x400
    if size <= MOST_DIGITS and 0 <= scale <= size:
        return pa.decimal128(size, scale), None
    return pa.string(), DatabaseColumnType(one.written, StorageRule.NUMBER, size, scale)


def _carry_as_text(column: TargetColumn, name: str) -> TargetColumn:
    """Return a column that the source lacks with the type text, if it is a decimal, since Arrow's decimals have no NaN.

    Rows keep their values in these columns, which are only read and written again. ``name`` is the
    type in PostgreSQL.
    """
    if not (column.extra and pa.types.is_decimal(column.type)):
        return column
    stored = DatabaseColumnType(name, StorageRule.PRINTED)
    return replace(column, type=pa.string(), number=False, stored=stored)


def _is_number(stored: DatabaseColumnType | None) -> bool:
    return stored is not None and stored.rule is StorageRule.NUMBER


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Prepare a column of staged rows for Arrow's CSV writer.

    Bytes become text in PostgreSQL's hex format, and so do dates and times if Arrow cannot write
    them all.
    """
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        return format_times(column)
    if not pa.types.is_binary(column.type):
        return column
    chunks = [pc.binary_join_element_wise("\\x", to_hex(one), "") for one in column.chunks]
    return pa.chunked_array(chunks, pa.string())


def _array(values: tuple[Any, ...], column: TargetColumn) -> pa.Array:
    """Build an Arrow column from fetched values.

    Raises ApplyError for NaN in a column such as numeric(5,2), and for a timestamp after the year
    294246: Arrow has neither.
    """
    if pa.types.is_string(column.type):
        return pa.array([None if one is None else str(one) for one in values], column.type)
    try:
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            return parse_times(values, column.type)
        return pa.array(values, column.type)
    except (pa.ArrowInvalid, OverflowError):
        problem = f"the target has a row whose value in this column does not fit {column.type}: NaN, or a date too far away"
        raise ApplyError(problem, where=Where(field=column.name), hint=VALUE_HINT) from None


def _parts(table: TargetTable) -> tuple[str, str]:
    return database_checks.schema_and_name(table, "public", "a database of PostgreSQL")


def _quoted_name(table: TargetTable) -> str:
    return sql.quote_sql_name(*_parts(table))


def _name(table: TargetTable | None) -> str:
    return EVERY if table is None else str(table)


def _identifying(table: TargetTable) -> tuple[str, ...]:
    """Return the names of the columns that identify a row of a target table: the key, or in a table of operations the position."""
    return table.key_names or (POSITION,)


def _name_rows(
    effects: TableChanges, refused: Mapping[int, tuple[RowRefusedError, str]]
) -> RefusedRows:
    """Describe rejected rows by the columns that identify them.

    ``refused`` has the error of each row, and the other table of a foreign key or "", by the row's
    index in ``effects.nets``.
    """
    nets, names = effects.nets, _identifying(effects.nets.table)
    numbers = sorted(refused)
    # A table of operations has no key, and its position column identifies a row.
    columns = nets.key
    if not columns:
        columns = tuple(
            one.values
            for column, one in zip(nets.table.columns, nets.values, strict=True)
            if column.name in names and one.values is not None
        )
    keys = pa.table([one.take(pa.array(numbers, pa.int64())) for one in columns], names=list(names))
    return RefusedRows(
        keys, [refused[number][0] for number in numbers], [refused[number][1] for number in numbers]
    )


def _line(error: Exception) -> str:
    return mask_logins(" ".join(str(error).partition("\n")[0].split()))


def table_rows(_: str) -> pa.RecordBatchReader:
    """Raise OptionError, because PostgreSQL itself can answer queries on its tables."""
    raise OptionError("trailgate sql does not read PostgreSQL", hint="Use psql")
