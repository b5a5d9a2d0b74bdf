"""Delta tables by delta-rs, without Java: one folder a table, one commit a table and batch, with the position in it.

``delta:lake/`` has the table HR.JOBS in ``lake/hr/jobs``. The position of each is the version of an application transaction (``txn``) of its commit: the number of the trail's file and the
offset in it in one integer. How far all tables are is a row of the table ``lake/_trailgate/GROUP``, which is written when the tables of a batch are committed; a run that was killed
between begins there, and each table leaves out what it has.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector, PyFileSystem

from trailgate.apply.effects.batch import TableChanges
from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets import sql
from trailgate.apply.targets.delta_errors import opening, refusing
from trailgate.apply.targets.delta_rows import (
    bounds_of,
    check_partitions,
    computed_columns,
    match,
    named_rows,
    new_rows,
    reader,
)
from trailgate.apply.targets.delta_statistics import statistics_settings
from trailgate.apply.targets.target import GroupPosition, Position, TablePosition, moved_on
from trailgate.columnar.digits import long_position, parse_position
from trailgate.errors import OptionError, StorageError, Where

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
        ("digest", pa.string()),
        ("reached", pa.string()),
    ]
)
REFUSED: Final = frozenset("[]^|\\")
STATED: Final = 100  # commits that are searched for the one of a position


class TableTarget:
    """The Delta tables below a folder, on a disk or in a store that delta-rs knows."""

    widens = False
    commits_alone = True

    def __init__(self, root: str, group: str) -> None:
        self._root, self._group = root.rstrip("/"), group
        _check_name(root if "://" in root else str(Path(root).absolute()))
        self._app = APP.format(group)
        self._tables: dict[str, DeltaTable] = {}
        self._versions: dict[str, int | None] = {}  # of the transactions that this run knows
        self._names = {name for row in self._rows() for name in row["tables"]}

    def position(self, table: TargetTable | None) -> Position | None:
        """Return how far a table was applied, or with None how far all tables were."""
        if table is None:
            return self._checkpoint()
        found = self._open(table)
        version = None if found is None else found.transaction_version(self._app)
        self._versions[self._path(table)] = version
        if version is None:
            return None
        self._names.add("/".join(table.name))  # a run that was killed has not listed it
        number, offset = divmod(version, 1 << OFFSET_BITS)
        return Position("", long_position(number, offset))

    def _checkpoint(self) -> Position | None:
        for row in self._rows():
            micros = pa.scalar(row["op_ts"], CHECKPOINT.field("op_ts").type).value
            known = (row["trail"], row["position"], row["csn"], micros)
            return Position(*known, row.get("digest"), row.get("reached"))
        return None

    def _rows(self) -> list[dict[str, Any]]:
        """Return the row of the checkpoint, where there is one."""
        found = self._opened(self._state)
        if found is None:
            return []
        found.update_incremental()
        rows: list[dict[str, Any]] = reader(found).read_all().to_pylist()
        return rows

    def positions(self) -> list[TablePosition]:
        """Return how far each table was applied, and its version."""
        found = []
        for name in sorted(self._names):
            table = self._opened(f"{self._root}/{name}")
            number = None if table is None else table.transaction_version(self._app)
            if table is not None and number is not None:
                position = long_position(*divmod(number, 1 << OFFSET_BITS))
                commit = _stated(f"{self._root}/{name}", table.version(), position)
                shown = name.replace("/", ".")
                found.append(TablePosition(shown, position, table.version(), *commit))
        return found

    @property
    def _state(self) -> str:
        return f"{self._root}/{STATE}/{self._group}"

    def held(self, table: TargetTable) -> TargetTable | None:
        """Return the table as it is in the folder; None where there is none."""
        found = self._open(table)
        if found is None:
            return None
        held, computed = (
            table.as_held(table.name, pa.schema(found.schema())),
            computed_columns(found),
        )
        columns = tuple(replace(one, computed=one.name in computed) for one in held.columns)
        return replace(held, columns=columns).without_computed()

    def planned(self, table: TargetTable) -> TargetTable:
        """Return a table that is to be created: its types keep all that Arrow's do."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a table."""
        path = self._path(table)
        settings = statistics_settings(table.schema, {})
        made = refusing(
            path,
            lambda: DeltaTable.create(
                path,
                table.schema,
                configuration=settings,
                storage_options=storage_options(path),
            ),
        )
        self._tables[path] = made

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns of a table, NULL in all rows."""
        path = self._path(table)
        added = pa.schema([table.schema.field(name) for name in names])
        fields = deltalake.Schema.from_arrow(added).fields
        refusing(path, lambda: self._tables[path].alter.add_columns(fields))

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing: delta-rs changes no type."""

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Return the rows that have one of some keys: all columns, or those of the key alone."""
        path, found = self._path(table), self._open(table)
        assert found is not None
        self._check_own(table, found)
        names = list(table.key_names if keys_alone else table.schema.names)
        schema = pa.schema([table.schema.field(name) for name in names])
        own = {name: keys[name].combine_chunks() for name in table.key_names}
        chosen = [pc.field(name).isin(values.unique()) for name, values in own.items()]
        bounds = " AND ".join(filter(None, map(bounds_of, own, own.values()))) or None

        def read() -> pa.Table:
            rows = reader(found, schema, bounds)
            return ds.Scanner.from_batches(rows, filter=reduce(and_, chosen)).to_table()

        return refusing(path, read)

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Return a reader of all rows."""
        found = self._open(table)
        assert found is not None
        return refusing(self._path(table), lambda: reader(found))

    def write(self, effects: TableChanges, at: Position) -> None:
        """Write the effects on one table, and commit it with the position."""
        nets, table = effects.nets, effects.nets.table
        path, found = self._path(table), self._open(table)
        assert found is not None
        self._check_own(table, found)
        _leave_out_rounded_statistics(path, found)
        properties = self._properties(at)
        if effects.emptied:
            inserted = nets.where(nets.effect != RowEffect.DELETE)
            rows = new_rows(inserted)
            check_partitions(path, found, rows)
            refusing(
                path,
                lambda: write_deltalake(
                    found, rows, mode="overwrite", commit_properties=properties
                ),
            )
        elif effects.closing is not None:
            closing = effects.closing
            updates = {name: sql.literal(one) for name, one in closing.values.items()}
            refusing(
                path,
                lambda: found.update(
                    updates, predicate=sql.is_open(closing), commit_properties=properties
                ),
            )
        elif effects.appended:
            rows = new_rows(nets)
            check_partitions(path, found, rows)
            refusing(
                path,
                lambda: write_deltalake(found, rows, mode="append", commit_properties=properties),
            )
        elif len(nets):
            refusing(path, lambda: self._merge(effects, at))
        else:
            return
        found.update_incremental()
        _, version = self._transaction(at)
        # An UPDATE that finds no row commits nothing.
        own = (self._versions.get(path), version)
        self._versions[path] = found.transaction_version(self._app)
        if self._versions[path] not in own:
            raise moved_on(self._group, path)
        self._names.add("/".join(table.name))

    def _check_own(self, table: TargetTable, found: DeltaTable) -> None:
        """Raise TargetConflictError if another run of this group has written a table since."""
        path = self._path(table)
        if found.transaction_version(self._app) != self._versions.get(path):
            raise moved_on(self._group, path)

    def _merge(self, effects: TableChanges, at: Position) -> None:
        """Write effects by key, and commit them with the position."""
        table = effects.nets.table
        found = self._open(table)
        assert found is not None
        staging = sql.staging_rows(effects)
        check_partitions(self._path(table), found, named_rows(table, staging))
        # A computed column that is set to NULL is computed again.
        updated = {sql.quoted(name): "NULL" for name in computed_columns(found)}
        inserted = {}
        for number, column in enumerate(table.columns):
            if column.computed:
                continue
            name = sql.quoted(column.name)
            inserted[name] = f"s.c{number}"
            if number not in table.key:
                updated[name] = f"CASE WHEN s.m{number} THEN t.{name} ELSE s.c{number} END"
        merger = found.merge(
            staging,
            match(table),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            commit_properties=self._properties(at),
        )
        merger = merger.when_matched_delete(f"s.e = {RowEffect.DELETE:d}")
        if updated:
            merger = merger.when_matched_update(updated, f"s.e = {RowEffect.PATCH:d}")
        merger.when_not_matched_insert(inserted, f"s.e = {RowEffect.INSERT:d}").execute()

    def commit(self, at: Position) -> None:
        """Note that all tables are applied up to the position."""
        row = pa.table(
            {
                "trail": [at.trail],
                "position": [at.position],
                "csn": [at.csn],
                "op_ts": pa.array([at.op_ts], pa.int64()).cast(CHECKPOINT.field("op_ts").type),
                "tables": [sorted(self._names)],
                "digest": [at.digest],
                "reached": [at.reached],
            },
            schema=CHECKPOINT,
        )
        # The table of an earlier version has fewer columns.
        refusing(
            self._state,
            lambda: write_deltalake(
                self._state,
                row,
                mode="overwrite",
                schema_mode="overwrite",
                storage_options=storage_options(self._state),
            ),
        )

    def rollback(self) -> None:
        """Do nothing: what was written is committed, and is left out when the batch is applied again."""

    def release(self) -> None:
        """Forget the snapshots: the next batch reads those that others have committed by then."""
        self._tables.clear()

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
        names = {
            "trail": at.trail,
            "position": at.position,
            "csn": at.csn or "",
            "op_ts": "" if at.op_ts is None else str(at.op_ts),
        }
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
                self._tables[path] = DeltaTable(path, storage_options=storage_options(path))
            except TableNotFoundError:
                return None
            except (DeltaError, OSError) as error:
                raise opening(error, path) from None
        return self._tables[path]


