"""Delta tables by delta-rs, without Java: one folder a table, one commit a table and batch, with the position in it.

``delta:lake/`` has the table HR.JOBS in ``lake/hr/jobs``. The position of each is the version of an application transaction (``txn``) of its commit: the number of the trail's file and the
offset in it in one integer. How far all tables are is a row of the table ``lake/_trailgate/GROUP``, which is written when the tables of a batch are committed; a run that was killed
between begins there, and each table leaves out what it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Final, TypeVar

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from trailgate.apply.batch import Effects, whole_rows
from trailgate.apply.nets import Effect
from trailgate.apply.tables import TargetTable
from trailgate.columnar.digits import long_position, parse_position
from trailgate.errors import ApplyError, OptionError, StorageError, TrailgateError, Where
from trailgate.targets import sql
from trailgate.targets.target import Position, TablePosition

STATE: Final = "_trailgate"
OFFSET_BITS: Final = 33
NUMBER_BITS: Final = 30
APP: Final = "trailgate:{}"
CHECKPOINT: Final = pa.schema(
    [
        ("trail", pa.string()),
        ("position", pa.string()),
        ("csn", pa.string()),
        ("op_ts", pa.timestamp("us", "UTC")),
        ("tables", pa.list_(pa.string())),
    ]
)
REFUSED: Final = frozenset("[]^|\\")
FLOAT_DIGITS: Final = 15  # that a float of 64 bits has of every number
LONG_DIGITS: Final = 18  # that an integer of 64 bits has of every number
MOST_SIGNS: Final = 300  # of what delta-rs says, in an error
DELTA_ERRORS: Final = (DeltaError, pa.ArrowException, OSError, ValueError)
CONSTRAINTS: Final = "NOT NULL columns and CHECK constraints refuse rows: change the constraint, or leave the table out by --tables"
# Signs of errors that are not cured by another try: what they mean, and what to do.
REFUSALS: Final = (
    (
        "append-only",
        "the table takes no updates and deletes: its property delta.appendOnly is true",
        "Apply to it with --mode append, or set the property to false",
    ),
    (
        "APPEND_ONLY",
        "the table takes no updates and deletes: its property delta.appendOnly is true",
        "Apply to it with --mode append, or set the property to false",
    ),
    (
        "Unsupported table features",
        "delta-rs does not write tables with this feature: {}",
        "Apply by a session of Spark that has Delta, trailgate.spark.apply(..., merge='session'), or drop the feature: ALTER TABLE t DROP FEATURE name",
    ),
    (
        "Duplicate field name",
        "Delta has no two columns whose names differ only in case: {}",
        "Give one of them another name, by COLMAP in a parameter file",
    ),
)
STATISTICS: Final = "delta.dataSkippingStatsColumns"
INDEXED: Final = "delta.dataSkippingNumIndexedCols"
SIMPLE: Final = re.compile(r"\w+")  # names that each library reads alike in a list of columns
# Types that Delta has statistics of.
COUNTED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_floating,
    pa.types.is_temporal,
    pa.types.is_string,
)
# Types whose bounds choose files. Spark cuts the bounds of times to milliseconds.
RANGED: Final = (
    pa.types.is_integer,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_string,
)

Result = TypeVar("Result")


class TableTarget:
    """The Delta tables below a folder, on a disk or in a store that delta-rs knows."""

    widens = False

    def __init__(self, root: str, group: str) -> None:
        self._root, self._group = root.rstrip("/"), group
        _check_name(root if "://" in root else str(Path(root).absolute()))
        self._app = APP.format(group)
        self._tables: dict[str, DeltaTable] = {}
        self._names = {name for row in self._rows() for name in row["tables"]}

    def position(self, table: TargetTable | None) -> Position | None:
        """Return how far a table was applied, or with None how far all tables were."""
        if table is None:
            return self._checkpoint()
        found = self._open(table)
        version = None if found is None else found.transaction_version(self._app)
        if version is None:
            return None
        number, offset = divmod(version, 1 << OFFSET_BITS)
        return Position("", long_position(number, offset))

    def _checkpoint(self) -> Position | None:
        for row in self._rows():
            micros = pa.scalar(row["op_ts"], CHECKPOINT.field("op_ts").type).value
            return Position(row["trail"], row["position"], row["csn"], micros)
        return None

    def _rows(self) -> list[dict[str, Any]]:
        """Return the row of the checkpoint, where there is one."""
        found = self._opened(self._state)
        if found is None:
            return []
        found.update_incremental()
        rows: list[dict[str, Any]] = _reader(found).read_all().to_pylist()
        return rows

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied, and its version."""
        found = []
        for name in sorted(self._names):
            table = self._opened(f"{self._root}/{name}")
            number = None if table is None else table.transaction_version(self._app)
            if table is not None and number is not None:
                position = long_position(*divmod(number, 1 << OFFSET_BITS))
                found.append(TablePosition(name.replace("/", "."), position, table.version()))
        return found

    @property
    def _state(self) -> str:
        return f"{self._root}/{STATE}/{self._group}"

    def held(self, table: TargetTable) -> TargetTable | None:
        """Return the table as it is in the folder; None where there is none."""
        found = self._open(table)
        return None if found is None else table.as_held(table.name, pa.schema(found.schema()))

    def planned(self, table: TargetTable) -> TargetTable:
        """Return a table that is to be created: its types keep all that Arrow's do."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table."""
        path = self._path(table)
        settings = statistics_settings(table.schema, {})
        made = _refusing(
            path, lambda: DeltaTable.create(path, table.schema, configuration=settings)
        )
        self._tables[path] = made

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns of a table, NULL in all rows."""
        path = self._path(table)
        added = pa.schema([table.schema.field(name) for name in names])
        fields = deltalake.Schema.from_arrow(added).fields
        _refusing(path, lambda: self._tables[path].alter.add_columns(fields))

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing: delta-rs changes no type."""

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows that have one of some keys: all columns, or those of the key alone."""
        path, found = self._path(table), self._open(table)
        assert found is not None
        names = list(table.key_names if keys_alone else table.schema.names)
        schema = pa.schema([table.schema.field(name) for name in names])
        own = {name: keys[name].combine_chunks() for name in table.key_names}
        chosen = [pc.field(name).isin(values.unique()) for name, values in own.items()]
        bounds = " AND ".join(filter(None, map(_bounds, own, own.values()))) or None

        def read() -> pa.Table:
            rows = _reader(found, schema, bounds)
            return ds.Scanner.from_batches(rows, filter=reduce(and_, chosen)).to_table()

        return _refusing(path, read)

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows."""
        found = self._open(table)
        assert found is not None
        return _refusing(self._path(table), lambda: _reader(found))

    def write(self, effects: Effects, at: Position) -> None:
        """Write the effects on one table, and commit it with the position."""
        nets, table = effects.nets, effects.nets.table
        path, found = self._path(table), self._open(table)
        assert found is not None
        known = found.transaction_version(self._app)
        _, version = self._transaction(at)
        if known is not None and known >= version:
            raise StorageError(
                "somebody else applies the same trail to this table", where=Where(source=path)
            )
        _leave_out_rounded_statistics(path, found)
        properties = self._properties(at)
        if effects.emptied:
            inserted = nets.where(nets.effect != Effect.DELETE)
            rows = pa.table([one.values for one in whole_rows(inserted)], schema=table.schema)
            _refusing(
                path,
                lambda: write_deltalake(
                    found, rows, mode="overwrite", commit_properties=properties
                ),
            )
        elif effects.closing is not None:
            closing = effects.closing
            updates = {name: sql.literal(one) for name, one in closing.values.items()}
            _refusing(
                path,
                lambda: found.update(
                    updates, predicate=sql.is_open(closing), commit_properties=properties
                ),
            )
        elif effects.appended:
            rows = pa.table([one.values for one in whole_rows(nets)], schema=table.schema)
            _refusing(
                path,
                lambda: write_deltalake(found, rows, mode="append", commit_properties=properties),
            )
        elif len(nets):
            _refusing(path, lambda: self._merge(effects, at))
        else:
            return
        found.update_incremental()
        self._names.add("/".join(table.name))

    def _merge(self, effects: Effects, at: Position) -> None:
        """Write effects by key, and commit them with the position."""
        table = effects.nets.table
        found = self._open(table)
        assert found is not None
        names = [sql.quoted(column.name) for column in table.columns]
        inserted = {name: f"s.c{at}" for at, name in enumerate(names)}
        updated = {
            name: f"CASE WHEN s.m{at} THEN t.{name} ELSE s.c{at} END"
            for at, name in enumerate(names)
            if at not in table.key
        }
        merger = found.merge(
            sql.staging_rows(effects),
            _match(table),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            commit_properties=self._properties(at),
        )
        merger = merger.when_matched_delete(f"s.e = {Effect.DELETE:d}")
        if updated:
            merger = merger.when_matched_update(updated, f"s.e = {Effect.PATCH:d}")
        merger.when_not_matched_insert(inserted, f"s.e = {Effect.INSERT:d}").execute()

    def commit(self, at: Position) -> None:
        """Note that all tables are applied up to the position."""
        row = pa.table(
            {
                "trail": [at.trail],
                "position": [at.position],
                "csn": [at.csn],
                "op_ts": pa.array([at.op_ts], pa.int64()).cast(CHECKPOINT.field("op_ts").type),
                "tables": [sorted(self._names)],
            },
            schema=CHECKPOINT,
        )
        _refusing(self._state, lambda: write_deltalake(self._state, row, mode="overwrite"))

    def rollback(self) -> None:
        """Do nothing: what was written is committed, and is left out when the batch is applied again."""

    def close(self) -> None:
        """Let go of the tables."""
        self._tables.clear()

    def _properties(self, at: Position) -> CommitProperties:
        return CommitProperties(
            custom_metadata=self._metadata(at),
            app_transactions=[Transaction(*self._transaction(at))],
        )

    def _metadata(self, at: Position) -> dict[str, str]:
        """Return the position in words, for who reads the history of a table."""
        names = {"trail": at.trail, "position": at.position, "csn": at.csn or ""}
        return {f"trailgate.{name}": value for name, value in names.items()}

    def _transaction(self, at: Position) -> tuple[str, int]:
        """Return the application transaction of a commit: the application's name, and the position as its version."""
        return self._app, _version(at.position)

    def _path(self, table: TargetTable) -> str:
        for part in table.name:
            if part in (".", "..", STATE) or "/" in part or "%" in part:
                problem = f"{part!r} cannot be the name of a folder of Delta tables"
                raise OptionError(problem, hint="MAP the table to another name")
            _check_name(part)
        return "/".join((self._root, *table.name))

    def _open(self, table: TargetTable) -> DeltaTable | None:
        return self._opened(self._path(table))

    def _opened(self, path: str) -> DeltaTable | None:
        if path not in self._tables:
            try:
                self._tables[path] = DeltaTable(path)
            except TableNotFoundError:
                return None
            except (DeltaError, OSError) as error:
                raise StorageError(_line(str(error)), where=Where(source=path)) from None
        return self._tables[path]


