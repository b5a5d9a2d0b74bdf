"""Promises about errors on Spark: our line comes first, without a traceback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from capture_place import Place, row
from sample_trail import Op, write_trail
from trailgate import OptionError
from trailgate.spark import capture


def test_an_error_in_planning_is_our_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("trail").load(str(tmp_path / "nowhere")).count()

    first = str(caught.value).splitlines()[0]
    assert first.endswith("as dirdat/ot for dirdat/ot000000000")
    assert "no trail files here" in first
    assert "Traceback" not in str(caught.value)


def test_an_error_in_reading_is_our_line(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", [[[Op("I", 1, "text")]]])
    file = Path(f"{prefix}000000000")
    file.write_bytes(file.read_bytes().replace(b"text", b"te\xffxt"[:4]))

    with pytest.raises(PySparkException) as caught:
        spark.read.format("trail").load(str(prefix)).collect()

    lines = str(caught.value).splitlines()
    assert "trailgate.errors.DecodeError: " in lines[1]
    assert "Traceback" not in "".join(lines[:2])


def fails(act: Any) -> str:
    """Return what a user reads of an error of Spark, up to the traces of Java."""
    with pytest.raises(PySparkException) as caught:
        act()
    return str(caught.value).split("\n\tat ")[0]


def run(frame: DataFrame, folder: Path) -> None:
    """Run a stream up to its end."""
    sink = frame.writeStream.format("noop").option("checkpointLocation", str(folder / "state"))
    sink.trigger(availableNow=True).start().awaitTermination()


REFUSED = [
    ("trail", "ot", {"openTransactions": "show"}, "a stream returns complete transactions only"),
    ("trail", "o*", {}, "takes one trail, not the pattern"),
    ("copybook", "ot", {"copybookText": "01 R. 05 A PIC X."}, "cannot be read as a stream"),
]


@pytest.mark.parametrize(("kind", "path", "options", "line"), REFUSED)
def test_a_refused_stream_is_a_one_line_error(
    spark: SparkSession,
    tmp_path: Path,
    kind: str,
    path: str,
    options: dict[str, str],
    line: str,
) -> None:
    write_trail(tmp_path / "ot", [[[Op("I", 1)]]])
    frame = spark.readStream.format(kind).options(**options).load(str(tmp_path / path))

    text = fails(lambda: run(frame, tmp_path))

    assert line in text
    assert "UnboundLocalError" not in text
    assert "Traceback" not in text


def test_a_value_that_is_not_of_the_users_type_is_our_line(
    spark: SparkSession, tmp_path: Path
) -> None:
    prefix = write_trail(tmp_path / "ot", [[[Op("I", 1, "7"), Op("I", 2, "")]]])
    reader = spark.read.format("trail").option("table", "MY.ORDERS")

    read = reader.schema("NAME int, _position string").load(str(prefix))
    text = fails(read.collect)

    assert "NAME is string, and '' cannot be read as int32 (position 0:" in text
    assert "field NAME). Read it as string, and cast it in Spark" in text
    assert "Traceback" not in text


def test_messages_of_a_frame_that_are_bad_are_our_line(spark: SparkSession, tmp_path: Path) -> None:
    Place(tmp_path)
    properties = tmp_path / "p.properties"
    bodies = [(row(1),), ("X,NO.TABLE",)]

    bad = capture(spark.createDataFrame(bodies, "body string").coalesce(1), properties)
    null = capture(spark.createDataFrame([(None,)], "body string").coalesce(1), properties)

    for frame, line in ((bad, "fields, but the header"), (null, "the body is null")):
        text = fails(frame.collect)
        assert line in text
        assert "partition 0" in text
        assert "Traceback" not in text


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ("body int", "the column body is int, but a message is text or bytes"),
        ("value array<string>", "the column value is array<string>"),
        ("body string, headers string", "the column headers is string"),
        ("body string, headers map<string,int>", r"the column headers is map<string,int>"),
        ("body string, headers array<string>", "the column headers is array<string>"),
        ("body string, fault int", "the column fault is int"),
    ],
)
def test_messages_of_other_types_are_refused_before_a_job_begins(
    spark: SparkSession, tmp_path: Path, schema: str, line: str
) -> None:
    Place(tmp_path)
    with pytest.raises(OptionError, match=line):
        capture(spark.createDataFrame([], schema), tmp_path / "p.properties")
