"""A trail applied by Spark gives the source's tables, however it is split, and continues what one process began."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trailgate.spark
from apply import value_table
from apply.sources import TARGETS, tries, write_log
from apply.test_net_effects import history
from apply.value_histories import mixed_histories, run_histories
from laws import chance
from oracles.apply_naive import Operation
from trailgate import ApplyError, OptionError, apply_trail
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.apply.spark.trail import TaskReading

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", TARGETS)
def test_tasks_give_the_sources_rows(spark: SparkSession, name: str, tmp_path: Path) -> None:
    address, rows = TARGETS[name]
    for number in range(tries(name, 3)):
        own = chance(f"spark {name} {number}")
        folder = tmp_path / str(number)
        folder.mkdir()
        source = history(own, 8)
        write_log(folder / "ot", source.log)
        reading = TaskReading(spark=spark, split_bytes=own.choice((400, 1 << 20)))
        to = address.format(folder)
        with ApplyRun(folder / "ot", to, ApplyOptions(), reading=reading) as run:
            assert run.to_end().operations == len(source.log)
        assert rows(folder) == source.rows, source.log


def test_so_they_do_with_keys_and_values_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    target, own = value_table.TARGETS["delta"], chance("spark values")

    def apply(trail: Path, to: str, _: int) -> None:
        trailgate.spark.apply(spark, trail, to)

    run_histories(tmp_path, mixed_histories(own, target, 6), target, apply, own)


def test_one_process_continues_what_spark_began(spark: SparkSession, tmp_path: Path) -> None:
    address, rows = TARGETS["delta"]
    to = address.format(tmp_path)
    source = history(chance("both"), 6)
    write_log(tmp_path / "ot", source.log)
    assert trailgate.spark.apply(spark, tmp_path / "ot", to).operations == len(source.log)
    done = len(source.log)
    for _ in range(6):
        source.transaction()
    write_log(tmp_path / "ot", source.log[done:])

    assert apply_trail(tmp_path / "ot", to).operations == len(source.log) - done
    assert rows(tmp_path) == source.rows
    assert trailgate.spark.apply(spark, tmp_path / "ot", to).operations == 0


def test_the_error_of_an_operation_is_that_of_one_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", [Operation("U", 1, 1, {"a": 7}, 1)])
    address = TARGETS["duckdb"][0].format(tmp_path)
    with pytest.raises(ApplyError) as alone:
        apply_trail(tmp_path / "ot", address)
    with pytest.raises(ApplyError) as tasks:
        trailgate.spark.apply(spark, tmp_path / "ot", address)

    assert str(tasks.value) == str(alone.value)


def test_a_value_that_is_no_csn_of_the_trail_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_log(tmp_path / "ot", [Operation("U", 1, 1, {"a": 7}, 1)])
    to = TARGETS["duckdb"][0].format(tmp_path)
    with pytest.raises(OptionError, match="after_csn is 'abc', but the CSNs of the trail are"):
        trailgate.spark.apply(spark, tmp_path / "ot", to, after_csn="abc")
    assert not list(tmp_path.glob("*.duckdb"))
