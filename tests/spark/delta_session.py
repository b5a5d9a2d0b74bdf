"""Tests of MERGE by a session with Delta, which ``test_session_delta.py`` runs by the PySpark that Delta is built for."""

from __future__ import annotations

import itertools
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark import __version__
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import trailgate.spark
from apply import value_table
from apply.deletion_vectors import vectors
from apply.sources import delta_rows, write_log
from apply.test_modes import Case, followed, try_mode
from apply.test_net_effects import history
from apply.test_repaired import CASES as REPAIRED
from apply.test_repaired import try_repairs
from apply.value_histories import counted, mixed_histories, run_histories
from laws import WHOLE, chance, one_of
from oracles.apply_naive import Operation
from oracles.modes_naive import KEPT
from spark.interpreted import INTERPRETED
from spark.merged_tables import BOTH, order_rows, sorted_rows, write_kinds, write_orders
from trailgate import ApplyError, DefinitionError, StorageError, apply_trail
from trailgate.apply.spark import delta as session_delta
from trailgate.apply.spark import merge as session_merge
from trailgate.apply.spark.delta import SessionDeltaTarget
from trailgate.apply.targets.target import AppliedPosition
from trailgate.spark.sessions import session

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
APPLICATION = "trailgate:trailgate"

TYPES = 24 if WHOLE else 4
HISTORIES = 12 if WHOLE else 1
PLACES = ("between tables", "after the merge", "before the position")
ENDS = one_of(PLACES, "ends delta")


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    assert __version__ == os.environ["SESSION_SPARK"]
    settings = {
        **INTERPRETED,
        "spark.sql.adaptive.enabled": "false",  # plans each of its queries several times
        "spark.jars": os.environ["SESSION_JARS"],
        "spark.sql.extensions": EXTENSION,
        "spark.sql.catalog.spark_catalog": CATALOG,
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.stats.collect": "false",
    }
    if os.environ.get("SESSION_REMOTE"):
        builder = SparkSession.builder.remote("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        with warnings.catch_warnings(action="ignore"):  # that the server has its jars already
            made = builder.getOrCreate()
    else:
        made = session("local[2]", "trailgate-tests", **settings)
    yield made
    made.stop()


@pytest.fixture
def apply(spark: SparkSession, tmp_path: Path) -> Callable[..., trailgate.ApplyReport]:
    def run(folder: Path = tmp_path, **options: Any) -> trailgate.ApplyReport:
        return trailgate.spark.apply(
            spark, folder / "ot", f"delta:{folder}/lake", merge="session", **options
        )

    return run


def commits(table: Path) -> list[tuple[str, str]]:
    """Return who made each commit of a table, and what it is."""
    found = DeltaTable(table).history()
    return [(str(one.get("engineInfo", "delta-rs")), str(one["operation"])) for one in found]


def merges(table: Path) -> int:
    """Return how often the session merged into a table."""
    return sum("Spark" in engine and what == "MERGE" for engine, what in commits(table))


def test_a_history_gives_the_sources_rows_once(apply: Callable[..., Any], tmp_path: Path) -> None:
    source = history(chance("session merge"), 4)
    while not source.rows:
        source.transaction()
    write_log(tmp_path / "ot", source.log)

    assert apply(batch_bytes=1_000).operations == len(source.log)
    assert delta_rows(tmp_path) == source.rows, source.log
    version = DeltaTable(tmp_path / "lake/hr/t").version()
    assert apply().operations == 0
    assert DeltaTable(tmp_path / "lake/hr/t").version() == version


def test_each_effect_is_as_delta_rs_writes_it(apply: Callable[..., Any], tmp_path: Path) -> None:
    for begin in (True, False):
        write_kinds(tmp_path / "ot", begin=begin)
        apply()
    apply_trail(tmp_path / "ot", f"delta:{tmp_path}/other")

    name = "hr/kinds"
    ours, theirs = (DeltaTable(tmp_path / one / name) for one in ("lake", "other"))
    assert sorted_rows(ours.to_pyarrow_table()) == sorted_rows(theirs.to_pyarrow_table())
    assert pa.schema(ours.schema()) == pa.schema(theirs.schema())
    assert merges(tmp_path / "lake" / name) == 2


def test_keys_and_values_of_every_type_are_merged(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path
) -> None:
    """Every second piece is merged by delta-rs, so that each library reads what the other one wrote."""
    target, own = value_table.TARGETS["delta"], chance("session values")
    turns = itertools.cycle((True, False))

    def either(trail: Path, to: str, _: int) -> None:
        apply() if next(turns) else apply_trail(trail, to)

    histories = mixed_histories(own, target, TYPES)
    run_histories(tmp_path, histories, target, either, own)
    for one in histories:
        name = one.table.name.lower().replace(".", "/")
        read = spark.read.format("delta").load(f"{tmp_path}/lake/{name}").toArrow()
        assert counted(read.to_pylist()) == counted(one.expected())


def test_a_table_with_deletion_vectors_is_merged_by_both(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "lake/hr/t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id bigint, a bigint, b bigint, c bigint) USING delta "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    ).collect()
    source = history(chance("vectors of Spark"), 6)
    done = 0
    for by_session in (True, False, False, True):
        write_log(tmp_path / "ot", source.log[done:])
        done = len(source.log)
        apply() if by_session else apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
        assert delta_rows(tmp_path) == source.rows
        values = ", ".join(f"({one}, 0, 0, 0)" for one in range(900, 960))
        spark.sql(f"INSERT INTO delta.`{path}` VALUES {values}").collect()
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id >= 900 AND id < 930").collect()
        assert vectors(path)
        spark.sql(f"DELETE FROM delta.`{path}` WHERE id >= 930").collect()
        while len(source.log) == done or not source.rows:
            source.transaction()


def test_columns_that_the_table_fills_are_filled(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path
) -> None:
    """delta-rs writes generated columns alone, and names the features of the others."""
    path = tmp_path / "lake/hr/t"
    columns = "id BIGINT, a BIGINT, b BIGINT, c BIGINT"
    more = "n BIGINT GENERATED ALWAYS AS IDENTITY, d STRING DEFAULT 'x', g BIGINT GENERATED ALWAYS AS (a + 1)"
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}, {more}) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    ).collect()
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 1)])
    with pytest.raises(ApplyError, match=r"IdentityColumns.*merge='session'"):
        apply_trail(tmp_path / "ot", f"delta:{tmp_path}/lake")
    apply()
    write_log(tmp_path / "ot", [Operation("U", 1, 1, {"a": 7}, 2)])
    apply()

    (row,) = spark.read.format("delta").load(str(path)).toArrow().to_pylist()
    assert row == {"id": 1, "a": 7, "b": 2, "c": 3, "n": 1, "d": "x", "g": 8}


