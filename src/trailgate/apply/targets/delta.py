"""Write Delta tables with delta-rs, which needs no Java: one folder per table, one commit per table and batch.

``delta:lake/`` has the table HR.JOBS in ``lake/hr/jobs``. Each commit contains an application
transaction (``txn``) whose version is the position: the number of the trail file in the upper bits
and the offset in the lower 33. File 2, offset 12345 becomes ``2 << 33 | 12345``.

After all tables of a batch, the position of all tables is written as the only row of the table
``lake/_trailgate/GROUP``. If a run is killed in between, the next run starts from the older
position there, and tables that were already committed skip the operations that they contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import deltalake
import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow.fs import FileSelector

from trailgate.apply.effects.nets import RowEffect
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets import sql
from trailgate.apply.targets.checkpoints import (
    LAKE_STATE,
    AppliedTables,
    RestoredState,
    build_dropped_table_error,
    decode_lake_checkpoint,
    encode_lake_checkpoint,
)
from trailgate.apply.targets.delta_checks import (
    RowRule,
    add_nulls,
    add_partitions,
    check_append_only,
    find_rule_breaks,
    list_row_rules,
)
from trailgate.apply.targets.delta_commits import LOG, GroupCommit, find_group_commit
from trailgate.apply.targets.delta_errors import call_delta, convert_open_error
from trailgate.apply.targets.delta_places import DeltaPlace, find_delta_place
from trailgate.apply.targets.delta_properties import (
    find_computed_columns,
    plan_statistics_properties,
    plan_writer_properties,
)
from trailgate.apply.targets.delta_rows import (
    build_delta_key_match,
    build_delta_rows,
    build_range_condition,
    read_delta_rows,
    select_rows,
)
from trailgate.apply.targets.faults import build_concurrent_run_error
from trailgate.apply.targets.lake_rows import UnfitRows, build_written_rows
from trailgate.apply.targets.target import (
    AppliedPosition,
    GroupPosition,
    RefusedRows,
    RowRefusedError,
    TablePosition,
)
from trailgate.arrays import Longs
from trailgate.errors import DefinitionError, OptionError, StorageError, Where
from trailgate.model.positions import long_position, parse_position

# A transaction version is a signed 64-bit integer: 30 bits of file number and 33 of offset.
OFFSET_BITS: Final = 33
NUMBER_BITS: Final = 30
APP: Final = "trailgate:{}"
TIME: Final = pa.timestamp("us", "UTC")  # of the checkpoint's op_ts
GROUP_HINT: Final = "Name another group: --group NAME"
MAP_HINT: Final = "MAP the table to another name in a parameter file (--params)"
REFUSED: Final = frozenset("[]^|\\")


class DeltaTarget:
    """The target of Delta tables below a folder, on a disk or in an object store that delta-rs supports."""

    widens = False
    folds_names = False
    commits_alone = True

    def __init__(self, root: str, group: str) -> None:
        self._root, self._group = check_place(root), group
        _check_folder_name(group)
        self._app = APP.format(group)
        self._tables: dict[str, DeltaTable] = {}
        self._versions: dict[str, int | None] = {}  # last known transaction version, by path
        self._checked: dict[str, int] = {}  # last version that was not restored, by path
        # Read last: it opens the checkpoint's table by the members above.
        self._applied = AppliedTables(self._rows())
        self._writing: dict[str, WriterProperties] = {}  # by path

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return a table's position from the version of its application transaction (Delta log).

        If ``table`` is None, or does not exist any more, return the position of all tables, from the
        checkpoint table.
        """
        if table is None:
            return self._checkpoint()
        delta = self._open(table)
        if delta is None:
            return self._checkpoint() if table in self._applied else None
        version = self._versions[self._path(table)] = delta.transaction_version(self._app)
        if version is None:
            return None
        # The checkpoint lacks this table, or columns of it, if a run was killed after the table's commit.
        self._applied.set_at_least(table, _position(version))
        return AppliedPosition("", _position(version))

    def _checkpoint(self) -> AppliedPosition | None:
        for row in self._rows():
            return decode_lake_checkpoint(row)
        return None

    def _rows(self) -> list[dict[str, Any]]:
        """Read the group's checkpoint from its Delta table, as a list of one row, or an empty list if there is none."""
        delta = self._open_place(self._state)
        if delta is None:
            return []
        # The table may be open since an earlier call, and may have a newer version by now.
        delta.update_incremental()
        rows: list[dict[str, Any]] = read_delta_rows(delta).read_all().to_pylist()
        return rows

    def positions(self) -> list[TablePosition]:
        """Return the position and version of each Delta table that the group has written."""
        positions = []
        for name in self._applied.paths():
            place = self._root.inside(name)
            table = self._open_place(place)
            number = None if table is None else table.transaction_version(self._app)
            if table is not None and number is not None:
                found = find_group_commit(place, self._app, table.version())
                shown, at = name.replace("/", "."), _position(number)
                restored = self._find_restored(name.split("/"), number, found)
                if found is None or found.transaction != number:
                    found = GroupCommit()
                notice = None if restored is None else restored.describe(shown)
                of_commit = (table.version(), found.csn, found.op_ts, notice)
                positions.append(TablePosition(shown, at, *of_commit))
        return positions

    @property
    def _state(self) -> DeltaPlace:
        return self._root.inside(LAKE_STATE, self._group)

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as the Delta log defines it, or None if it does not exist."""
        delta = self._open(table)
        if delta is None:
            return None
        existing, computed = (
            table.as_defined(table.name, pa.schema(delta.schema())),
            find_computed_columns(delta),
        )
        columns = tuple(replace(one, computed=one.name in computed) for one in existing.columns)
        existing = replace(existing, columns=columns).without_computed()
        try:
            self._applied.check_columns(table, existing)
        except DefinitionError:
            # A column that was added later is missing in a restored table too.
            self._check_rows(table, delta)
            raise
        return existing

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return the table unchanged, because Delta can represent all of its types."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create a Delta table, without statistics for columns whose statistics delta-rs would round."""
        place = self._place(table)
        path = place.address
        settings = plan_statistics_properties(table.schema, {})
        created = call_delta(
            path,
            lambda: DeltaTable.create(
                path,
                table.schema,
                configuration=settings,
                storage_options=place.find_options(),
            ),
        )
        self._tables[path] = created

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns to the schema in the Delta log, in a separate commit.

        Existing rows have NULL.
        """
        path = self._path(table)
        added = pa.schema([table.schema.field(name) for name in names])
        fields = deltalake.Schema.from_arrow(added).fields
        call_delta(path, lambda: self._tables[path].alter.add_columns(fields))

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Do nothing, because delta-rs cannot change the type of a column."""

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Read the rows of a Delta table that may have one of the keys: all columns, or only those of the key.

        delta-rs skips files by the range of the keys. Arrow then selects rows by each key column
        separately, so rows with other combinations of these values may be included.
        """
        path, delta = self._path(table), self._open_existing(table)
        self._check_version(table, delta)
        names = list(table.key_names if keys_alone else table.schema.names)
        schema = pa.schema([table.schema.field(name) for name in names])
        key_values = {name: keys[name].combine_chunks() for name in table.key_names}
        bounds = (
            " AND ".join(filter(None, map(build_range_condition, key_values, key_values.values())))
            or None
        )
        return call_delta(
            path, lambda: select_rows(read_delta_rows(delta, schema, bounds), key_values)
        )

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Read all rows of a Delta table."""
        delta = self._open_existing(table)
        return call_delta(self._path(table), lambda: read_delta_rows(delta))

    def find_unfit_rows(self, effects: TableChanges) -> RefusedRows:
        """Return the changed rows that the Delta table refuses by NOT NULL, a constraint or a partition. Writes nothing."""
        nets, path = effects.nets, self._path(effects.nets.table)
        delta = self._open_existing(nets.table)
        unfit = UnfitRows(nets)
        check_append_only(path, delta, effects)
        add_nulls(unfit, delta, effects)
        add_partitions(unfit, path, delta, effects)
        rules = list_row_rules(delta)
        if rules:
            rows, index = build_written_rows(nets, partial(self.rows, nets.table, keys_alone=False))
            own = [one.name for one in nets.table.columns if not one.computed]
            for found, error in self._find_rule_breaks(nets.table, rows.select(own), rules):
                unfit.add(index[found], error)
        return unfit.collect()

    def _find_rule_breaks(
        self, table: TargetTable, rows: pa.Table, rules: Sequence[RowRule]
    ) -> Iterable[tuple[Longs, RowRefusedError]]:
        """Return for each rule the indexes of the rows that break it, and the error."""
        delta = self._open_existing(table)
        return find_rule_breaks(self._path(table), delta, rows, rules)

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write the changes of one Delta table in one commit, which also records the position."""
        nets, table = effects.nets, effects.nets.table
        path, delta = self._path(table), self._open_existing(table)
        self._check_version(table, delta)
        before = delta.version()
        # Before the first write to a table of somebody else, or its readers could miss our rows.
        _exclude_rounded_statistics(path, delta)
        properties = self._properties(at)
        if effects.emptied:
            inserted = nets.where(nets.effect != RowEffect.DELETE)
            rows = build_delta_rows(inserted)
            call_delta(
                path,
                lambda: write_deltalake(
                    delta, rows, mode="overwrite", commit_properties=properties
                ),
            )
        elif effects.closing is not None:
            closing = effects.closing
            updates = {name: sql.format_sql_literal(one) for name, one in closing.values.items()}
            call_delta(
                path,
                lambda: delta.update(
                    updates,
                    predicate=sql.build_open_condition(closing),
                    commit_properties=properties,
                ),
            )
        elif effects.appended:
            rows = build_delta_rows(nets)
            call_delta(
                path,
                lambda: write_deltalake(delta, rows, mode="append", commit_properties=properties),
            )
        elif len(nets):
            call_delta(path, lambda: self._merge(effects, at))
        # Our commit, and any that others have made meanwhile: the check below needs the newest
        # version.
        delta.update_incremental()
        _, version = self._transaction(at)
        # The version is unchanged if an UPDATE found no row, because then it commits nothing. Any
        # other version comes from another run.
        expected = (self._versions.get(path), version)
        self._versions[path] = delta.transaction_version(self._app)
        if self._versions[path] not in expected:
            raise build_concurrent_run_error(self._group, path)
        # Otherwise others have committed too, perhaps a RESTORE.
        if delta.version() <= before + 1:
            self._checked[path] = delta.version()
        written = self._versions[path]
        at_position = None if written is None else _position(written)
        self._applied.set(table, at_position)

    def _check_version(self, table: TargetTable, delta: DeltaTable) -> None:
        """Check that nobody has changed the Delta table so that it cannot be written.

        Raises TargetConflictError if another run of this group has written it meanwhile,
        StorageError if it was restored to an older state, and DefinitionError if a column was
        dropped.
        """
        # delta-rs may resolve the conflict of two commits on its own, so a second run of the group
        # would not always fail in its commit.
        path = self._path(table)
        if delta.transaction_version(self._app) != self._versions.get(path):
            raise build_concurrent_run_error(self._group, path)
        self._check_rows(table, delta)
        existing = table.as_defined(table.name, pa.schema(delta.schema()))
        self._applied.check_columns(table, existing)

    def _check_rows(self, table: TargetTable, delta: DeltaTable) -> None:
        """Raise StorageError if the Delta table was restored to a state before the group's last commit."""
        place, version = self._place(table), delta.version()
        checked = self._checked.get(place.address)
        number = delta.transaction_version(self._app)
        # Without a transaction somebody has created the table anew.
        if number is None or version == checked:
            return
        found = find_group_commit(place, self._app, version, checked)
        restored = self._find_restored(table.name, number, found)
        if restored is not None:
            raise restored.build_error(table)
        self._checked[place.address] = version

    def _find_restored(
        self, name: Sequence[str], number: int, found: GroupCommit | None
    ) -> RestoredState | None:
        """Return what a Delta table has if it was restored to a state before the group's last commit.

        ``number`` is the version of its application transaction, and ``found`` the commit of the
        group that its rows come from, or None if that is unknown.
        """
        if found is None:
            found = GroupCommit(number)
        actual = None if found.transaction is None else _position(found.transaction)
        return RestoredState.find(actual, max(_position(number), self._applied.position(name)))

    def _merge(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Merge changes by key into a Delta table with delta-rs, and commit them together with the position."""
        table = effects.nets.table
        delta = self._open_existing(table)
        staging = sql.build_staging_rows(effects)
        clauses = sql.build_merge_clauses(effects, resets=True)
        # Delta recomputes a computed column that is set to NULL.
        computed = {sql.quote_sql_name(name): "NULL" for name in find_computed_columns(delta)}
        updated = {**computed, **clauses.updated}
        merger = delta.merge(
            staging,
            build_delta_key_match(table),
            source_alias="s",
            target_alias="t",
            streamed_exec=False,
            writer_properties=self._find_writer_properties(table, delta),
            commit_properties=self._properties(at),
        )
        merger = merger.when_matched_delete(sql.staged_effect(RowEffect.DELETE))
        if updated:
            merger = merger.when_matched_update(updated, sql.staged_effect(RowEffect.PATCH))
        is_inserted = sql.staged_effect(RowEffect.INSERT)
        merger.when_not_matched_insert(dict(clauses.inserted), is_inserted).execute()

    def _find_writer_properties(
        self, table: TargetTable, delta: DeltaTable
    ) -> WriterProperties | None:
        """Return delta-rs's writer properties for a MERGE into a table (which columns get no dictionary).

        They are planned from existing files, so there are none for a table without files.
        """
        place = self._place(table)
        if place.address not in self._writing:
            planned = plan_writer_properties(place, delta)
            if planned is None:
                return None
            self._writing[place.address] = planned
        return self._writing[place.address]

    def commit(self, at: AppliedPosition) -> None:
        """Record in the checkpoint that all Delta tables are applied up to the position."""
        state, row = self._state, encode_lake_checkpoint(at, self._applied, TIME)
        # A checkpoint of an earlier version has fewer columns, so its schema is overwritten too.
        call_delta(
            state.address,
            lambda: write_deltalake(
                state.address,
                row,
                mode="overwrite",
                schema_mode="overwrite",
                storage_options=state.find_options(),
            ),
        )

    def rollback(self) -> None:
        """Do nothing: written Delta tables are committed, and are skipped when the batch is applied again."""

    def release(self) -> None:
        """Close the snapshots of all Delta tables, so that the next batch sees the commits of other writers."""
        self._tables.clear()

    def close(self) -> None:
        """Close all open Delta tables."""
        self._tables.clear()

    def _properties(self, at: AppliedPosition) -> CommitProperties:
        return CommitProperties(
            custom_metadata=self._metadata(at),
            app_transactions=[Transaction(*self._transaction(at))],
        )

    def _metadata(self, at: AppliedPosition) -> dict[str, str]:
        """Return the position as readable properties of a Delta commit, for people who read the table's history."""
        names = {
            "trail": at.trail,
            "position": at.position,
            "csn": at.csn or "",
            "op_ts": "" if at.op_ts is None else str(at.op_ts),
        }
        return {f"trailgate.{name}": value for name, value in names.items()}

    def _transaction(self, at: AppliedPosition) -> tuple[str, int]:
        """Return the application transaction of a Delta commit: the application's name, and the position as its version."""
        return self._app, _version(at.position)

    def _path(self, table: TargetTable) -> str:
        return self._place(table).address

    def _place(self, table: TargetTable) -> DeltaPlace:
        for part in table.name:
            try:
                _check_folder_name(part)
            except OptionError as error:
                error.hint = MAP_HINT
                raise error.with_place(table=str(table)) from None
        return self._root.inside(*table.name)

    def _open(self, table: TargetTable) -> DeltaTable | None:
        return self._open_place(self._place(table))

    def _open_existing(self, table: TargetTable) -> DeltaTable:
        """Return the open Delta table. Raises DefinitionError if somebody has dropped it since it was looked up."""
        delta = self._open(table)
        if delta is None:
            raise build_dropped_table_error(str(table))
        return delta

    def _open_place(self, place: DeltaPlace) -> DeltaTable | None:
        """Return the open Delta table at a place, or None if it does not exist.

        Open tables are cached until ``release``.
        """
        path = place.address
        if path not in self._tables:
            try:
                self._tables[path] = place.open_table()
            except TableNotFoundError:
                return None
            except (DeltaError, OSError) as error:
                raise convert_open_error(error, path) from None
        return self._tables[path]


def check_place(root: str) -> DeltaPlace:
    """Return the place of a folder of Delta tables. Raises OptionError if tables cannot be written there."""
    place = find_delta_place(root)
    shown = place.address
    _check_path(shown if "://" in shown else str(Path(shown).absolute()), "Name another folder")
    return place


def open_tables(address: str, group: str) -> DeltaTarget:
    """Open a folder of Delta tables for a group."""
    return DeltaTarget(address, group)


def _exclude_rounded_statistics(path: str, table: DeltaTable) -> None:
    """Set the properties of a Delta table that disable rounded statistics, if somebody else created the table."""
    settings = plan_statistics_properties(pa.schema(table.schema()), table.metadata().configuration)
    if settings:
        call_delta(path, lambda: table.alter.set_table_properties(settings))


def _check_folder_name(name: str) -> None:
    """Raise OptionError if the name of a group or a part of a table's name cannot be the name of a folder of Delta tables."""
    if name in (".", "..", LAKE_STATE, LOG) or "/" in name or "%" in name:
        problem = f"{name!r} cannot be the name of a folder of Delta tables"
        raise OptionError(problem, hint=GROUP_HINT)
    _check_path(name, GROUP_HINT)


def _check_path(path: str, hint: str) -> None:
    """Raise OptionError if a path has a character with which delta-rs aborts the process or writes to a different path."""
    bad = [sign for sign in path if sign in REFUSED or not sign.isprintable()]
    if bad:
        problem = f"delta-rs cannot write a table to a path with {bad[0]!r}: {path}"
        raise OptionError(problem, hint=hint)


def table_rows(address: str) -> pa.RecordBatchReader:
    """Read the Delta table at an address, for queries. Raises StorageError if it does not exist."""
    place = find_delta_place(address)
    try:
        return read_delta_rows(place.open_table())
    except TableNotFoundError:
        raise StorageError(
            "there is no Delta table here", where=Where(source=place.address)
        ) from None
    except (DeltaError, OSError) as error:
        raise convert_open_error(error, place.address) from None


def group_positions(root: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the Delta tables below a folder or in a store."""
    place = find_delta_place(root)
    path = place.address
    if "://" not in path and not Path(path).is_dir():
        raise StorageError("there is no such folder", where=Where(source=path))
    try:
        folders = place.open_folder().get_file_info(FileSelector(LAKE_STATE, allow_not_found=True))
    except (DeltaError, OSError) as error:
        raise convert_open_error(error, path) from None
    targets = [
        (one.base_name, DeltaTarget(root, one.base_name)) for one in folders if not one.is_file
    ]
    return [GroupPosition(name, one.position(None), one.positions()) for name, one in targets]


def _version(position: str) -> int:
    """Pack a trail position into the version of a Delta transaction. Raises StorageError if it does not fit."""
    number, offset = parse_position(position)
    if number >> NUMBER_BITS or offset >> OFFSET_BITS:
        raise StorageError(
            f"the position {number}:{offset} does not fit the version of a Delta transaction",
            hint="It holds file numbers below 2^30 and offsets below 2^33",
        )
    # A transaction version of Delta is a signed 64-bit integer: 30 bits of file number and 33 of
    # offset are 63.
    return number << OFFSET_BITS | offset


def _position(version: int) -> str:
    """Unpack the version of a Delta transaction to a trail position: 2 << 33 | 679 is file 2 and offset 679."""
    return long_position(*divmod(version, 1 << OFFSET_BITS))