def _reader(
    table: DeltaTable, schema: pa.Schema | None = None, predicate: str | None = None
) -> pa.RecordBatchReader:
    """Read the columns of a schema, by default all, and the rows that fit a predicate.

    delta-rs' own engine reads tables with deletion vectors and mapped columns, which its PyArrow datasets refuse. It gives text as views, of
    which Arrow filters none, so they are cast.
    """
    schema = schema or pa.schema(table.schema())
    rows = pa.RecordBatchReader.from_stream(table.scan(schema.names, predicate))
    return rows.cast(schema)


def has_rounded_statistics(kind: pa.DataType) -> bool:
    """Return whether delta-rs rounds the statistics of a column: it has the bounds of decimals as 64 bits, and those with a scale as floats.

    The greatest 9007199254740993 in a file is then stated as ...992, and whoever looks for ...993 leaves the file out.
    """
    if not pa.types.is_decimal(kind):
        return False
    return bool(kind.precision > (FLOAT_DIGITS if kind.scale else LONG_DIGITS))


def statistics_settings(schema: pa.Schema, known: Mapping[str, str | None]) -> dict[str, str]:
    """Return the table properties by which no statistics are written of columns that delta-rs rounds; none where the properties that a table has leave them out already.

    Every reader of the table trusts its statistics, so this is about all columns, and not about those of the key alone.
    """
    rounded = [field.name for field in schema if has_rounded_statistics(field.type)]
    listed = known.get(STATISTICS)
    if not rounded:
        return {}
    if listed is not None:
        names = [name.strip().strip("`") for name in listed.split(",")]
        chosen = [name for name in names if name not in rounded]
        return {} if chosen == names else {STATISTICS: ",".join(map("`{}`".format, chosen))}
    count = int(known.get(INDEXED) or 32)  # Delta's own default
    first = schema.names[: count if count >= 0 else None]
    if not set(first) & set(rounded):
        return {}
    chosen = [
        field.name
        for field in schema
        if field.name in first
        and SIMPLE.fullmatch(field.name)
        and any(fits(field.type) for fits in COUNTED)
        and not has_rounded_statistics(field.type)
    ]
    return {STATISTICS: ",".join(map("`{}`".format, chosen))}


