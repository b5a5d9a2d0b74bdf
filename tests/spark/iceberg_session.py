"""Tests of tables of a session's Iceberg catalog, which ``test_session_merge.py`` runs by the PySpark that Iceberg is built for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import __version__
from pyspark.sql import SparkSession

import trailgate.spark
from apply import value_table
from apply.naive_batches import TARGET
from apply.sources import iceberg_rows, rows_by_id, write_log
from apply.test_modes import try_mode
from apply.test_net_effects import history
from apply.value_histories import mixed_histories, run_histories
from laws import WHOLE, chance, one_of
from oracles.apply_naive import Operation, Source
from spark.interpreted import INTERPRETED
from spark.merged_tables import order_rows, sorted_rows, write_kinds, write_orders
from trailgate import (
    ApplyError,
    DefinitionError,
    OptionError,
    StorageError,
    apply_trail,
    verify_tables,
)
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.spark import iceberg as session_iceberg
from trailgate.apply.spark.iceberg import SessionIcebergTarget
from trailgate.apply.targets import iceberg_catalogs
from trailgate.apply.targets.target import AppliedPosition
from trailgate.spark.sessions import session

CATALOG = "spark.sql.catalog.lake"
FULL = {"a": 1, "b": 2, "c": 3}

TYPES = 24 if WHOLE else 4
HISTORIES = 12 if WHOLE else 2
PLACES = ("between tables", "after the merge", "before the position")
ENDS = one_of(PLACES, "ends iceberg")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    assert __version__ == os.environ["SESSION_SPARK"]
    settings = {
        **INTERPRETED,
        "spark.sql.adaptive.enabled": "false",  # plans each of its queries several times
        "spark.jars": os.environ["SESSION_JARS"],
        # A driver of JDBC is found only among the JVM's own classes.
        "spark.driver.extraClassPath": os.environ["SESSION_JARS"].replace(",", os.pathsep),
        CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{CATALOG}.type": "hadoop",
        f"{CATALOG}.warehouse": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.shuffle.partitions": "1",
    }
    made = session("local[2]", "trailgate-tests", **settings)
    yield made
    made.stop()


class Place:
    """A namespace of the catalog, and a trail that is applied to its tables."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.trail = spark, folder / "ot"
        self.name = f"lake.n{chance(str(folder)).getrandbits(40)}"

    def apply(self, **options: Any) -> trailgate.ApplyReport:
        return trailgate.spark.apply(self.spark, self.trail, f"iceberg:{self.name}", **options)

    def rows(self, table: str) -> pa.Table:
        return self.spark.table(f"{self.name}.{table}").toArrow()

    def snapshots(self, table: str) -> list[dict[str, str]]:
        found = self.spark.sql(f"SELECT summary FROM {self.name}.{table}.snapshots").collect()
        return [dict(row["summary"]) for row in found]

    @property
    def target(self) -> SessionIcebergTarget:
        return SessionIcebergTarget(self.name, "trailgate", self.spark)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)


def test_a_history_gives_the_sources_rows_once(place: Place) -> None:
    source = history(chance("iceberg"), 4)
    while not source.rows:  # a table without a row has no snapshot
        source.transaction()
    write_log(place.trail, source.log)

    assert place.apply(batch_bytes=1_000).operations == len(source.log)
    assert rows_by_id(place.rows("hr.t").to_pylist()) == source.rows, source.log
    before = place.snapshots("hr.t")
    assert place.apply().operations == 0
    assert place.snapshots("hr.t") == before
    (one,) = place.target.positions()
    last = max(found.get("trailgate.trailgate.position", "") for found in before)
    assert (one.table, one.position) == ("hr.t", last)


def test_each_effect_is_as_delta_rs_writes_it(place: Place, tmp_path: Path) -> None:
    for begin in (True, False):
        write_kinds(place.trail, begin=begin)
        place.apply()
    apply_trail(place.trail, f"delta:{tmp_path}/other")

    for name in ("kinds", "loose"):
        theirs = DeltaTable(tmp_path / "other/hr" / name).to_pyarrow_table()
        ours = place.rows(f"hr.{name}")
        assert sorted_rows(ours) == sorted_rows(theirs)
        assert ours.schema == theirs.schema


def test_keys_and_values_of_every_type_are_merged(place: Place, tmp_path: Path) -> None:
    target, own = value_table.TARGETS["iceberg"], chance("iceberg values")
    target = target._replace(rows=lambda _, table: place.rows(table).to_pylist())

    def apply(*_: Any) -> None:
        place.apply()

    run_histories(tmp_path, mixed_histories(own, target, TYPES), target, apply, own)


