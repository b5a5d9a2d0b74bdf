"""Writing the format ``trail`` on a real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sample_trail import NOTES, Op, write_trail
from trailgate.jobs.trail_check import check_trail
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.file_header import decode_header

FILES = [
    [[Op("I", 1)], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "x")], [Op("I", 10, "ü")], [Op("U", 10, ...)]],
]


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return str(write_trail(tmp_path / "ot", FILES))


@pytest.fixture
def frame(spark: SparkSession, prefix: str) -> DataFrame:
    # One partition a file, so that order among partitions is looked at as well.
    return spark.read.format("trail").option("splitBytes", "1000").load(prefix)


def rows(path: object) -> list[dict[str, object]]:
    table = pa.Table.from_batches(list(read_trail(str(path)))).drop(["position"])
    return [dict(row) for row in table.to_pylist()]


def test_write_then_read_gives_the_same_operations(
    frame: DataFrame, prefix: str, tmp_path: Path
) -> None:
    target = tmp_path / "out" / "xx"

    frame.write.format("trail").option("definitions", f"{prefix}.def").mode("append").save(
        str(target)
    )

    assert rows(target) == rows(prefix)
    names = sorted(path.name for path in target.parent.iterdir() if path.name[0] != ".")
    assert names == ["xx.def", "xx.manifest.json", *(f"xx{i:09}" for i in range(len(names) - 2))]


def test_a_second_write_continues_the_numbers(
    frame: DataFrame, prefix: str, tmp_path: Path
) -> None:
    target = tmp_path / "xx"
    writer = frame.coalesce(1).write.format("trail").option("seqDigits", "6").mode("append")

    writer.option("definitions", f"{prefix}.def").save(str(target))
    frame.coalesce(1).write.format("trail").option("seqDigits", "6").mode("append").save(
        str(target)
    )

    assert [entry["name"] for entry in json.loads(_manifest(target))["files"]] == [
        "xx000000",
        "xx000001",
    ]
    assert rows(target) == rows(prefix) * 2


def test_a_trail_of_another_format_is_written(
    frame: DataFrame, prefix: str, tmp_path: Path
) -> None:
    target = tmp_path / "xx"
    writer = frame.coalesce(1).write.format("trail").mode("append")
    writer = writer.option("formatRelease", "12.2").option("byteOrder", "little")

    writer.option("updateFormat", "full").option("definitions", f"{prefix}.def").save(str(target))

    assert rows(target) == rows(prefix)
    header = decode_header(Path(f"{target}000000000").read_bytes())[0]
    assert (header.trail.compatibility, header.order.label) == (5, "little")


def _manifest(target: Path) -> bytes:
    return Path(f"{target}.manifest.json").read_bytes()


def test_a_full_file_is_followed_by_another(frame: DataFrame, prefix: str, tmp_path: Path) -> None:
    target = tmp_path / "xx"
    writer = frame.coalesce(1).write.format("trail").option("maxBytes", "1").mode("append")

    writer.option("definitions", f"{prefix}.def").save(str(target))

    assert len(json.loads(_manifest(target))["files"]) == 7
    assert rows(target) == rows(prefix)


def test_nullable_columns_may_be_omitted(frame: DataFrame, prefix: str, tmp_path: Path) -> None:
    target = tmp_path / "xx"
    left = frame.drop("position", "seq_id", "tx_owner", "tx_name", "tokens")

    left.write.format("trail").option("definitions", f"{prefix}.def").mode("append").save(
        str(target)
    )

    assert [row["after"] for row in rows(target)] == [row["after"] for row in rows(prefix)]


def test_a_failed_write_leaves_nothing(frame: DataFrame, prefix: str, tmp_path: Path) -> None:
    target = tmp_path / "out" / "xx"
    wrong = frame.selectExpr(
        *(name for name in frame.columns if name != "op_type"),
        "if(op_type = 'D', 'X', op_type) as op_type",
    )
    writer = wrong.write.format("trail").option("definitions", f"{prefix}.def").mode("append")

    with pytest.raises(PySparkException, match="op_type is not one of"):
        writer.save(str(target))

    assert not [path for path in target.parent.rglob("*") if path.is_file() and path.name[0] != "."]
    assert not [path for path in target.parent.rglob("*") if path.is_dir()]


def test_the_remaining_operations_of_transactions_are_written_completely(
    spark: SparkSession, frame: DataFrame, prefix: str, tmp_path: Path
) -> None:
    chosen = spark.read.format("trail").option("tables", "MY.ORDERS").load(prefix)
    frames = [chosen, frame.where("table = 'MY.ORDERS'"), chosen.orderBy("position").coalesce(1)]

    for number, left in enumerate(frames):
        target = tmp_path / f"x{number}"
        writer = left.write.format("trail").option("definitions", f"{prefix}.def").mode("append")
        writer.save(str(target))

        assert [(row["tx_id"], row["tx_ind"]) for row in rows(target)] == [
            *(("tx0", "W"), ("tx1", "B"), ("tx1", "E"), ("tx0", "W"), ("tx1", "W"), ("tx2", "W"))
        ]
        assert check_trail(str(target)).whole


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda frame: frame.repartition(2),
            "row's position, .* is lower than that|two partitions",
        ),
        (lambda frame: frame.union(frame), "row's position, .* is lower than that"),
        (
            lambda frame: frame.union(frame).repartition(1).sortWithinPartitions("position"),
            "two rows",
        ),
    ],
)
def test_rows_that_are_not_in_the_order_of_the_trail_are_refused(
    frame: DataFrame, prefix: str, tmp_path: Path, change: Any, problem: str
) -> None:
    writer = change(frame).write.format("trail").option("definitions", f"{prefix}.def")

    with pytest.raises(PySparkException, match=problem) as caught:
        writer.mode("append").save(str(tmp_path / "out" / "xx"))

    assert 'df.repartition(1).sortWithinPartitions("position")' in str(caught.value)
    assert not list((tmp_path / "out").glob("xx*"))


@pytest.mark.parametrize(
    ("mode", "options", "problem"),
    [
        ("overwrite", {}, "never overwritten"),
        ("append", {"seqDigits": "7"}, "seqDigits must be 6 or 9"),
        ("append", {"maxBytes": "many"}, "maxBytes must be a number"),
        ("append", {"formatRelease": "13"}, "release 13 is not public"),
        ("append", {"byteOrder": "little"}, "release 11.2 is big-endian"),
        ("append", {}, "definitions"),
    ],
)
def test_wrong_usage_is_reported(
    frame: DataFrame, tmp_path: Path, mode: str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(PySparkException, match=problem):
        frame.write.format("trail").options(**options).mode(mode).save(str(tmp_path / "xx"))


def test_a_frame_of_another_shape_is_reported(
    spark: SparkSession, prefix: str, tmp_path: Path
) -> None:
    writer = spark.range(3).write.format("trail").option("definitions", f"{prefix}.def")

    with pytest.raises(PySparkException, match="no column table"):
        writer.mode("append").save(str(tmp_path / "xx"))
