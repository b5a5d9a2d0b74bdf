"""``merge="session"``: the session merges into Delta tables where it has Delta, and the error is ours where it has not."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import trailgate.spark
from apply.sources import delta_rows, iceberg_rows, write_log
from laws import WHOLE, one_of
from oracles.apply_naive import Operation
from spark.other_spark import DELTA, ICEBERG, run_tests
from trailgate import ApplyError, OptionError
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.apply.spark.merge import join_condition
from trailgate.apply.targets.delta_properties import has_rounded_statistics

LOG = [Operation("I", 1, 1, {"a": 1, "b": 2, "c": 3}, 1)]


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.timeout(0 if WHOLE else 900)
def test_a_session_with_delta_merges() -> None:
    run_tests("delta_session.py", *DELTA)


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.timeout(0 if WHOLE else 900)
@pytest.mark.parametrize("merged", one_of(["Connect", "Iceberg"], "sessions that merge"))
def test_so_does_one_over_connect_or_with_iceberg(merged: str) -> None:
    if merged == "Iceberg":
        run_tests("iceberg_session.py", *ICEBERG)
    else:
        few = {"PYTEST_ADDOPTS": "-k 'effect or given'"}
        run_tests("delta_session.py", *DELTA, SESSION_REMOTE="1", **few)


def test_a_merge_has_the_bounds_of_keys_that_are_numbers_or_dates() -> None:
    columns = {
        "n": pa.array([3, -7], pa.int64()),
        "d": pa.array([Decimal(0), Decimal("1.5")], pa.decimal128(19, 8)),
        "day": pa.array([date(2026, 1, 5), date(1, 1, 1)]),
        "text": pa.array(["a", "b"]),
        "null": pa.array([1, None], pa.int64()),
    }
    own = tuple(TargetColumn(name, values.type) for name, values in columns.items())
    table = TargetTable(("t",), own, tuple(range(len(own))))

    text = join_condition(table, list(columns.values()))

    assert text.split(" AND (t.`null` = s.c4) AND ")[1] == (
        "t.`n` BETWEEN -7 AND 3 AND t.`d` BETWEEN 0.00000000 AND 1.50000000 "
        "AND t.`day` BETWEEN DATE '0001-01-01' AND DATE '2026-01-05'"
    )
    exact = join_condition(
        table, list(columns.values()), lambda kind: not has_rounded_statistics(kind)
    )
    assert "t.`n` BETWEEN" in exact
    assert "t.`d` BETWEEN" not in exact
    none = [values[:0] for values in columns.values()]
    assert "BETWEEN" not in join_condition(table, none)


def test_a_session_without_delta_is_an_error_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    to = f"delta:{tmp_path}/lake"
    hint = r"cannot merge into the Delta table: .*lake/hr/t\).*spark\.jars\.packages=io\.delta"
    with pytest.raises(ApplyError, match=hint):
        trailgate.spark.apply(spark, tmp_path / "ot", to, merge="session")
    assert DeltaTable(tmp_path / "lake/hr/t").to_pyarrow_table().num_rows == 0

    assert trailgate.spark.apply(spark, tmp_path / "ot", to).operations == 1
    assert delta_rows(tmp_path) == {1: {"a": 1, "b": 2, "c": 3}}


def test_other_targets_have_no_merge_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "ot", LOG)
    with pytest.raises(OptionError, match=r"such as delta:lake/ and iceberg:prod, not duckdb"):
        trailgate.spark.apply(spark, tmp_path / "ot", f"duckdb:{tmp_path}/x", merge="session")
    with pytest.raises(OptionError, match="merge must be 'library' or 'session', not 'sql'"):
        trailgate.spark.apply(spark, tmp_path / "ot", f"delta:{tmp_path}", merge="sql")  # type: ignore[arg-type]


def test_a_session_without_the_catalog_is_an_error_of_ours(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", LOG)
    with pytest.raises(ApplyError, match=r"the session refuses: .*sea.*spark\.sql\.catalog\.NAME"):
        trailgate.spark.apply(spark, tmp_path / "ot", "iceberg:sea")
    with pytest.raises(OptionError, match="such as delta:lake/ and iceberg:prod, not iceberg:"):
        trailgate.spark.apply(spark, tmp_path / "ot", f"iceberg:{tmp_path}/x", merge="session")


def test_a_folder_of_iceberg_is_written_without_the_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", LOG)
    trailgate.spark.apply(spark, tmp_path / "ot", f"iceberg:{tmp_path}/warehouse")
    assert iceberg_rows(tmp_path) == {1: {"a": 1, "b": 2, "c": 3}}
