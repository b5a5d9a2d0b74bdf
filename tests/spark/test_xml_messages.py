"""XML messages on Spark: files and a column of any DataFrame, read as operations, and a capture into a trail."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trailgate
import trailgate.spark
from trailgate.storage.reading.trails import read_trail

PROPERTIES = """parser.type=xml
xml.userdefs.tables=S.ROW
xml.userdefs.S.ROW.columns=ID,NAME
xml.userdefs.S.ROW.ID=vchar 10
xml.userdefs.S.ROW.NAME=vchar 10
xml.rules=tx
tx.type=tx
tx.match=/batch/tx
tx.timestamp=@at
tx.subrules=op
op.type=op
op.match=./row
op.schemaandtable="S.ROW"
op.optype=@op
op.subrules=col
col.type=col
col.match=./*
col.name=name()
col.value=./text()
"""


def message(number: int) -> str:
    row = "<row op='I'><id>{}</id><name>n{}</name></row>"
    rows = [row.format(i, i) for i in range(3 * number, 3 * number + 3)]
    at = "at='2020-01-01:00:00:00'"
    return f"<batch><tx {at}>{rows[0]}{rows[1]}</tx><tx {at}>{rows[2]}</tx></batch>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.properties").write_text(PROPERTIES)
    (tmp_path / "messages").mkdir()
    for number in range(4):
        (tmp_path / f"messages/{number}.xml").write_text(message(number))
    return tmp_path


def test_messages_are_operations_in_their_transactions(spark: SparkSession, folder: Path) -> None:
    reader = spark.read.format("message_capture").option("properties", str(folder / "a.properties"))

    rows = reader.load(str(folder / "messages")).orderBy("position").collect()

    assert [row.after["ID"] for row in rows] == [str(i) for i in range(12)]
    assert [row.tx_ind for row in rows] == ["B", "E", "W"] * 4
    assert {(row.table, row.op_type) for row in rows} == {("S.ROW", "I")}


def test_a_column_of_messages_is_operations(spark: SparkSession, folder: Path) -> None:
    frame = spark.createDataFrame([(message(1),), (message(2),)], "body string")

    found = trailgate.spark.capture(frame, str(folder / "a.properties"))

    assert sorted(int(row.after["ID"]) for row in found.collect()) == list(range(3, 9))


def test_a_capture_sets_broken_messages_apart(spark: SparkSession, folder: Path) -> None:
    (folder / "messages/2.xml").write_text("<batch><tx></batch>")

    summary = trailgate.capture_files(
        str(folder / "messages"),
        str(folder / "ot"),
        str(folder / "a.properties"),
        on_error="quarantine",
        runner=trailgate.spark.capture_runner(spark),
    )

    assert (summary.operations, summary.transactions, summary.quarantined) == (9, 6, 1)
    assert read_trail(str(folder / "ot")).read_all().num_rows == 9