def _leave_out_rounded_statistics(path: str, table: DeltaTable) -> None:
    """Set the properties of a table that others created, before delta-rs writes to it."""
    settings = statistics_settings(pa.schema(table.schema()), table.metadata().configuration)
    if settings:
        _refusing(path, lambda: table.alter.set_table_properties(settings))


def _bounds(name: str, values: pa.Array) -> str | None:
    """Return the condition that a column is within the bounds of values; None for types whose bounds leave out files that have such rows."""
    ranged = any(fits(values.type) for fits in RANGED)
    if not ranged or has_rounded_statistics(values.type) or values.null_count or not len(values):
        return None
    bounds = pc.min_max(values)
    low, high = (_literal(bounds[one]) for one in ("min", "max"))
    return f"{sql.quoted(name)} BETWEEN {low} AND {high}"


def _literal(value: pa.Scalar) -> str:
    """Return a value of a type of RANGED as DataFusion has it."""
    if pa.types.is_integer(value.type):
        return str(value.as_py())
    text = str(value.as_py()).replace("'", "''")
    if pa.types.is_decimal(value.type):
        return f"CAST('{text}' AS DECIMAL({value.type.precision},{value.type.scale}))"
    return f"CAST('{text}' AS DATE)" if pa.types.is_date(value.type) else f"'{text}'"