@pytest.mark.parametrize("mode", ["current", "history", "append"])
def test_a_mode_keeps_what_its_oracle_keeps(mode: str, spark: SparkSession, tmp_path: Path) -> None:
    try_mode("iceberg by the session", mode, HISTORIES, tmp_path, spark)


@pytest.mark.parametrize("where", ENDS)
def test_a_run_that_ends_anywhere_is_continued(
    place: Place, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    write_orders(place.trail, 0, 3)
    owner, name = {
        "between tables": (SessionIcebergTarget, "write"),
        "after the merge": (session_iceberg, "merge"),
        "before the position": (SessionIcebergTarget, "commit"),
    }[where]
    method, calls = getattr(owner, name), 0

    def ending(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 or where == "before the position":
            raise KeyboardInterrupt
        method(*arguments)
        if where == "after the merge":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, ending)
        with pytest.raises(KeyboardInterrupt):
            place.apply()
    write_orders(place.trail, 3, 4)

    place.apply()

    for table in ("hr.first", "hr.second"):
        found = place.rows(table).to_pylist()
        assert sorted((row["id"], row["n"]) for row in found) == [*order_rows(4).items()], table


def test_a_truncate_ends_the_versions_of_mode_history(place: Place) -> None:
    log = [
        Operation("I", 1, 1, FULL, 1),
        Operation("T", 0, 0, {}, 2),
        Operation("I", 2, 2, FULL, 3),
    ]
    write_log(place.trail, log[:1])
    place.apply(mode="history")
    write_log(place.trail, log[1:])
    place.apply(mode="history")

    found = {row["id"]: row for row in place.rows("hr.t").to_pylist()}
    assert {key: row["_is_current"] for key, row in found.items()} == {1: False, 2: True}
    assert str(found[1]["_valid_to"]).startswith("1970-01-01 00:00:00")
    with pytest.raises(OptionError, match="iceberg: does not support --mode soft-delete"):
        place.apply(mode="soft-delete")


def test_every_operation_is_a_row_of_mode_append(place: Place) -> None:
    write_log(place.trail, [Operation("I", 1, 1, FULL, 1), Operation("U", 1, 1, {"a": 7}, 2)])
    place.apply(mode="append")

    found = place.rows("hr.t").to_pylist()
    assert [(row["_op_type"], row["a"], row["_missing"]) for row in found] == [
        ("I", 1, "[]"),
        ("U", 7, '["b", "c"]'),
    ]


def test_a_table_gets_columns_and_wider_integers(place: Place) -> None:
    write_log(place.trail, [Operation("I", 1, 1, FULL, 1)])
    place.spark.sql(f"CREATE NAMESPACE {place.name}")
    place.spark.sql(f"CREATE NAMESPACE {place.name}.hr")
    place.spark.sql(f"CREATE TABLE {place.name}.hr.t (id bigint, a bigint, own int) USING iceberg")
    place.apply()

    assert place.rows("hr.t").to_pylist() == [{"id": 1, "a": 1, "own": None, "b": 2, "c": 3}]
    target = place.target
    table = target.find_table(replace(TARGET, name=("hr", "t")))
    assert table is not None
    target.widen(table, ("own",))
    assert place.rows("hr.t").schema.field("own").type == pa.int64()


def test_what_was_dropped_is_not_created_again(place: Place) -> None:
    write_log(place.trail, [Operation("I", 1, 1, FULL, 1)])
    place.apply()
    write_log(place.trail, [Operation("I", 2, 2, FULL, 2)])
    drop_column = f"ALTER TABLE {place.name}.hr.t DROP COLUMN c"
    drops = {
        drop_column: "dropped this column",
        f"DROP TABLE {place.name}.hr.t": "no longer exists",
    }
    for statement, problem in drops.items():
        place.spark.sql(statement)
        with pytest.raises(DefinitionError, match=problem):
            place.apply()
    assert place.target.positions() == []

    place.spark.sql(
        f"CREATE TABLE {place.name}.hr.t (id bigint, a bigint, b bigint, c bigint) USING iceberg"
    )
    place.apply()
    assert place.rows("hr.t")["id"].to_pylist() == [2]


def test_a_restored_table_is_refused(place: Place) -> None:
    for key in (1, 2, 3):
        write_log(place.trail, [Operation("I", key, key, FULL, key)])
        place.apply()
    ids = [
        row["snapshot_id"]
        for row in place.spark.sql(
            f"SELECT snapshot_id FROM {place.name}.hr.t.snapshots ORDER BY committed_at"
        ).collect()
    ]
    write_log(place.trail, [Operation("I", 4, 4, FULL, 4)])

    rollback = "CALL lake.system.set_current_snapshot('{}.hr.t', {})"
    place.spark.sql(rollback.format(place.name.removeprefix("lake."), ids[1])).collect()
    with pytest.raises(StorageError, match="restored to an older state"):
        place.apply()
    place.spark.sql(rollback.format(place.name.removeprefix("lake."), ids[2])).collect()
    place.apply()
    assert sorted(place.rows("hr.t")["id"].to_pylist()) == [1, 2, 3, 4]


def test_a_snapshot_that_only_a_tag_keeps_is_no_newer_state(place: Place) -> None:
    """Those between it and the current one are expired, so nobody knows whether its rows are there."""
    write_log(place.trail, [Operation("I", 1, 1, FULL, 1)])
    place.apply()
    table = f"{place.name}.hr.t"
    (first,) = place.spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()
    jvm: Any = place.spark._jvm  # SQL makes tags only with Iceberg's extensions
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        place.spark._jsparkSession, table
    )
    loaded.manageSnapshots().createTag("eod", first["snapshot_id"]).commit()
    for _ in range(2):
        place.spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}").collect()
    name = place.name.removeprefix("lake.")
    later = "TIMESTAMP '9999-01-01 00:00:00'"
    place.spark.sql(
        f"CALL lake.system.expire_snapshots(table => '{name}.hr.t', older_than => {later})"
    ).collect()
    assert len(place.snapshots("hr.t")) == 2
    for key in (2, 3):
        write_log(place.trail, [Operation("I", key, key, FULL, key)])
        place.apply()
    assert sorted(place.rows("hr.t")["id"].to_pylist()) == [1, 2, 3]

    place.spark.sql(
        f"CALL lake.system.set_current_snapshot('{name}.hr.t', {first['snapshot_id']})"
    ).collect()
    (status,) = place.target.positions()
    assert "restored to an older state" in (status.notice or "")
    write_log(place.trail, [Operation("I", 4, 4, FULL, 4)])
    with pytest.raises(StorageError, match="restored to an older state"):
        place.apply()