@pytest.mark.parametrize(
    ("property_name", "change", "words"),
    [
        ("appendOnly", "SET TBLPROPERTIES ('delta.appendOnly' = 'true')", "does not allow updates"),
        ("CHECK", "ADD CONSTRAINT small CHECK (a < 5)", "CHECK constraint small refuses the row"),
    ],
)
def test_what_a_table_refuses_is_named(
    spark: SparkSession,
    apply: Callable[..., Any],
    tmp_path: Path,
    property_name: str,
    change: str,
    words: str,
) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 1)])
    apply()
    spark.sql(f"ALTER TABLE delta.`{tmp_path}/lake/hr/t` {change}").collect()
    write_log(tmp_path / "ot", [Operation("U", 1, 1, {"a": 7}, 2)])

    with pytest.raises(ApplyError, match=words) as caught:
        apply()
    assert "spark.jars.packages" not in str(caught.value), property_name


def test_either_library_continues_the_other(apply: Callable[..., Any], tmp_path: Path) -> None:
    source = history(chance("session and library"), 3)
    versions = []
    done = 0
    for by_session in (True, False, True, False):
        write_log(tmp_path / "ot", source.log[done:])
        to = f"delta:{tmp_path}/lake"
        report = apply() if by_session else apply_trail(tmp_path / "ot", to)
        assert report.operations == len(source.log) - done
        assert delta_rows(tmp_path) == source.rows
        found = DeltaTable(tmp_path / "lake/hr/t").transaction_version(APPLICATION)
        assert found is not None
        versions.append(found)
        done = len(source.log)
        while len(source.log) == done:
            source.transaction()
    assert versions == sorted(set(versions))


def test_what_was_dropped_is_not_created_again(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path
) -> None:
    full = {"a": 1, "b": 2, "c": 3}
    write_log(tmp_path / "ot", [Operation("I", 1, 1, full, 1)])
    apply()
    write_log(tmp_path / "ot", [Operation("I", 2, 2, full, 2)])
    path = tmp_path / "lake/hr/t"
    rows = spark.read.format("delta").load(str(path)).drop("c")
    overwrite = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwrite.save(str(path))
    with pytest.raises(DefinitionError, match="dropped this column"):
        apply()
    shutil.rmtree(path)
    with pytest.raises(DefinitionError, match="no longer exists"):
        apply()