def _match(table: TargetTable) -> str:
    """Return the condition that a row of the table and one of staging have the same key.

    Tables that others created have statistics of every column: keys whose ones are rounded are compared as text, for which no file is left out.
    """
    equal = "IS NOT DISTINCT FROM" if table.keyless else "="
    pairs = []
    for at in table.key:
        sides = (f"t.{sql.quoted(table.columns[at].name)}", f"s.c{at}")
        if has_rounded_statistics(table.columns[at].type):
            sides = tuple(f"CAST({side} AS VARCHAR)" for side in sides)
        pairs.append(f"({f' {equal} '.join(sides)})")
    # DataFusion takes AND for the narrower one where there are no parentheses.
    return " AND ".join(pairs)


def _check_name(path: str) -> None:
    """Raise OptionError for what delta-rs ends the process at, or writes elsewhere."""
    bad = [sign for sign in path if sign in REFUSED or not sign.isprintable()]
    if bad:
        problem = f"delta-rs writes no table in a path that has {bad[0]!r}: {path}"
        raise OptionError(problem, hint="Name another folder")


def table_rows(path: str) -> pa.RecordBatchReader:
    """Return a reader of a table by its folder."""
    try:
        return _reader(DeltaTable(path))
    except (DeltaError, OSError) as error:
        raise StorageError(_line(str(error)), where=Where(source=path)) from None


def _version(position: str) -> int:
    """Return a position as one integer; raises StorageError for one beyond what it holds."""
    number, offset = parse_position(position)
    if number >> NUMBER_BITS or offset >> OFFSET_BITS:
        raise StorageError(
            f"the position {number}:{offset} does not fit the version of a Delta transaction",
            hint="It holds file numbers below 2^30 and offsets below 2^33",
        )
    return number << OFFSET_BITS | offset


def _refusing(path: str, act: Callable[[], Result]) -> Result:
    """Return what delta-rs returns; its errors become ours."""
    try:
        return act()
    except TrailgateError:
        raise
    except DELTA_ERRORS as error:
        raise refusal(error, path) from None
    except Exception as error:
        # delta-rs raises some errors of schemas as bare exceptions.
        if type(error) is not Exception:
            raise
        raise refusal(error, path) from None


def refusal(error: Exception, path: str) -> TrailgateError:
    """Return the error for one of delta-rs, or of Delta on Spark."""
    text, where = str(error), Where(source=path)
    for sign, problem, hint in REFUSALS:
        if sign in text:
            return ApplyError(problem.format(_line(text)), where=where, hint=hint)
    if isinstance(error, CommitFailedError):
        return StorageError(
            f"another writer changed the table meanwhile: {_line(text)}",
            where=where,
            hint="Nothing is lost: apply again",
        )
    rows = [line.strip("| ") for line in text.splitlines() if line.startswith("|")]
    if len(rows) > 1:
        names, values = (re.split(r"\s*\|\s*", row) for row in rows[:2])
        row = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
        problem = f"the table's constraints refuse a row: {row[:MOST_SIGNS]}"
        return ApplyError(problem, where=where, hint=CONSTRAINTS)
    return ApplyError(f"delta-rs refuses: {_line(text)}", where=where)


def _line(text: str) -> str:
    """Return a text of several lines as one."""
    whole = " ".join(text.split())
    return whole if len(whole) <= MOST_SIGNS else f"{whole[:MOST_SIGNS]} ..."
