"""Write Iceberg tables with pyiceberg, which needs no Java: one commit per table and batch.

A batch changes rows by *copy-on-write*: each data file with changed rows is read and replaced by
new files, in one snapshot. The position of the batch is a property of this snapshot and of the
table, set in the same commit. A Spark session stores it as a property of the snapshot only
(``apply/spark/iceberg.py``). Both are read, so either can continue what the other one applied.

After all tables of a batch, the position of all tables is written as the only row of the table
``_trailgate.GROUP``, as for Delta. If a run is killed in between, the next run starts from the
older position there, and tables that were already committed skip the operations that they contain.

Two runs that apply the same operations must not both commit (``iceberg_commits.py``). So a table
stays loaded until ``release``: its rows are read from the loaded snapshot, and the commit fails if
another writer has committed a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.types import LongType

from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import TargetTable
from trailgate.apply.targets.checkpoints import (
    ICEBERG_POSITION,
    LAKE_STATE,
    AppliedTables,
    RestoredState,
    build_dropped_table_error,
    decode_lake_checkpoint,
    encode_lake_checkpoint,
    group_of_iceberg_name,
    iceberg_group_name,
)
from trailgate.apply.targets.faults import build_concurrent_run_error
from trailgate.apply.targets.iceberg_catalogs import (
    IcebergPlace,
    check_path,
    find_iceberg_place,
    find_iceberg_table,
    load_iceberg_table,
)
from trailgate.apply.targets.iceberg_checks import find_unfit_rows
from trailgate.apply.targets.iceberg_commits import FILE_BYTES, commit_rows
from trailgate.apply.targets.iceberg_errors import convert_iceberg_errors
from trailgate.apply.targets.iceberg_fields import check_field_ids, encode_field_ids
from trailgate.apply.targets.iceberg_history import IcebergHistory, IcebergSnapshot
from trailgate.apply.targets.iceberg_rows import (
    check_delete_files,
    close_rows,
    plan_files,
    read_arrow_schema,
    read_file,
    read_files,
    select_open,
)
from trailgate.apply.targets.lake_keys import NOT_FOUND, KeyLookup
from trailgate.apply.targets.lake_rows import build_new_rows, patch_rows
from trailgate.apply.targets.target import (
    AppliedPosition,
    GroupPosition,
    RefusedRows,
    TablePosition,
)
from trailgate.errors import ApplyError, DefinitionError, OptionError, StorageError, Where

TIME: Final = pa.int64()  # of the checkpoint's op_ts, as the session writes it
PROPERTIES: Final = {
    TableProperties.WRITE_TARGET_FILE_SIZE_BYTES: str(FILE_BYTES),
    # Each commit writes a file of metadata. Keep the last 100.
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
}
NEWEST_FORMAT: Final = 2
MAP_HINT: Final = "MAP the table to another name in a parameter file (--params)"
NO_NAMESPACE: Final = (
    "MAP the table to a name with two parts, or name a namespace: iceberg:CATALOG.NAMESPACE"
)


class IcebergTarget:
    """The target of Iceberg tables in a catalog, or in a namespace of it, written with pyiceberg."""

    widens = True
    folds_names = False
    commits_alone = True

    def __init__(self, address: str, group: str) -> None:
        self._place, self._group = find_iceberg_place(address), iceberg_group_name(group)
        self._property = ICEBERG_POSITION.format(self._group)
        self._catalog: Catalog | None = None
        self._tables: dict[tuple[str, ...], Table] = {}
        self._positions: dict[tuple[str, ...], str | None] = {}  # the last known ones
        self._applied = AppliedTables(self._rows())

    def position(self, table: TargetTable | None) -> AppliedPosition | None:
        """Return a table's position from the properties of the Iceberg table and its snapshots.

        If ``table`` is None, or does not exist any more, return the position of all tables, from the
        checkpoint table.
        """
        if table is None:
            return self._checkpoint()
        loaded = self._load(table.name)
        if loaded is None:
            return self._checkpoint() if table in self._applied else None
        last = self._positions[table.name] = self._find_position(loaded)
        if last is None:
            return None
        # The checkpoint lacks this table, or columns of it, if a run was killed after the table's commit.
        self._applied.set_at_least(table, last)
        return AppliedPosition("", last)

    def _checkpoint(self) -> AppliedPosition | None:
        return next(map(decode_lake_checkpoint, self._rows()), None)

    def _find_position(self, table: Table) -> str | None:
        """Return the group's position in the properties of an Iceberg table, or None if the group has not written the table.

        This is the later one of two positions: the property of the table, which remains if
        snapshots expire, and the property of the newest snapshot that has one. A Spark session sets
        only the second one.
        """
        stored = (one.get(self._property) for one in _read_commits(table))
        of_snapshot = next(filter(None, stored), "")
        return max(of_snapshot, table.properties.get(self._property, "")) or None

    def _rows(self) -> list[dict[str, Any]]:
        """Read the group's checkpoint from its Iceberg table, as a list of one row, or an empty list if there is none."""
        name = (LAKE_STATE, self._group)
        self._tables.pop(name, None)
        table = self._load(name)
        if table is None:
            return []
        with convert_iceberg_errors(self._show(name)):
            return [
                dict(row) for row in read_files(table, plan_files(table)).read_all().to_pylist()
            ]

    def positions(self) -> list[TablePosition]:
        """Return the position and current snapshot of each Iceberg table that the group has written."""
        positions = []
        for name in self._applied.paths():
            table = self._load(tuple(name.split("/")))
            position = None if table is None else self._find_position(table)
            if table is not None and position is not None:
                commit = self._find_commit(table, position)
                snapshot = table.metadata.current_snapshot_id
                shown = name.replace("/", ".")
                restored = self._find_restored(name.split("/"), table)
                notice = None if restored is None else restored.describe(shown)
                positions.append(TablePosition(shown, position, snapshot, *commit, notice))
        return positions

    def _find_commit(self, table: Table, position: str) -> tuple[str | None, int | None]:
        """Return the CSN and commit time that a snapshot's properties have for a position, or None for each."""
        for one in _read_commits(table):
            if one.get(self._property) == position:
                op_ts = one.get(f"trailgate.{self._group}.op_ts")
                return one.get(f"trailgate.{self._group}.csn"), int(op_ts) if op_ts else None
        return None, None

    def _describe(self, at: AppliedPosition) -> dict[str, str]:
        """Return an applied position as properties of an Iceberg snapshot."""
        values = {"position": at.position, "csn": at.csn, "op_ts": at.op_ts}
        return {
            f"trailgate.{self._group}.{name}": str(value)
            for name, value in values.items()
            if value is not None
        }

    def find_table(self, table: TargetTable) -> TargetTable | None:
        """Return the table as pyiceberg's catalog defines it, or None if it does not exist."""
        loaded = self._load(table.name)
        if loaded is None:
            return None
        if loaded.format_version > NEWEST_FORMAT:
            problem = f"the table has format version {loaded.format_version}, and pyiceberg writes versions up to {NEWEST_FORMAT}"
            hint = "Apply with a Spark session that has Iceberg: trailgate.spark.apply"
            raise ApplyError(problem, where=Where(source=self._show(table.name)), hint=hint)
        check_delete_files(loaded)
        return self._define(table, loaded)

    def _define(self, table: TargetTable, loaded: Table) -> TargetTable:
        """Return the table with the columns of an Iceberg table. Raises DefinitionError if somebody has dropped or renamed an applied one."""
        existing = table.as_defined(table.name, read_arrow_schema(loaded))
        try:
            self._applied.check_columns(table, existing)
        except DefinitionError:
            # A column that was added later is missing in a restored table too.
            self._check_rows(table, loaded)
            raise
        position = self._find_position(loaded)
        if position is not None:
            check_field_ids(table, loaded, self._applied.field_ids(table), position)
        return existing

    def _check_rows(self, table: TargetTable, loaded: Table) -> None:
        """Raise StorageError if the Iceberg table was rolled back to a snapshot before the group's last one."""
        restored = self._find_restored(table.name, loaded)
        if restored is not None:
            raise restored.build_error(table)

    def _find_restored(self, name: Sequence[str], loaded: Table) -> RestoredState | None:
        snapshots = {
            one.snapshot_id: IcebergSnapshot(
                one.parent_snapshot_id,
                _read_properties(one).get(self._property),
                one.sequence_number,
            )
            for one in loaded.metadata.snapshots
        }
        history = IcebergHistory.read(loaded.metadata.current_snapshot_id, snapshots)
        stored = loaded.properties.get(self._property, "")
        return history.find_restored(stored, self._applied.position(name))

    def plan_table(self, table: TargetTable) -> TargetTable:
        """Return the table unchanged, because Iceberg can represent all of its types."""
        return table

    def create(self, table: TargetTable) -> None:
        """Create an Iceberg table and its namespace with pyiceberg."""
        self._create(table.name, table.schema)

    def _create(self, name: tuple[str, ...], schema: pa.Schema) -> Table:
        identifier = self._identify(name)
        with convert_iceberg_errors(self._show(name)):
            if self._catalog is None:
                self._catalog = self._place.open()
            # Parents first: not every catalog creates them.
            for end in range(1, len(identifier)):
                self._catalog.create_namespace_if_not_exists(identifier[:end])
            table = self._catalog.create_table(identifier, schema, properties=PROPERTIES)
        self._tables[name] = table
        return table

    def add_columns(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Add columns to an Iceberg table's schema, in a separate commit. Existing rows have NULL."""
        added = pa.schema([table.schema.field(name) for name in names])
        loaded = self._open(table.name)
        with convert_iceberg_errors(self._show(table.name)), loaded.update_schema() as update:
            update.union_by_name(added)

    def widen(self, table: TargetTable, names: tuple[str, ...]) -> None:
        """Change integer columns of an Iceberg table to ``long``; data files are not rewritten."""
        loaded = self._open(table.name)
        with convert_iceberg_errors(self._show(table.name)), loaded.update_schema() as update:
            for name in names:
                update.update_column((name,), LongType())

    def rows(self, table: TargetTable, keys: pa.Table, *, keys_alone: bool) -> pa.Table:
        """Read the rows of an Iceberg table that have any of the keys: all columns, or only those of the key.

        Only data files whose bounds overlap the range of the keys are read.
        """
        loaded = self._open(table.name)
        self._check_position(table, loaded)
        names = list(table.key_names if keys_alone else table.schema.names)
        schema = pa.schema([table.schema.field(name) for name in names])
        lookup = KeyLookup([keys[name].combine_chunks() for name in table.key_names])
        parts = [schema.empty_table()]
        with convert_iceberg_errors(self._show(table.name)):
            for task in plan_files(loaded, keys):
                rows = read_file(loaded, task, names)
                found = lookup.find([rows[name] for name in table.key_names])
                parts.append(rows.filter(pa.array(found != NOT_FOUND)))
        return pa.concat_tables(parts)

    def scan(self, table: TargetTable) -> pa.RecordBatchReader:
        """Read all rows of an Iceberg table, one data file after another."""
        loaded = self._open(table.name)
        with convert_iceberg_errors(self._show(table.name)):
            return read_files(loaded, plan_files(loaded))

    def find_unfit_rows(self, effects: TableChanges) -> RefusedRows:
        """Return the changed rows that the Iceberg table refuses by a required column or a partition. Writes nothing."""
        name = effects.nets.table.name
        try:
            return find_unfit_rows(self._open(name), effects.nets).collect()
        except ApplyError as error:
            raise error.with_place(source=self._show(name)) from None

    def write(self, effects: TableChanges, at: AppliedPosition) -> None:
        """Write the changes of one Iceberg table in one snapshot, which also has the position."""
        table = effects.nets.table
        loaded = self._open(table.name)
        self._check_position(table, loaded)
        with convert_iceberg_errors(self._show(table.name)):
            removed, rows = _plan_write(loaded, effects)
            if removed or effects.emptied or len(effects.nets):
                commit_rows(loaded, removed, rows, self._describe(at))
                self._positions[table.name] = at.position
        at_position = self._positions.get(table.name)
        self._applied.set(table, at_position, encode_field_ids(loaded))

    def commit(self, at: AppliedPosition) -> None:
        """Record in the checkpoint that all Iceberg tables are applied up to the position."""
        row = encode_lake_checkpoint(at, self._applied, TIME)
        name = (LAKE_STATE, self._group)
        table = self._load(name) or self._create(name, row.schema)
        with convert_iceberg_errors(self._show(name)):
            if set(row.schema.names) - set(read_arrow_schema(table).names):  # of an earlier version
                with table.update_schema() as update:
                    update.union_by_name(row.schema)
            removed = [task.file for task in plan_files(table)]
            commit_rows(table, removed, [row], self._describe(at), keep=2)

    def rollback(self) -> None:
        """Close the Iceberg catalog. Written tables are committed, and are skipped when the batch is applied again."""
        self._close_catalog()

    def release(self) -> None:
        """Close the snapshots of all Iceberg tables, so that the next batch sees the commits of other writers."""
        self._tables.clear()

    def close(self) -> None:
        """Close all open Iceberg tables, and the catalog."""
        self._close_catalog()

    def _close_catalog(self) -> None:
        # After a COMMIT that failed, SQLAlchemy keeps the connection, and SQLite its lock.
        self._tables.clear()
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _check_position(self, table: TargetTable, loaded: Table) -> None:
        """Check that nobody has changed the Iceberg table so that it cannot be written.

        Raises TargetConflictError if another run of this group has written it meanwhile,
        StorageError if it was restored to an older state, and DefinitionError if a column was
        dropped.
        """
        if self._find_position(loaded) != self._positions.get(table.name):
            raise build_concurrent_run_error(self._group, self._show(table.name))
        self._check_rows(table, loaded)
        self._define(table, loaded)

    def _open(self, name: tuple[str, ...]) -> Table:
        table = self._load(name)
        if table is None:
            raise build_dropped_table_error(".".join(name))
        return table

    def _load(self, name: tuple[str, ...]) -> Table | None:
        """Load an Iceberg table, or return None if it does not exist. Loaded tables are cached until ``release``."""
        if name not in self._tables:
            with convert_iceberg_errors(self._show(name)):
                if self._catalog is None and self._place.exists:
                    self._catalog = self._place.open()
                if self._catalog is None:
                    return None
                table = load_iceberg_table(self._place, self._catalog, self._identify(name))
                if table is None:
                    return None
                self._tables[name] = table
        return self._tables[name]

    def _identify(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """Return a table's name in the Iceberg catalog. Raises OptionError if it cannot be the path of a folder, or has no namespace."""
        identifier = (*self._place.root, *name)
        for part in name:
            if part in (".", "..") or "/" in part:
                problem = f"{part!r} cannot be the name of a folder of an Iceberg table"
                raise OptionError(problem, where=Where(table=".".join(name)), hint=MAP_HINT)
            check_path(part)
        if len(identifier) < 2:
            problem = f"a table of an Iceberg catalog needs a namespace, but {name[0]} has none"
            raise OptionError(problem, hint=NO_NAMESPACE)
        return identifier

    def _show(self, name: tuple[str, ...]) -> str:
        if self._place.folder is not None:
            return "/".join((str(self._place.folder), *name))
        return ".".join((self._place.name, *self._place.root, *name))


def _read_commits(table: Table) -> Iterator[Mapping[str, str]]:
    """Yield the properties of an Iceberg table's current snapshot and of its ancestors, newest first."""
    yield from map(_read_properties, ancestors_of(table.current_snapshot(), table.metadata))


def _read_properties(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the properties of an Iceberg snapshot."""
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def _plan_write(table: Table, effects: TableChanges) -> tuple[list[DataFile], Iterable[pa.Table]]:
    """Return the data files of an Iceberg table that changes replace, and the rows to write instead of them."""
    nets, closing = effects.nets, effects.closing
    if effects.emptied or effects.appended:
        removed = [task.file for task in plan_files(table)] if effects.emptied else []
        return removed, [build_new_rows(nets)]
    names = read_arrow_schema(table).names
    if closing is not None:
        columns = [closing.column]
        tasks = [
            task
            for task in plan_files(table)
            if pc.any(select_open(read_file(table, task, columns), closing)).as_py()
        ]
        closed = (close_rows(read_file(table, task, names), closing) for task in tasks)
        return [task.file for task in tasks], closed
    lookup = KeyLookup(nets.key)
    changed = []
    for task in plan_files(table, nets.keys()):
        found = lookup.find(read_file(table, task, nets.table.key_names).columns)
        if (found != NOT_FOUND).any():
            changed.append((task, found))
    patched = (patch_rows(read_file(table, task, names), found, nets) for task, found in changed)
    return [task.file for task, _ in changed], chain(patched, [build_new_rows(nets)])


def check_place(address: str) -> None:
    """Raise OptionError if there can be no Iceberg catalog at an address, or if pyiceberg has none of its name."""
    find_iceberg_place(address).check_name()


def open_tables(address: str, group: str) -> IcebergTarget:
    """Open the tables of an Iceberg catalog for a group."""
    return IcebergTarget(address, group)


def table_rows(address: str) -> pa.RecordBatchReader:
    """Read the Iceberg table at an address. Raises StorageError if it does not exist."""
    place, name = find_iceberg_table(address)
    with convert_iceberg_errors(address):
        table = load_iceberg_table(place, place.open(), name)
        if table is None:
            problem = "there is no Iceberg table here"
            raise StorageError(problem, where=Where(source=address))
        return read_files(table, plan_files(table))


def group_positions(address: str) -> list[GroupPosition]:
    """Return how far each group has applied its trail to the tables of an Iceberg catalog."""
    place = find_iceberg_place(address)
    if not place.exists:
        raise StorageError("there is no such catalog", where=Where(source=str(place)))
    with convert_iceberg_errors(str(place)):
        groups = [group_of_iceberg_name(name[-1]) for name in _list_checkpoints(place)]
    targets = [(group, IcebergTarget(address, group)) for group in groups]
    return [GroupPosition(group, one.position(None), one.positions()) for group, one in targets]


def _list_checkpoints(place: IcebergPlace) -> list[tuple[str, ...]]:
    try:
        return place.open().list_tables((*place.root, LAKE_STATE))
    except NoSuchNamespaceError:
        return []
