"""The format ``trail`` on a real Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sample_trail import NOTES, Op, write_trail
from trailgate.storage.reading.trails import read_trail

FILES = [
    [[Op("I", 1)], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "x")], [Op("I", 10, "ü")]],
]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(write_trail(tmp_path / "ot", FILES))


def test_operations_come_as_the_library_reads_them(spark: SparkSession, prefix: str) -> None:
    frame = spark.read.format("trail").load(prefix)

    expected = pa.Table.from_batches(list(read_trail(prefix)))
    assert frame.columns == expected.column_names
    got = [row.asDict() for row in frame.orderBy("position").drop("op_ts").collect()]
    assert got == [_with_maps(row) for row in expected.drop(["op_ts"]).to_pylist()]
    times = (
        frame.selectExpr("date_format(op_ts, 'yyyy-MM-dd HH:mm:ss')").orderBy("position").first()
    )
    assert times is not None
    assert times[0] == "2026-01-01 00:00:00"


def _with_maps(row: dict[str, object]) -> dict[str, object]:
    return {name: dict(value) if isinstance(value, list) else value for name, value in row.items()}


@pytest.mark.parametrize("size", ["300", "100000"])
def test_how_it_is_split_changes_nothing(spark: SparkSession, prefix: str, size: str) -> None:
    frame = spark.read.format("trail").option("splitBytes", size).load(prefix)

    positions = [row.position for row in frame.select("position").collect()]

    assert len(positions) == 6
    assert positions == sorted(set(positions))


def test_a_table_comes_in_its_types(spark: SparkSession, prefix: str) -> None:
    frame = spark.read.format("trail").option("table", "MY.ORDERS").load(prefix)

    assert dict(frame.dtypes)["ID"] == "bigint"
    assert [row.ID for row in frame.where("_op_type = 'I'").orderBy("_position").collect()] == [
        1,
        9,
        10,
    ]


@pytest.mark.parametrize("size", ["600", "100000"])
def test_options_choose_as_in_the_library(spark: SparkSession, prefix: str, size: str) -> None:
    third = next(iter(read_trail(prefix)))["position"][2].as_py()
    for options in ({"tables": "my.n*"}, {"from_position": third}, {"to_csn": "1000"}):
        frame = spark.read.format("trail").options(splitBytes=size, **options).load(prefix)

        got = [row.position for row in frame.orderBy("position").collect()]

        expected = [p for b in read_trail(prefix, **options) for p in b["position"].to_pylist()]
        assert got == expected
        assert 0 < len(got) < 6


@pytest.mark.parametrize("size", ["600", "100000"])
def test_records_come_as_the_library_reads_them(
    spark: SparkSession, prefix: str, size: str
) -> None:
    frame = spark.read.format("trail").options(records="all", splitBytes=size).load(prefix)

    got = [row.asDict() for row in frame.drop("io_time").orderBy("position").collect()]

    expected = pa.Table.from_batches(list(read_trail(prefix, records="all"))).drop(["io_time"])
    assert got == [_with_maps(row) for row in expected.to_pylist()]


def test_an_unknown_option_is_reported_with_the_nearest_name(
    spark: SparkSession, prefix: str
) -> None:
    with pytest.raises(
        PySparkException, match=r"(?i)no option defintions. Did you mean definitions"
    ):
        spark.read.format("trail").option("defintions", "x").load(prefix).count()


def test_two_scans_of_one_frame_do_not_disturb_each_other(spark: SparkSession, prefix: str) -> None:
    frame = spark.read.format("trail").load(prefix)

    assert frame.where("op_type = 'D'").count() == 1
    assert frame.count() == 6
    assert frame.where("op_type = 'D'").union(frame.where("op_type = 'U'")).count() == 2


def test_an_error_tells_the_place(spark: SparkSession, prefix: str) -> None:
    first = Path(f"{prefix}000000000")
    first.write_bytes(first.read_bytes()[:-5])

    with pytest.raises(PySparkException, match="ot000000000, byte"):
        spark.read.format("trail").load(prefix).count()


def test_a_missing_path_is_reported(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="needs a path"):
        spark.read.format("trail").load().count()
