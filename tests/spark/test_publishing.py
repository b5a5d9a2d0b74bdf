"""Operations as messages in a DataFrame: of a trail and of rows, the same as in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trailgate.spark
from sample_trail import DEFINITIONS, Op, write_trail
from trailgate.errors import OptionError
from trailgate.publish.job import publish_trail

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
TRANSACTIONS = [[Op("I", n), Op("D", n + 1, ..., "old")] for n in range(0, 400, 2)]


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return write_trail(tmp_path / "ot", [TRANSACTIONS])


def published(trail: Path, to: Path) -> list[str]:
    publish_trail(trail, to, "delimited")
    lines = [line for path in to.glob("messages-*") for line in path.read_text().splitlines()]
    return [json.loads(line)["body"] for line in lines]


def test_messages_of_a_trail_are_those_of_files(
    spark: SparkSession, trail: Path, tmp_path: Path
) -> None:
    frame = trailgate.spark.publish(str(trail), "delimited", split_bytes=4000)

    assert frame.columns == ["key", "value", "headers", "topic", "table", "position", "number"]
    assert frame.rdd.getNumPartitions() > 1
    found = [bytes(row.value).decode() for row in frame.collect()]
    assert found == published(trail, tmp_path / "to")
    assert spark is not None


def test_messages_of_rows_are_those_of_files(
    spark: SparkSession, trail: Path, tmp_path: Path
) -> None:
    rows = trailgate.spark.read_trail(spark, str(trail))

    frame = trailgate.spark.publish(rows, "delimited", definitions=DEFINITIONS)

    found = [bytes(row.value).decode() for row in frame.collect()]
    assert found == published(trail, tmp_path / "to")


def test_headers_and_keys_are_as_kafka_takes_them(spark: SparkSession, trail: Path) -> None:
    rows = trailgate.spark.publish(str(trail), "json").limit(1).collect()

    assert rows[0].key is None or isinstance(rows[0].key, (bytes, bytearray))
    assert spark is not None


def test_rows_need_definitions(spark: SparkSession, trail: Path) -> None:
    rows = trailgate.spark.read_trail(spark, str(trail))

    with pytest.raises(OptionError, match="definitions of the tables are not given"):
        trailgate.spark.publish(rows)