def test_a_restored_table_is_refused(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path
) -> None:
    full = {"a": 1, "b": 2, "c": 3}
    for key in (1, 2):
        write_log(tmp_path / "ot", [Operation("I", key, key, full, key)])
        apply()
    table = DeltaTable(tmp_path / "lake/hr/t")
    write_log(tmp_path / "ot", [Operation("I", 3, 3, full, 3)])
    restore = f"RESTORE TABLE delta.`{tmp_path}/lake/hr/t` TO VERSION AS OF"
    spark.sql(f"{restore} {table.version() - 1}").collect()
    with pytest.raises(StorageError, match=r"restored.*operations up to position 0:.*--after 0:\d"):
        apply()
    spark.sql(f"{restore} {table.version()}").collect()
    apply()
    assert delta_rows(tmp_path) == dict.fromkeys((1, 2, 3), full)


def test_a_merge_that_is_repeated_makes_no_second_commit(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(SessionDeltaTarget, "_merge", _noting(SessionDeltaTarget._merge, given))
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 1)])
    apply()
    ((effects, at),) = given
    version = DeltaTable(tmp_path / "lake/hr/t").version()

    again = SessionDeltaTarget(f"{tmp_path}/lake", "trailgate", spark)
    with pytest.raises(StorageError, match="another run is applying group"):
        again._merge(effects, at)
    assert DeltaTable(tmp_path / "lake/hr/t").version() == version


def _noting(method: Callable[..., None], given: list[Any]) -> Callable[..., None]:
    def noting(self: SessionDeltaTarget, *arguments: Any) -> None:
        given.append(arguments)
        method(self, *arguments)

    return noting


@pytest.mark.parametrize("mode", KEPT)
def test_a_mode_keeps_what_its_oracle_keeps(mode: str, spark: SparkSession, tmp_path: Path) -> None:
    try_mode("delta by the session", mode, HISTORIES, tmp_path, spark)


@pytest.mark.parametrize("mode", one_of(list(KEPT), "modes that a session follows"))
def test_so_does_a_run_that_follows(mode: str, spark: SparkSession, tmp_path: Path) -> None:
    try_mode("delta by the session", mode, HISTORIES, tmp_path, spark, apply=followed)


@pytest.mark.parametrize("case", one_of(REPAIRED, "repairs by a session"), ids=str)
def test_repaired_operations_are_applied_once_or_refused(
    case: Case, spark: SparkSession, tmp_path: Path
) -> None:
    try_repairs(case, "delta by the session", HISTORIES, tmp_path, spark)


@pytest.mark.parametrize("where", ENDS)
def test_a_run_that_ends_anywhere_is_continued(
    apply: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    write_orders(tmp_path / "ot", 0, 3)
    calls = 0

    def ending(self: Any, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if where == "between tables" and calls == 2:
            raise KeyboardInterrupt
        found = method(self, *arguments)
        if where == "after the merge":
            raise KeyboardInterrupt
        return found

    def no_commit(_: SessionDeltaTarget, __: AppliedPosition) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if where == "after the merge":
            method: Callable[..., Any] = session_merge.merge
            patched.setattr(session_delta, "merge", ending)
        elif where == "between tables":
            method = SessionDeltaTarget.write
            patched.setattr(SessionDeltaTarget, "write", ending)
        else:
            patched.setattr(SessionDeltaTarget, "commit", no_commit)
        with pytest.raises(KeyboardInterrupt):
            apply()
    write_orders(tmp_path / "ot", 3, 4)

    apply()

    for name in BOTH:
        rows = rows_by_name(tmp_path / "lake" / name)
        assert rows == order_rows(4), name


def rows_by_name(table: Path) -> dict[Any, Any]:
    found = DeltaTable(table).to_pyarrow_table().to_pylist()
    rows = {row["id"]: row["n"] for row in found}
    assert len(rows) == len(found)
    return rows


def test_a_merge_that_lost_against_another_writer_is_tried_again(
    apply: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 1)])
    method = session_merge.merge
    calls: list[Any] = []

    def lost(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            raise PySparkException("[DELTA_CONCURRENT_APPEND] by somebody else")
        return method(*arguments)

    monkeypatch.setattr(session_delta, "merge", lost)
    apply()

    assert len(calls) == 2
    assert delta_rows(tmp_path) == {1: {"a": 1, "b": 2, "c": 3}}


def test_the_sessions_own_settings_are_given_back(
    spark: SparkSession, apply: Callable[..., Any], tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 1)])
    spark.conf.set(session_delta.METADATA, "mine")
    try:
        apply()
        assert spark.conf.get(session_delta.METADATA) == "mine"
        assert spark.conf.get(session_delta.VERSION, None) is None
        assert [one.name for one in spark.catalog.listTables()] == []
    finally:
        spark.conf.unset(session_delta.METADATA)
