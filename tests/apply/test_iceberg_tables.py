"""Iceberg tables by pyiceberg: with other writers, in tables that others created, and refused with the reason."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import LongType

from apply.naive_batches import TARGET, block_of_images
from apply.sources import iceberg_rows, rows_by_id, write_log
from apply.test_target_faults import files_of
from oracles.apply_naive import Operation
from trailgate import (
    ApplyError,
    OptionError,
    StorageError,
    TargetConflictError,
    TargetLockedError,
    TargetUnavailableError,
    TrailAppender,
    WriteError,
    apply_trail,
    verify_tables,
)
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import make_target_table
from trailgate.apply.targets import iceberg, iceberg_commits
from trailgate.apply.targets.iceberg import IcebergTarget
from trailgate.apply.targets.iceberg_errors import convert_iceberg_errors
from trailgate.apply.targets.target import AppliedPosition, group_positions, open_target, table_rows
from trailgate.model.changes import DELETE, INSERT, UPDATE, ChangeBatch
from trailgate.model.tables import Column, Definitions, Table

FULL = {"a": 1, "b": 2, "c": 3}
TABLE = Table("HR.N", (Column("K", 134, 8, key=True), Column("V", 64, 20), Column("W", 64, 20)))
CHANGES: Final = (
    (INSERT, None, {"K": 1, "V": "x", "W": "w"}),
    (INSERT, None, {"K": 2, "V": "z"}),
    (UPDATE, {"K": 1}, {"K": 1, "V": "y"}),
)


def write(folder: Path, table: Table, *changes: tuple[int, Any, Any]) -> None:
    """Append transactions of one operation each to a trail."""
    for one in changes:
        block = block_of_images(table, [one])
        with TrailAppender(str(folder / "ot"), Definitions((table,))) as trail:
            trail.append(ChangeBatch([block], len(block)))
            trail.commit("all")


def catalog(folder: Path) -> SqlCatalog:
    """Return the catalog of a folder, as its user opens it."""
    (folder / "warehouse").mkdir(exist_ok=True)
    path = folder / "warehouse"
    return SqlCatalog("lake", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")


def address(folder: Path) -> str:
    return f"iceberg:{folder}/warehouse"


def stored(folder: Path, name: str = "hr/n") -> list[dict[str, Any]]:
    found = table_rows(f"{address(folder)}/{name}").read_all().to_pylist()
    return sorted(found, key=lambda row: tuple(map(str, row.values())))


def made(folder: Path, schema: pa.Schema, **properties: str) -> IcebergTable:
    """Return the table HR.N, created by somebody else."""
    own = catalog(folder)
    own.create_namespace("hr")
    return own.create_table("hr.n", schema, properties=properties)


def snapshots(folder: Path, name: str) -> int:
    return len(catalog(folder).load_table(name).metadata.snapshots)


def test_a_position_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs have read the same position: the second one of them writes nothing."""
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1), Operation("I", 2, 2, FULL, 2)])
    written = IcebergTarget.write
    other = IcebergTarget(address(tmp_path).removeprefix("iceberg:"), "trailgate")

    def twice(self: IcebergTarget, effects: TableChanges, at: AppliedPosition) -> None:
        other.release()
        other.position(effects.nets.table)
        written(other, effects, at)
        with pytest.raises(TargetConflictError, match="another writer changed the table"):
            written(self, effects, at)

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTarget, "write", twice)
        apply_trail(tmp_path / "ot", address(tmp_path))

    assert set(iceberg_rows(tmp_path)) == {1, 2}
    assert snapshots(tmp_path, "hr.t") == 1


def test_a_run_continues_after_another_writers_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    write_log(tmp_path / "ot", [Operation("U", 1, 1, {"a": 7}, 2)])
    commit = iceberg_commits.commit_rows
    calls: list[IcebergTable] = []

    def late(table: IcebergTable, *arguments: Any, **named: Any) -> None:
        if not calls:
            theirs = catalog(tmp_path).load_table("hr.t")
            theirs.append(theirs.scan().to_arrow().set_column(0, "id", pa.array([9])))
        calls.append(table)
        commit(table, *arguments, **named)

    monkeypatch.setattr(iceberg, "commit_rows", late)
    apply_trail(tmp_path / "ot", address(tmp_path))

    assert iceberg_rows(tmp_path) == {1: {**FULL, "a": 7}, 9: FULL}