def _leave_out_rounded_statistics(path: str, table: DeltaTable) -> None:
    """Set the properties of a table that others created, before delta-rs writes to it."""
    settings = statistics_settings(pa.schema(table.schema()), table.metadata().configuration)
    if settings:
        refusing(path, lambda: table.alter.set_table_properties(settings))


def storage_options(path: str) -> dict[str, str] | None:
    """Return what delta-rs needs beside the environment: without it, it refuses a store of S3's protocol at an http address."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    address = next(filter(None, map(os.environ.get, names)), "")
    is_plain = path.startswith(("s3://", "s3a://")) and address.startswith("http://")
    return {"aws_allow_http": "true"} if is_plain else None


def _check_name(path: str) -> None:
    """Raise OptionError for what delta-rs ends the process at, or writes elsewhere."""
    bad = [sign for sign in path if sign in REFUSED or not sign.isprintable()]
    if bad:
        problem = f"delta-rs writes no table in a path that has {bad[0]!r}: {path}"
        raise OptionError(problem, hint="Name another folder")


def table_rows(path: str) -> pa.RecordBatchReader:
    """Return a reader of a table by its folder."""
    try:
        return reader(DeltaTable(path, storage_options=storage_options(path)))
    except (DeltaError, OSError) as error:
        raise opening(error, path) from None


def group_positions(root: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the tables below a folder, or in a store."""
    root = root.rstrip("/")
    if "://" not in root and not Path(root).is_dir():
        raise StorageError("there is no such folder", where=Where(source=root))
    try:
        folder = folder_of(root)
        found = folder.get_file_info(FileSelector(STATE, allow_not_found=True))
    except (DeltaError, OSError) as error:
        raise opening(error, root) from None
    targets = [
        (one.base_name, TableTarget(root, one.base_name)) for one in found if not one.is_file
    ]
    return [GroupPosition(name, one.position(None), one.positions()) for name, one in targets]


