"""The functions over mapInArrow give the rows of the formats; both return only the columns asked for."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sample_trail import NOTES, Op, write_trail
from spark.test_message_source import LINES, PROPERTIES, wrote
from trailgate.errors import OptionError
from trailgate.mainframe.spark.frames import read_records
from trailgate.mainframe.spark.reader import ON_SPARK
from trailgate.options import Options
from trailgate.spark import capture
from trailgate.spark.message_files import OPTIONS as MESSAGES
from trailgate.spark.message_files import read_messages
from trailgate.spark.trail import READING, read_trail

FILES = [
    [[Op("I", 1)], [Op("U", 1, "new", "old"), Op("D", 1), Op("I", 3, None, table=NOTES)]],
    [[Op("I", 9, "x")], [Op("I", 10, "ü")], [Op("U", 10, ...)]],
]
COPYBOOK = """\
       01 RECORD.
          05 NAME PIC X(4).
          05 AMOUNT PIC 9(3).
          05 MORE.
             10 KIND PIC X.
"""


def same(one: DataFrame, other: DataFrame) -> None:
    assert one.schema == other.schema
    assert sorted(map(str, one.collect())) == sorted(map(str, other.collect()))


@pytest.mark.parametrize(
    "options", [{}, {"table": "MY.ORDERS"}, {"records": "all"}, {"columns": "table,op_ts"}]
)
def test_a_trail_has_the_rows_of_the_format(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    prefix = write_trail(tmp_path / "ot", FILES)

    frame = read_trail(spark, prefix, split_bytes=1000, **options)  # type: ignore[arg-type]

    same(frame, spark.read.format("trail").options(**options).load(str(prefix)))


def test_times_are_right_in_a_session_of_another_zone(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", FILES)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        same(read_trail(spark, prefix), spark.read.format("trail").load(str(prefix)))
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_messages_have_the_rows_of_the_format(spark: SparkSession, tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, LINES, PROPERTIES)

    frame = read_messages(spark, messages, properties, message_per="line", table="MY.ORDERS")

    named = {"properties": properties, "messagePer": "line", "table": "MY.ORDERS"}
    same(frame, spark.read.format("message_capture").options(**named).load(messages))


def test_records_have_the_rows_of_the_format(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"ANNA012XBERT345Y")
    named = {"copybook": str(tmp_path / "a.cpy"), "codePage": "ascii"}

    frame = read_records(
        spark, tmp_path / "data", tmp_path / "a.cpy", code_page="ascii", shape="tree"
    )

    same(frame, spark.read.format("copybook").options(**named).load(str(tmp_path / "data")))


OF_STREAMS = {
    "max_files_per_trigger",
    "max_bytes_per_trigger",
    "starting_position",
}


@pytest.mark.parametrize(
    ("function", "options", "left_out"),
    [
        (read_trail, READING, OF_STREAMS),
        (read_messages, MESSAGES, {*OF_STREAMS, "on_error"}),
        (read_records, ON_SPARK, set[str]()),
    ],
)
def test_a_function_takes_the_options_of_its_format(
    function: Callable[..., Any], options: Options, left_out: set[str]
) -> None:
    named = {*signature(function).parameters} - {"spark", "path", "counts"}
    assert named == {row.name for row in options} - left_out


def test_relative_paths_are_from_the_base(spark: SparkSession, tmp_path: Path) -> None:
    write_trail(tmp_path / "ot", FILES)
    wrote(tmp_path, LINES, PROPERTIES)
    text = (tmp_path / "x.properties").read_text()
    (tmp_path / "x.properties").write_text(text.replace(f"{tmp_path}/", ""))
    (tmp_path / "a.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"ANNA012XBERT345Y")
    bodies = spark.createDataFrame([(line,) for line in LINES], "body string").coalesce(1)

    frames = [
        read_trail(spark, "ot", base=tmp_path),
        read_messages(spark, "in", "x.properties", message_per="line", base=tmp_path),
        read_records(spark, "data", "a.cpy", code_page="ascii", base=tmp_path),
        capture(bodies, "x.properties", base=tmp_path),
    ]

    assert [frame.count() for frame in frames] == [7, 4, 2, 4]


def test_an_unknown_option_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", FILES)
    with pytest.raises(OptionError, match="Did you mean"):
        read_records(spark, prefix, tmp_path / "x", code_pag="ascii")  # type: ignore[call-arg]


@pytest.mark.parametrize("way", ["schema", "columns"])
@pytest.mark.parametrize("table", [None, "MY.ORDERS"])
def test_a_trail_gives_the_columns_of_a_schema(
    spark: SparkSession, tmp_path: Path, way: str, table: str | None
) -> None:
    prefix = write_trail(tmp_path / "ot", FILES)
    reader = spark.read.format("trail")
    reader = reader if table is None else reader.option("table", table)
    whole = reader.load(str(prefix))
    names = ["op_type", "after"] if table is None else ["_op_type", "NAME"]

    if way == "schema":
        wanted = spark.read.format("trail").schema(whole.select(*names).schema)
    else:
        wanted = spark.read.format("trail").option("columns", ",".join(names))
    wanted = wanted if table is None else wanted.option("table", table)

    same(wanted.load(str(prefix)), whole.select(*names))


def test_messages_and_records_give_the_columns_of_a_schema(
    spark: SparkSession, tmp_path: Path
) -> None:
    messages, properties = wrote(tmp_path, LINES, PROPERTIES)
    reader = spark.read.format("message_capture").options(
        properties=properties, messagePer="line", table="MY.ORDERS"
    )
    same(
        reader.schema("name string, ID int").load(messages),
        reader.schema("ID int, NAME string").load(messages).selectExpr("NAME as name", "ID"),
    )
    (tmp_path / "a.cpy").write_text(COPYBOOK)
    (tmp_path / "data").write_bytes(b"ANNA0?2XBERT345Y")
    records = spark.read.format("copybook").options(
        copybook=str(tmp_path / "a.cpy"), codePage="ascii"
    )

    rows = records.schema("MORE struct<KIND: string>, NAME string").load(str(tmp_path / "data"))

    assert [(row.NAME, row.MORE.KIND) for row in rows.collect()] == [("ANNA", "X"), ("BERT", "Y")]


def test_a_schema_of_an_unknown_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_trail(tmp_path / "ot", FILES)
    reader = spark.read.format("trail").schema("op_typ string")
    with pytest.raises(PySparkException, match=r"no column op_typ.*Did you mean op_type\?"):
        reader.load(str(prefix)).collect()