def test_another_run_of_the_group_stops_this_one(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    slow = open_target(address(tmp_path), "trailgate")
    table = slow.find_table(TARGET)
    assert table is not None
    assert slow.position(table) is not None
    slow.release()
    write_log(tmp_path / "ot", [Operation("I", 2, 2, FULL, 2)])
    apply_trail(tmp_path / "ot", address(tmp_path))

    with pytest.raises(TargetConflictError, match="another run is applying group trailgate"):
        slow.rows(table, pa.table({"id": [1]}), keys_alone=False)


def test_a_position_outlives_its_snapshots(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1), Operation("U", 1, 1, {"a": 4}, 2)])
    apply_trail(tmp_path / "ot", address(tmp_path), batch_bytes=1)
    table = catalog(tmp_path).load_table("hr.t")
    table.append(table.scan().to_arrow().set_column(0, "id", pa.array([9])))
    own = [one.snapshot_id for one in table.metadata.snapshots][:-1]
    table.maintenance.expire_snapshots().by_ids(own).commit()
    (before,) = group_positions(address(tmp_path))

    catalog(tmp_path).drop_table("_trailgate.trailgate")
    assert apply_trail(tmp_path / "ot", address(tmp_path)).operations == 0

    assert iceberg_rows(tmp_path) == {key: {**FULL, "a": 4} for key in (1, 9)}
    (after,) = group_positions(address(tmp_path))
    assert (before.group, before.position) == (after.group, after.position)


def test_the_number_of_manifests_does_not_grow_with_the_number_of_commits(tmp_path: Path) -> None:
    log = [Operation("I", 1, 1, FULL, 1)]
    log += [Operation("U", 1, 1, {"a": number}, number) for number in range(2, 8)]
    write_log(tmp_path / "ot", log)
    apply_trail(tmp_path / "ot", address(tmp_path), batch_bytes=1)

    for name in ("hr.t", "_trailgate.trailgate"):
        table = catalog(tmp_path).load_table(name)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert len(snapshot.manifests(table.io)) <= 3, name
        assert len(list(table.scan().plan_files())) == 1, name
    assert snapshots(tmp_path, "hr.t") == 7
    assert snapshots(tmp_path, "_trailgate.trailgate") == 2


def test_columns_keep_their_names_and_values(tmp_path: Path) -> None:
    names = ("a.b", "x y", "select", "_file", "1a", 'q"q', "\u00fc")
    table = Table("HR.N", (TABLE.columns[0], *(Column(name, 64, 20) for name in names)))
    row = {name: name for name in names}
    write(tmp_path, table, *((INSERT, None, {"K": key, **row}) for key in (1, 2)))
    apply_trail(tmp_path / "ot", address(tmp_path))
    write(tmp_path, table, (UPDATE, {"K": 1}, {"K": 1, "a.b": "new"}), (DELETE, {"K": 2}, None))
    apply_trail(tmp_path / "ot", address(tmp_path))

    assert stored(tmp_path) == [{"k": 1, **row, "a.b": "new"}]
    assert catalog(tmp_path).load_table("hr.n").scan().to_arrow().to_pylist() == stored(tmp_path)