def test_a_position_is_written_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(place.trail, [Operation("I", 1, 1, FULL, 1)])
    given: list[tuple[TableChanges, AppliedPosition]] = []
    write = SessionIcebergTarget.write

    def noting(self: SessionIcebergTarget, effects: TableChanges, at: AppliedPosition) -> None:
        given.append((effects, at))
        write(self, effects, at)

    monkeypatch.setattr(SessionIcebergTarget, "write", noting)
    place.apply()

    with pytest.raises(StorageError, match="another run is applying group"):
        write(place.target, *given[0])
    assert len(place.snapshots("hr.t")) == 1


def test_a_catalog_that_is_not_there_is_an_error_of_ours(place: Place) -> None:
    write_log(place.trail, [Operation("I", 1, 1, FULL, 1)])
    with pytest.raises(ApplyError, match=r"the session refuses: .*sea.*spark\.sql\.catalog\.NAME"):
        trailgate.spark.apply(place.spark, place.trail, "iceberg:sea")


def test_a_session_and_one_process_continue_each_other(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take turns in the catalog of a folder, which the session opens by JDBC."""
    monkeypatch.setattr(iceberg_catalogs, "FOLDER_CATALOG", "folder")
    to, folder = f"iceberg:{tmp_path}/warehouse", tmp_path / "warehouse"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{folder}/catalog.db",
        ".warehouse": f"file://{folder}",
        ".jdbc.schema-version": "V1",
    }
    for name, value in settings.items():
        place.spark.conf.set(f"spark.sql.catalog.folder{name}", value)
    source, done = Source(chance("turns"), keys=6), 0
    for turn in range(4):
        while len(source.log) < done + 4:
            source.transaction()
        write_log(place.trail, source.log[done:])
        if turn % 2:
            report = trailgate.spark.apply(place.spark, place.trail, "iceberg:folder")
        else:
            report = apply_trail(place.trail, to, batch_bytes=200)
        assert report.operations == len(source.log) - done
        done = len(source.log)
        place.spark.catalog.refreshTable("folder.hr.t")
        assert rows_by_id(place.spark.table("folder.hr.t").toArrow().to_pylist()) == source.rows
        assert iceberg_rows(tmp_path) == source.rows
        assert verify_tables(place.trail, to).is_equal

    place.spark.sql(
        "ALTER TABLE folder.hr.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    place.spark.sql("INSERT INTO folder.hr.t (id) SELECT id FROM range(77, 79, 1, 1)")
    place.spark.sql("DELETE FROM folder.hr.t WHERE id = 77")
    write_log(place.trail, [Operation("I", 80, 80, FULL, 1_000)])
    with pytest.raises(ApplyError, match="has delete files"):
        apply_trail(place.trail, to)
