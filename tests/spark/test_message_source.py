"""The format ``message_capture`` on a real Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sample_trail import DEFINITIONS
from trailgate.capture.capture import Capture
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.capture.loading import load_capture
from trailgate.messages.message_batch import messages_from
from trailgate.model.changes import ChangeBatch
from trailgate.model.operations_table import to_operations
from trailgate.model.shapes import to_typed
from trailgate.spark.message_files import read_owned_changes
from trailgate.storage.reading.message_files import find_messages, plan_ranges, read_messages

PROPERTIES = """\
parser.type=delim
delim.sourcedefs={folder}/x.def
delim.header=optype,table,ts,txid
delim.optype=optype
delim.schemaandtable=table
delim.timestamp=ts
delim.timestamp.format=YYYY-MM-DD HH:MI:SS
delim.txid=txid
delim.seqid=*seqid
"""
INDICATED = PROPERTIES.replace("ts,txid\n", "ts,txid,ind\n") + "delim.txind=ind\n"
LINES = [
    "I,MY.ORDERS,2026-01-01 00:00:00,t1,1,one",
    "U,MY.ORDERS,2026-01-01 00:00:01,t2,1,two",
    "I,MY.NOTES,2026-01-01 00:00:02,t3,3,ü",
    "D,MY.ORDERS,2026-01-01 00:00:03,t4,1,",
]


def indicated(sizes: list[int]) -> list[str]:
    """Return transactions of those numbers of messages."""
    lines = []
    for number, size in enumerate(sizes):
        marks = ["W"] if size == 1 else ["B", *"M" * (size - 2), "E"]
        lines += [
            f"I,MY.ORDERS,2026-01-01 00:00:00,tx{number:03},{mark},{number},name{i}"
            for i, mark in enumerate(marks)
        ]
    return lines


def wrote(folder: Path, lines: list[str], properties: str = PROPERTIES) -> tuple[str, str]:
    """Write messages, one a line, and their properties; return both paths."""
    (folder / "x.def").write_bytes(write_sourcedefs(DEFINITIONS))
    (folder / "x.properties").write_text(properties.format(folder=folder))
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    return str(folder / "in"), str(folder / "x.properties")


def parsed(capture: Capture, path: str) -> ChangeBatch:
    ((messages, _),) = read_messages(find_messages(path, True))
    done = capture.parse(messages)
    assert not done.problems
    return done.batch


def as_rows(batches: list[pa.RecordBatch]) -> list[dict[str, object]]:
    maps = ("before", "after", "tokens")
    return [
        {name: dict(value) if name in maps and value else value for name, value in row.items()}
        for row in pa.Table.from_batches(batches).to_pylist()
    ]


def test_operations_come_as_the_library_parses_them(spark: SparkSession, tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, LINES)
    reader = spark.read.format("message_capture").option("properties", properties)

    frame = reader.option("messagePer", "line").load(messages)

    expected = as_rows([to_operations(parsed(load_capture(properties), messages))])
    got = [row.asDict() for row in frame.drop("op_ts").orderBy("position").collect()]
    for row in expected:
        del row["op_ts"]
    assert [_plain(row) for row in got] == [_plain(row) for row in expected]
    assert [row["op_type"] for row in got] == list("IUID")


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {name: value or None for name, value in row.items()}


def test_a_file_is_a_message_by_default(spark: SparkSession, tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, LINES[:2])
    properties_file = Path(properties)
    properties_file.write_text(properties_file.read_text().replace("=txid", "=*txid"))
    Path(messages, "b.txt").write_text(LINES[2])

    frame = spark.read.format("message_capture").load(messages, properties=properties)

    rows = frame.orderBy("position").collect()
    assert [row.tx_ind for row in rows] == ["B", "E", "W"]


def test_a_table_comes_in_its_types(spark: SparkSession, tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, LINES)
    reader = spark.read.format("message_capture").options(
        properties=properties, messagePer="line", table="MY.NOTES"
    )

    rows = reader.load(messages).collect()

    assert [(row.ID, row.TEXT, row._op_type) for row in rows] == [(3, "ü", "I")]


@pytest.mark.parametrize("size", ["300", "100000"])
def test_transactions_over_messages_are_read_whole(
    spark: SparkSession, tmp_path: Path, size: str
) -> None:
    lines = indicated([1, 5, 2, 9, 1, 1, 3])
    messages, properties = wrote(tmp_path, lines, INDICATED)
    reader = spark.read.format("message_capture").options(
        properties=properties, messagePer="line", splitBytes=size
    )

    rows = reader.load(messages).orderBy("position").collect()

    assert [row.tx_ind for row in rows] == [line.split(",")[4] for line in lines]
    assert [row.tx_id for row in rows] == [line.split(",")[3] for line in lines]


@pytest.mark.parametrize("size", [1, 70, 130, 1000])
def test_ranges_hold_every_operation_once_and_in_order(tmp_path: Path, size: int) -> None:
    messages, properties = wrote(tmp_path, indicated([3, 1, 8, 2, 1, 4]), INDICATED)
    capture, source = load_capture(properties), find_messages(messages, True)

    parts = [
        row
        for own in plan_ranges(source, size)
        for changes in read_owned_changes(capture, source, own)
        for row in to_operations(changes).to_pylist()
    ]

    assert parts == to_operations(parsed(capture, messages)).to_pylist()


def test_typed_rows_are_those_of_the_library(tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, LINES)
    capture, source = load_capture(properties), find_messages(messages, True)
    table = capture.definitions.table("MY.ORDERS")

    (own,) = plan_ranges(source)
    (changes,) = read_owned_changes(capture, source, own)

    assert to_typed(changes, table).equals(to_typed(parsed(capture, messages), table))


def test_an_error_tells_the_file_and_the_message(spark: SparkSession, tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, [*LINES, "I,MY.NOTHING,2026-01-01 00:00:00,t9,1,x"])
    reader = spark.read.format("message_capture").options(properties=properties, messagePer="line")

    with pytest.raises(PySparkException, match=r"a\.txt, message at byte \d+"):
        reader.load(messages).count()


def test_a_transaction_that_does_not_end_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, indicated([2, 3])[:-1], INDICATED)
    reader = spark.read.format("message_capture").options(properties=properties, messagePer="line")

    with pytest.raises(PySparkException, match="tx001 has not ended"):
        reader.load(messages).count()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs the option properties"),
        ({"properties": "x", "messagePer": "page"}, "messagePer must be file or line"),
        ({"properties": "x", "onError": "quarantine"}, "stops at the first bad message"),
        ({"properties": "x", "splitBytes": "0"}, "splitBytes must be a number"),
    ],
)
def test_wrong_usage_is_reported(
    spark: SparkSession, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(PySparkException, match=problem):
        spark.read.format("message_capture").options(**options).load("in").count()


def test_bodies_given_by_hand_parse_alike(tmp_path: Path) -> None:
    messages, properties = wrote(tmp_path, LINES)
    capture = load_capture(properties)

    given = to_operations(capture.parse(messages_from(LINES)).batch)

    assert (
        given["after"].to_pylist() == to_operations(parsed(capture, messages))["after"].to_pylist()
    )