@pytest.mark.parametrize(
    "name", ['HR."a b"', 'HR."a.b"', '"h.r".T', "A.B.C", 'HR."%41"', "HR.\u00dc"]
)
def test_a_table_of_any_name_is_written(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "my lake %20&y=\u00fc;+'"
    folder.mkdir()
    table = Table(name, TABLE.columns)
    write(folder, table, *CHANGES[:2])
    apply_trail(folder / "ot", address(folder))
    write(folder, table, CHANGES[2])
    apply_trail(folder / "ot", address(folder))

    assert verify_tables(folder / "ot", address(folder)).is_equal
    (one,) = group_positions(address(folder))
    (own,) = one.tables
    assert [row["v"] for row in stored(folder, "/".join(_parts(name)))] == ["y", "z"]
    assert own.table == ".".join(_parts(name))


def _parts(name: str) -> Sequence[str]:
    parts = name.split('"') if '"' in name else name.split(".")
    return [
        part.strip(".").lower() if part.isupper() or not part.isascii() else part.strip(".")
        for part in parts
        if part.strip(".")
    ]


REFUSED_NAMES: Final = {
    'HR."a/b"': "cannot be the name of a folder",
    'HR.".."': "cannot be the name of a folder",
    'HR."T?"': "cannot write a table to a path with '\\?'",
    "N": "needs a namespace, but n has none.*iceberg:CATALOG.NAMESPACE",
}


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_a_name_that_is_no_folder_is_refused(name: str, tmp_path: Path) -> None:
    write(tmp_path, Table(name, TABLE.columns), CHANGES[0])
    with pytest.raises(OptionError, match=REFUSED_NAMES[name]):
        apply_trail(tmp_path / "ot", address(tmp_path))


REFUSED_ADDRESSES: Final = {
    "iceberg:sea": "has no catalog 'sea'. A folder has a slash, as in iceberg:sea/",
    "iceberg:sea..x": "is not the name of a catalog",
    "iceberg:s3://bucket/lake": "cannot be a file in a store.*iceberg:NAME",
    "iceberg:lake?/": "cannot write a table to a path with '\\?'",
    "iceberg://warehouse/": "a path does not begin with //. As in iceberg:warehouse/",
    "delta:///lake/": "a path does not begin with //. As in delta:lake/",
}


@pytest.mark.parametrize("to", REFUSED_ADDRESSES)
def test_an_address_that_is_no_catalog_is_refused(to: str, tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    with pytest.raises(OptionError, match=REFUSED_ADDRESSES[to]):
        apply_trail(tmp_path / "ot", to)


def test_a_folder_without_a_catalog_is_not_changed_by_reading(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    with pytest.raises(StorageError, match="there is no such catalog"):
        group_positions(address(tmp_path))
    with pytest.raises(StorageError, match="there is no Iceberg table here"):
        table_rows(f"{address(tmp_path)}/hr/t")
    with pytest.raises(StorageError, match="there is no such catalog"):
        verify_tables(tmp_path / "ot", address(tmp_path))
    apply_trail(tmp_path / "ot", address(tmp_path), dry_run=True)

    assert not (tmp_path / "warehouse").exists()
    with pytest.raises(OptionError, match="cannot be the name of a group"):
        apply_trail(tmp_path / "ot", address(tmp_path), group="a.b")


def test_a_locked_catalog_is_tried_for_as_long_as_patience_states(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    write_log(tmp_path / "ot", [Operation("I", 2, 2, FULL, 2)])
    with closing(sqlite3.connect(tmp_path / "warehouse/catalog.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        begin = time.monotonic()
        with pytest.raises(TargetLockedError, match=r"has locked the catalog.*--patience SECONDS"):
            apply_trail(tmp_path / "ot", address(tmp_path), patience=2)
        # SQLite waits for two seconds in each attempt, and the last one begins within the patience.
        assert time.monotonic() - begin < 10
        with pytest.raises(TargetLockedError, match="has locked the catalog"):
            group_positions(address(tmp_path))
        other.rollback()

    assert apply_trail(tmp_path / "ot", address(tmp_path)).operations == 1
    assert set(iceberg_rows(tmp_path)) == {1, 2}


def test_a_catalog_that_is_locked_for_a_commit_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that begins after the table is loaded lets nobody commit."""
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    write_log(tmp_path / "ot", [Operation("I", 2, 2, FULL, 2)])
    commit, reader = iceberg_commits.commit_rows, sqlite3.connect(tmp_path / "warehouse/catalog.db")
    errors: list[str] = []

    def locked(table: IcebergTable, *arguments: Any, **named: Any) -> None:
        if errors:
            commit(table, *arguments, **named)
            return
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_tables").fetchone()
        try:
            commit(table, *arguments, **named)
        except Exception as error:
            errors.append(str(error))
            raise
        finally:
            reader.close()

    monkeypatch.setattr(iceberg, "commit_rows", locked)
    apply_trail(tmp_path / "ot", address(tmp_path))

    assert len(errors) == 1
    assert set(iceberg_rows(tmp_path)) == {1, 2}
    assert snapshots(tmp_path, "hr.t") == 2


def _make_text(path: Path) -> None:
    path.write_text("not a catalog\n" * 100)


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE orders (id integer)")


NO_CATALOGS: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "text": (_make_text, "cannot be opened with SQLite: file is not a database"),
    "a folder": (_make_folder, "cannot be opened with SQLite: unable to open database file"),
    "a database": (_make_database, "has other tables than those of an Iceberg catalog: orders"),
}


@pytest.mark.parametrize("name", NO_CATALOGS)
def test_a_file_that_is_no_catalog_is_refused(name: str, tmp_path: Path) -> None:
    make, text = NO_CATALOGS[name]
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    (tmp_path / "warehouse").mkdir()
    make(tmp_path / "warehouse/catalog.db")

    for act in (
        lambda: apply_trail(tmp_path / "ot", address(tmp_path)),
        lambda: group_positions(address(tmp_path)),
        lambda: verify_tables(tmp_path / "ot", address(tmp_path)),
        lambda: table_rows(f"{address(tmp_path)}/hr/t"),
    ):
        with pytest.raises(StorageError, match=rf"{text} \(.*catalog.db\). Name a new folder"):
            act()


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "copied"])
def test_a_folder_that_was_moved_or_copied_is_refused(moved: bool, tmp_path: Path) -> None:
    """A catalog has absolute paths: a copy would write to the tables of the original."""
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    write_log(tmp_path / "ot", [Operation("I", 2, 2, FULL, 2)])
    other = tmp_path / "other"
    if moved:
        (tmp_path / "warehouse").rename(other)
    else:
        shutil.copytree(tmp_path / "warehouse", other)
    before = sorted(tmp_path.rglob("*"))

    for act in (
        lambda: apply_trail(tmp_path / "ot", f"iceberg:{other}"),
        lambda: group_positions(f"iceberg:{other}"),
        lambda: table_rows(f"iceberg:{other}/hr/t"),
    ):
        with pytest.raises(StorageError, match=r"Iceberg stores absolute paths\. Move the folder"):
            act()

    assert sorted(tmp_path.rglob("*")) == before
    if moved:
        other.rename(tmp_path / "warehouse")
    assert apply_trail(tmp_path / "ot", address(tmp_path)).operations == 1


def test_a_full_disk_ends_the_run_which_continues_when_there_is_room(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    write_log(tmp_path / "ot", [Operation("I", key, key, FULL, key) for key in range(2, 3000)])
    with files_of(4_000), pytest.raises(WriteError, match="File too large"):
        apply_trail(tmp_path / "ot", address(tmp_path))

    assert set(iceberg_rows(tmp_path)) == {1}
    apply_trail(tmp_path / "ot", address(tmp_path))
    assert set(iceberg_rows(tmp_path)) == set(range(1, 3000))


REFUSED_TABLES: Final = {
    "warehouse/": "its name needs a namespace.*as in iceberg:lake/hr/jobs",
    "warehouse/hr.t": "its name needs a namespace.*as in iceberg:lake/hr/jobs",
    "warehouse/hr/u": "there is no Iceberg table here",
    "unknown/hr/t": "no folder above it has a file catalog.db",
    "prod": "its name needs a namespace.*iceberg:CATALOG.NAMESPACE.TABLE",
    "prod.t": "its name needs a namespace.*iceberg:CATALOG.NAMESPACE.TABLE",
    "prod.hr.t": "pyiceberg has no catalog 'prod'",
}


@pytest.mark.parametrize("name", REFUSED_TABLES)
def test_an_address_that_is_no_table_is_refused(name: str, tmp_path: Path) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    apply_trail(tmp_path / "ot", address(tmp_path))
    to = f"iceberg:{tmp_path}/{name}" if "/" in name else f"iceberg:{name}"
    with pytest.raises((OptionError, StorageError), match=REFUSED_TABLES[name]):
        table_rows(to)


def test_columns_of_others_keep_their_values(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("k", pa.int32()),
            ("v", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("part", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ]
    )
    own = {"tags": ["t"], "part": {"x": 1, "y": "q"}}
    made(tmp_path, schema).append(pa.Table.from_pylist([{"k": 1, "v": "a", **own}], schema))
    write(tmp_path, TABLE, (UPDATE, {"K": 1}, {"K": 1, "V": "y"}), CHANGES[1])
    apply_trail(tmp_path / "ot", address(tmp_path))

    none = {"tags": None, "part": None, "w": None}
    assert stored(tmp_path) == [{"k": 1, "v": "y", **own, "w": None}, {"k": 2, "v": "z", **none}]


def test_a_partitioned_table_keeps_its_partitions(tmp_path: Path) -> None:
    table = made(tmp_path, pa.schema([("k", pa.int64()), ("v", pa.string())]))
    with table.update_spec() as update:
        update.add_identity("v")
        update.add_field("k", BucketTransform(4), "bucket")
    write(tmp_path, TABLE, *CHANGES)
    apply_trail(tmp_path / "ot", address(tmp_path), batch_bytes=1)

    assert [(row["k"], row["v"]) for row in stored(tmp_path)] == [(1, "y"), (2, "z")]
    files = catalog(tmp_path).load_table("hr.n").inspect.files().to_pylist()
    assert sorted(file["partition"]["v"] for file in files) == ["y", "z"]


DAYS: Final = [date(1, 1, 1), date(2026, 2, 28), date(9999, 12, 31)]
LOW: Final = (-(2**31), -(2**31) + 9, 2**31 - 1)
LOWEST: Final = (-(2**63), -(2**63) + 9, -(2**31), 2**63 - 1)
# The transform of the partitions, the key's type, and keys whose partitions are hard to compute.
EXTREMES: Final[Sequence[tuple[Transform[Any, Any], pa.DataType, Sequence[Any], bool]]] = [
    (YearTransform(), pa.date32(), DAYS, False),
    (MonthTransform(), pa.date32(), DAYS, False),
    (DayTransform(), pa.date32(), DAYS, False),
    (TruncateTransform(10), pa.int64(), LOWEST, False),
    (TruncateTransform(10), pa.int32(), LOW, False),
    (TruncateTransform(10), pa.int32(), LOW, True),
]


@pytest.mark.parametrize(
    ("transform", "kind", "keys", "is_widened"),
    EXTREMES,
    ids=[f"{one[0]} of {one[1]}{', widened' * one[3]}" for one in EXTREMES],
)
def test_keys_at_the_ends_of_their_type_are_found_in_their_partitions(
    transform: Transform[Any, Any],
    kind: pa.DataType,
    keys: Sequence[Any],
    is_widened: bool,
    tmp_path: Path,
) -> None:
    """Each key alone, so that a batch has the range of this key."""
    table = made(tmp_path, pa.schema([("k", kind), ("v", pa.string())]))
    with table.update_spec() as update:
        update.add_field("k", transform, "part")
    column = Column("K", 192, 10, key=True) if kind == pa.date32() else TABLE.columns[0]
    source = Table("HR.N", (column, TABLE.columns[1]))
    shown = [str(key) if kind == pa.date32() else key for key in keys]
    write(tmp_path, source, *((INSERT, None, {"K": key, "V": "a"}) for key in shown))
    apply_trail(tmp_path / "ot", address(tmp_path))
    if is_widened:
        with catalog(tmp_path).load_table("hr.n").update_schema() as change:
            change.update_column("k", LongType())
    write(tmp_path, source, *((UPDATE, {"K": key}, {"K": key, "V": "b"}) for key in shown))
    write(tmp_path, source, *((DELETE, {"K": key}, None) for key in shown[1:]))
    apply_trail(tmp_path / "ot", address(tmp_path), batch_bytes=1)

    assert stored(tmp_path) == [{"k": keys[0], "v": "b"}]


def test_integers_get_eight_bytes(tmp_path: Path) -> None:
    table = made(tmp_path, pa.schema([("k", pa.int32()), ("v", pa.string())]))
    table.append(pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}))
    target = open_target(address(tmp_path), "g")
    known = target.find_table(make_target_table(TABLE))
    assert known is not None
    target.widen(known, ("k",))

    assert catalog(tmp_path).load_table("hr.n").schema().find_type("k") == LongType()
    assert stored(tmp_path) == [{"k": 1, "v": "a"}]


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path, pa.schema([("k", pa.int64())]))
    write(tmp_path, TABLE, CHANGES[0])
    monkeypatch.setattr(iceberg, "NEWEST_FORMAT", 1)
    with pytest.raises(ApplyError, match="format version 2, and pyiceberg writes versions up to 1"):
        apply_trail(tmp_path / "ot", address(tmp_path))


def test_delete_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pyiceberg writes none; ``spark/iceberg_session.py`` has a table with real ones."""
    made(tmp_path, pa.schema([("k", pa.int64())])).append(pa.table({"k": [1]}))
    write(tmp_path, TABLE, CHANGES[0])
    plan = DataScan.plan_files

    def with_deletes(scan: DataScan) -> list[FileScanTask]:
        return [FileScanTask(task.file, {task.file}) for task in plan(scan)]

    monkeypatch.setattr(DataScan, "plan_files", with_deletes)
    with pytest.raises(ApplyError, match=r"has delete files.*rewrite_data_files"):
        apply_trail(tmp_path / "ot", address(tmp_path))


def test_a_changed_row_rewrites_the_files_that_may_have_it(tmp_path: Path) -> None:
    table = made(tmp_path, pa.schema([("k", pa.int64()), ("v", pa.string())]))
    for first in (0, 10, 20):
        table.append(pa.table({"k": list(range(first, first + 10)), "v": ["a"] * 10}))
    before = {task.file.file_path for task in table.scan().plan_files()}
    write(tmp_path, TABLE, (UPDATE, {"K": 12}, {"K": 12, "V": "y"}))
    apply_trail(tmp_path / "ot", address(tmp_path))

    table.refresh()
    after = {task.file.file_path for task in table.scan().plan_files()}
    assert (len(before & after), len(after)) == (2, 3)
    assert [row["k"] for row in stored(tmp_path) if row["v"] == "y"] == [12]


def test_an_error_of_a_glue_catalog_is_an_error_of_ours() -> None:
    """botocore's errors have no class in common with those of pyiceberg."""
    exceptions = pytest.importorskip("botocore.exceptions")
    silent = exceptions.EndpointConnectionError(endpoint_url="http://127.0.0.1:9/")
    answer = {"Error": {"Code": "AccessDeniedException", "Message": "not you"}}
    refused = exceptions.ClientError(answer, "GetTable")

    with pytest.raises(TargetUnavailableError, match="Could not connect"):  # noqa: SIM117  each on its own
        with convert_iceberg_errors("shop.hr.t"):
            raise silent
    with pytest.raises(StorageError, match=r"AccessDenied.* not you \(shop.hr.t"):  # noqa: SIM117
        with convert_iceberg_errors("shop.hr.t"):
            raise refused


BY_NAME: Final = """
import sys
from trailgate.cli.main import run
trail, to = sys.argv[1:]
for more in ((), ("--status",), ("--verify",)):
    assert run(["apply", trail, "--to", to, *more]) == 0
assert run(["sql", f"SELECT * FROM '{to}.hr.t' LIMIT 1"]) == 0
"""


def test_a_configured_catalog_is_found_by_its_name(tmp_path: Path) -> None:
    """pyiceberg reads its configuration when it is imported, hence another process."""
    write_log(tmp_path / "ot", [Operation("I", 1, 1, FULL, 1)])
    settings = {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path}/shop.db",
        "WAREHOUSE": f"file://{tmp_path}/shop",
    }
    environment = {f"PYICEBERG_CATALOG__SHOP__{name}": value for name, value in settings.items()}
    command = [sys.executable, "-c", BY_NAME, str(tmp_path / "ot"), "iceberg:shop.north"]

    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | environment, check=False
    )

    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "the rows match the trail" in printed
    own = SqlCatalog("shop", uri=settings["URI"], warehouse=settings["WAREHOUSE"])
    assert rows_by_id(own.load_table("north.hr.t").scan().to_arrow().to_pylist()) == {1: FULL}
