"""Frames and streams of operations land in tables: in whatever order their rows come, and each operation once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from apply.sources import TARGETS, write_log
from apply.test_net_effects import history
from laws import chance
from oracles.apply_naive import Source
from trailgate import OptionError, apply_trail
from trailgate.apply.spark.writer import plan_writer_apply
from trailgate.model.changes import OPERATIONS_SCHEMA

pytestmark = pytest.mark.spark
ADDRESS, ROWS = TARGETS["delta"]


def logged(folder: Path, what: str, transactions: int = 8) -> Source:
    """Return a source that has written a trail."""
    source = history(chance(what), transactions)
    write_log(folder / "ot", source.log)
    return source


def frame_of(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the operations of the trail."""
    return spark.read.format("trail").load(str(folder / "ot"))


def apply(frame: DataFrame, folder: Path, **options: Any) -> None:
    """Write a frame to the tables."""
    named = {"to": ADDRESS.format(folder), "trail": str(folder / "ot"), **options}
    frame.write.format("trailgate_apply").options(**named).mode("append").save()


def follow(spark: SparkSession, folder: Path, checkpoint: str = "state", **options: Any) -> None:
    """Let a stream apply what the trail has."""
    named = {"to": ADDRESS.format(folder), "trail": str(folder / "ot"), **options}
    frame = spark.readStream.format("trail").load(str(folder / "ot"))
    query = (
        frame.writeStream.format("trailgate_apply")
        .options(**named, checkpointLocation=str(folder / checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_frame_in_any_order_gives_the_sources_rows(spark: SparkSession, tmp_path: Path) -> None:
    source = logged(tmp_path, "any order")
    frame = frame_of(spark, tmp_path)
    shuffled = frame.union(frame.limit(3)).repartition(3)

    apply(shuffled, tmp_path)
    assert ROWS(tmp_path) == source.rows
    apply(frame, tmp_path)
    assert ROWS(tmp_path) == source.rows
    # Positions are those of the trail: the command continues where the frame ended.
    assert apply_trail(tmp_path / "ot", ADDRESS.format(tmp_path)).operations == 0


def test_a_transaction_that_is_torn_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    logged(tmp_path, "torn", 30)
    frame = frame_of(spark, tmp_path)

    with pytest.raises(
        Exception, match=r"the transaction \w+ does not \w+ in the frame: position 0:"
    ):
        apply(frame.where("tx_ind not in ('B', 'W')"), tmp_path)
    assert not (tmp_path / "lake").exists()


def test_operations_of_two_trails_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    logged(tmp_path, "one")
    other = tmp_path / "other"
    other.mkdir()
    logged(other, "two")

    with pytest.raises(
        Exception,
        match=r"two different operations have the position 0:|the transaction . does not end",
    ):
        apply(frame_of(spark, tmp_path).union(frame_of(spark, other)), tmp_path)


def test_a_stream_follows_its_trail(spark: SparkSession, tmp_path: Path) -> None:
    source = logged(tmp_path, "stream")
    follow(spark, tmp_path)
    assert ROWS(tmp_path) == source.rows
    done = len(source.log)
    for _ in range(5):
        source.transaction()
    write_log(tmp_path / "ot", source.log[done:])
    follow(spark, tmp_path)
    assert ROWS(tmp_path) == source.rows

    done = len(source.log)
    while len(source.log) == done:
        source.transaction()
    write_log(tmp_path / "ot", source.log[done:])
    with pytest.raises(Exception, match=r"the batch begins at position 0:.*skipApplied=true"):
        follow(spark, tmp_path, "another")
    follow(spark, tmp_path, "third", skipApplied="true")


def test_an_option_that_is_not_known_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    logged(tmp_path, "options", 1)
    with pytest.raises(Exception, match="the format trailgate_apply has no option colision"):
        apply(frame_of(spark, tmp_path), tmp_path, colision="stop")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"trail": "ot"}, "the option 'to' is missing"),
        ({"to": "duckdb:x", "trail": "ot"}, "without the column position have no order"),
        ({"to": "duckdb:x"}, "one of the options trail and definitions is required"),
        ({"to": "duckdb:x", "onCollision": "never"}, "onCollision must be stop, overlay or"),
    ],
)
def test_unsupported_settings_are_refused(options: dict[str, Any], problem: str) -> None:
    schema = from_arrow_schema(OPERATIONS_SCHEMA)
    if "no order" in problem:
        schema = schema.__class__([one for one in schema if one.name != "position"])
    with pytest.raises(OptionError, match=problem):
        plan_writer_apply(options, schema, None, streams=False)
