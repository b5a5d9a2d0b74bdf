"""Tables of PostgreSQL: rows are copied to a temporary table, and written from there in one transaction of all tables and the position.

Arrow's own writer makes the text of COPY, whole columns at a time.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import psycopg
import pyarrow as pa
import pyarrow.csv
from psycopg import sql as psycopg_sql

from trailgate.apply.batch import Effects
from trailgate.apply.faults import CHECK, DUPLICATE, FOREIGN_KEY, NULL, TOO_LARGE, TOO_LONG
from trailgate.apply.tables import TargetTable
from trailgate.columnar.digits import to_hex
from trailgate.errors import ApplyError, OptionError, StorageError, Where, mask_logins
from trailgate.targets import sql
from trailgate.targets.ddl import HELD, POSTGRESQL
from trailgate.targets.target import Position, RowRefusedError, TablePosition

STAGING: Final = "trailgate_staging"
KEYS: Final = "trailgate_keys"
EVERY: Final = ""  # the table's name in the row of all tables
FETCHED: Final = 50_000  # rows of one part of a scan
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
DEFERRABLE: Final = "Rows of one batch are deleted, updated and inserted in this order: make foreign keys and further unique constraints DEFERRABLE"


class TableTarget:
    """The tables of a database."""

    widens = True
    commits_alone = False

    def __init__(self, rest: str, group: str) -> None:
        self._address, self._group = f"postgresql:{rest}", group
        self._types: dict[str, dict[str, str]] = {}
        try:
            self._connection = psycopg.connect(self._address)
        except psycopg.Error as error:
            raise StorageError(_line(error), where=Where(source=self._shown)) from None
        self._execute(
            f"CREATE TABLE IF NOT EXISTS {sql.CHECKPOINT} (grp text, target text, trail text, position text, csn text, op_ts bigint, "
            "PRIMARY KEY (grp, target))"
        )
        self._connection.commit()

    @property
    def _shown(self) -> str:
        return mask_logins(self._address)

    def position(self, table: TargetTable | None) -> Position | None:
        """Return how far a table was applied, or with None how far all tables were."""
        text = f"SELECT trail, position, csn, op_ts FROM {sql.CHECKPOINT} WHERE grp = %s AND target = %s"
        rows = self._execute(text, [self._group, _name(table)])
        return Position(*rows[0]) if rows else None

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied."""
        text = f"SELECT target, position FROM {sql.CHECKPOINT} WHERE grp = %s AND target <> '' ORDER BY 1"
        return [TablePosition(*row) for row in self._execute(text, [self._group])]

    def held(self, table: TargetTable) -> TargetTable | None:
        """Return the table as it is in the database; None where there is none."""
        schema, name = _parts(table)
        rows = self._execute(
            "SELECT n.nspname, c.relname, a.attname, a.atttypid::regtype::text, a.atttypmod, format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
            "WHERE lower(n.nspname) = lower(%s) AND lower(c.relname) = lower(%s) AND c.relkind IN ('r', 'p') ORDER BY a.attnum",
            [schema, name],
        )
        if not rows:
            return None
        fields = [pa.field(name, _arrow_type(kind, how)) for _, _, name, kind, how, _ in rows]
        found = table.as_held((rows[0][0], rows[0][1]), pa.schema(fields))
        self._types[str(found)] = {name: whole for _, _, name, _, _, whole in rows}
        columns = (
            replace(column, number=kind == "numeric" and pa.types.is_string(column.type))
            for column, (_, _, _, kind, _, _) in zip(found.columns, rows, strict=True)
        )
        return replace(found, columns=tuple(columns))

    def _type(self, table: TargetTable, at: int) -> str:
        """Return the type of a column, which is the table's own where it was there."""
        column = table.columns[at]
        return self._types.get(str(table), {}).get(column.name) or POSTGRESQL.type_of(column)

    def create(self, table: TargetTable) -> None:
        """Create a table with its key, and its schema."""
        schema, _ = _parts(table)
        text = POSTGRESQL.creation(table, _parts(table))
        self._execute(f"CREATE SCHEMA IF NOT EXISTS {sql.quoted(schema)}")
        self._execute(text)

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns of a table, NULL in all rows."""
        for column in table.columns:
            if column.name in names:
                self._execute(
                    f"ALTER TABLE {_quoted(table)} ADD COLUMN {sql.quoted(column.name)} {POSTGRESQL.type_of(column)}"
                )

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Give columns of integers eight bytes."""
        for name in names:
            alter = f"ALTER TABLE {_quoted(table)} ALTER COLUMN {sql.quoted(name)} TYPE bigint"
            self._execute(alter, table=table)
            self._types.get(str(table), {}).pop(name, None)

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows that have one of some keys: all columns, or those of the key alone."""
        kinds = {f"c{at}": self._type(table, at) for at in table.key}
        self._copy(KEYS, sql.key_columns(table, keys), kinds)
        columns = [table.columns[at] for at in table.key] if keys_alone else list(table.columns)
        found = self._execute(sql.selection(table, KEYS, keys_alone=keys_alone), table=table)
        values = list(zip(*found, strict=True)) or [()] * len(columns)
        arrays = [_array(own, column.type) for own, column in zip(values, columns, strict=True)]
        return pa.table(arrays, names=[column.name for column in columns])

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows, which are fetched in parts."""
        names = ", ".join(sql.quoted(column.name) for column in table.columns)
        cursor = self._connection.cursor(name="trailgate_scan")
        cursor.execute(f"SELECT {names} FROM {_quoted(table)}".encode())

        def batches() -> Iterator[pa.RecordBatch]:
            while found := cursor.fetchmany(FETCHED):
                columns = zip(*found, strict=True)
                arrays = [
                    _array(own, column.type)
                    for own, column in zip(columns, table.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=table.schema)
            cursor.close()

        return pa.RecordBatchReader.from_batches(table.schema, batches())

    def write(self, effects: Effects, at: Position) -> None:
        """Write the effects on one table."""
        table, rows = effects.nets.table, sql.staging_rows(effects)
        kinds = {f"c{at}": self._type(table, at) for at in range(len(table.columns))}
        marks = {f"m{number}": "boolean" for number in range(len(table.columns))}
        self._execute("SET CONSTRAINTS ALL DEFERRED")
        if closing := sql.closing_statement(effects):
            self._change(closing, table)
        self._copy(STAGING, rows, {**kinds, **marks, "e": "integer"}, table)
        for text, expected in sql.statements(effects, rows, STAGING):
            changed = self._change(text, table)
            if changed != expected >= 0:
                raise sql.changed_meanwhile(table, expected, changed)
        self._note(table, at)

    def commit(self, at: Position) -> None:
        """Make what was written since the last commit last, and with it the position."""
        self._note(None, at)
        try:
            self._connection.commit()
        except psycopg.Error as error:
            raise self._refusal(error, None) from None

    def rollback(self) -> None:
        """Forget what was written since the last commit."""
        if not self._connection.closed:
            self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _note(self, table: TargetTable | None, at: Position) -> None:
        self._change(
            f"INSERT INTO {sql.CHECKPOINT} VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (grp, target) DO UPDATE "
            "SET trail = EXCLUDED.trail, position = EXCLUDED.position, csn = EXCLUDED.csn, op_ts = EXCLUDED.op_ts",
            table,
            [self._group, _name(table), at.trail, at.position, at.csn, at.op_ts],
        )

    def _copy(
        self, staging: str, rows: pa.Table, kinds: dict[str, str], table: TargetTable | None = None
    ) -> None:
        """Copy rows to a temporary table of these types."""
        columns = ", ".join(f"{name} {kinds[name]}" for name in rows.schema.names)
        self._execute(f"DROP TABLE IF EXISTS pg_temp.{staging}")
        self._execute(f"CREATE TEMPORARY TABLE {staging} ({columns}) ON COMMIT DROP")
        text = io.BytesIO()
        pyarrow.csv.write_csv(
            pa.table([_as_text(one) for one in rows.columns], names=rows.schema.names),
            text,
            pyarrow.csv.WriteOptions(include_header=False),
        )
        statement = psycopg_sql.SQL(f"COPY {staging} FROM STDIN WITH (FORMAT csv)")
        try:
            with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write(text.getbuffer())
        except psycopg.Error as error:
            raise self._refusal(error, table) from None

    def _change(
        self, text: str, table: TargetTable | None = None, values: list[Any] | None = None
    ) -> int:
        """Return how many rows a statement changed."""
        try:
            return self._connection.execute(text.encode(), values).rowcount
        except psycopg.Error as error:
            raise self._refusal(error, table) from None

    def _execute(
        self, text: str, values: list[Any] | None = None, table: TargetTable | None = None
    ) -> list[Any]:
        """Return the rows of a statement; none of one that has none."""
        try:
            cursor = self._connection.execute(text.encode(), values)
            return cursor.fetchall() if cursor.description is not None else []
        except psycopg.Error as error:
            raise self._refusal(error, table) from None

    def _refusal(self, error: psycopg.Error, table: TargetTable | None) -> ApplyError:
        where = Where(source=self._shown, table=None if table is None else str(table))
        hint = DEFERRABLE if isinstance(error, psycopg.IntegrityError) else ""
        is_of_row = isinstance(error, psycopg.IntegrityError | psycopg.DataError)
        kind = RowRefusedError if is_of_row else ApplyError
        numbers = REFUSALS.get(error.sqlstate or "", ())
        refusal = kind(f"PostgreSQL refuses: {_line(error)}", where=where, hint=hint)
        return refusal.numbered(numbers)


UNCONSTRAINED: Final = -1  # the modifier of a numeric without digits


def _arrow_type(name: str, modifier: int) -> pa.DataType:
    """Return the type in which values of a column are compared and written; text for all that COPY reads as text."""
    if name == "numeric" and modifier != UNCONSTRAINED:
        digits = modifier - 4
        return pa.decimal128(min(digits >> 16, 38), digits & 0x7FF)
    kinds = zip(reversed(HELD), reversed(POSTGRESQL.types), strict=True)
    return next((kind for kind, own in kinds if own == name), pa.string())


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as Arrow writes it to CSV: bytes as PostgreSQL reads them."""
    if not pa.types.is_binary(column.type):
        return column
    chunks = [pa.compute.binary_join_element_wise("\\x", to_hex(one), "") for one in column.chunks]
    return pa.chunked_array(chunks, pa.string())


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        return pa.array([None if one is None else str(one) for one in values], kind)
    return pa.array(values, kind)


def _parts(table: TargetTable) -> tuple[str, str]:
    """Return the schema and the name of a table; one without a schema is in ``public``."""
    if len(table.name) == 1:
        return "public", table.name[0]
    if len(table.name) == 2:
        return table.name[0], table.name[1]
    hint = "MAP it to SCHEMA.TABLE"
    raise OptionError(f"a database of PostgreSQL has no catalogs, and {table} names one", hint=hint)


def _quoted(table: TargetTable) -> str:
    return sql.quoted(*_parts(table))


def _name(table: TargetTable | None) -> str:
    return EVERY if table is None else str(table)


def _line(error: Exception) -> str:
    return mask_logins(" ".join(str(error).partition("\n")[0].split()))


def table_rows(_: str) -> pa.RecordBatchReader:
    """Refuse to read a table: PostgreSQL answers queries by itself."""
    raise OptionError("trailgate sql does not read PostgreSQL", hint="Use psql")