def _stated(path: str, version: int, position: str) -> tuple[str | None, int | None]:
    """Find the commit of a position and return the CSN and the commit time in it.

    Others may have committed after it, such as an OPTIMIZE, so up to 100 commits are read, the newest first. Usually the first is the one: `DeltaTable.history` would list the whole
    log and read all of them.
    """
    log = folder_of(path)
    for number in range(version, max(version - STATED, -1), -1):
        try:
            with log.open_input_stream(f"_delta_log/{number:020d}.json") as file:
                actions = map(json.loads, file.read().splitlines())
                commit: dict[str, str] = next(
                    (one["commitInfo"] for one in actions if "commitInfo" in one), {}
                )
        except FileNotFoundError:  # a cleanup of the log removed it
            return None, None
        if commit.get("trailgate.position") == position:
            op_ts = commit.get("trailgate.op_ts")
            return commit.get("trailgate.csn") or None, int(op_ts) if op_ts else None
    return None, None


def folder_of(path: str) -> PyFileSystem:
    """Open a folder of a disk or store by the library that reads its tables, with the same login."""
    return PyFileSystem(DeltaStorageHandler(path, storage_options(path)))


def _version(position: str) -> int:
    """Return a position as one integer; raises StorageError for one beyond what it holds."""
    number, offset = parse_position(position)
    if number >> NUMBER_BITS or offset >> OFFSET_BITS:
        raise StorageError(
            f"the position {number}:{offset} does not fit the version of a Delta transaction",
            hint="It holds file numbers below 2^30 and offsets below 2^33",
        )
    return number << OFFSET_BITS | offset
