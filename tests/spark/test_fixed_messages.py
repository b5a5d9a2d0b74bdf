"""Fixed-width messages on Spark: EBCDIC files, read as operations and in a table's types."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

COPYBOOK = """
01 HEADER.
   05 OP       PIC X.
   05 REC      PIC X(3).
01 ROW.
* KEY
   05 NUM      PIC 9(4).
   05 BALANCE  PIC S9(5)V99 COMP-3.
"""
PROPERTIES = """parser.type=fixed
fixed.copybook={folder}/a.cpy
fixed.header=HEADER
fixed.schema=S
fixed.optype=OP
fixed.table=REC
fixed.codepage=cp037
fixed.recordlength=12
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.cpy").write_text(COPYBOOK)
    (tmp_path / "a.properties").write_text(PROPERTIES.format(folder=tmp_path))
    (tmp_path / "messages").mkdir()
    for name in range(3):
        records = [
            f"IROW{10 * name + number:04d}".encode("cp037") + bytes.fromhex("0012345d")
            for number in range(2)
        ]
        (tmp_path / f"messages/{name}").write_bytes(b"".join(records))
    return tmp_path


def test_mainframe_records_are_operations(spark: SparkSession, folder: Path) -> None:
    reader = spark.read.format("message_capture").option("properties", str(folder / "a.properties"))

    rows = reader.load(str(folder / "messages")).orderBy("position").collect()

    images = [row.after for row in rows]
    assert [image["NUM"] for image in images] == ["0", "1", "10", "11", "20", "21"]
    assert {(row.table, row.op_type, row.after["BALANCE"]) for row in rows} == {
        ("S.ROW", "I", "-123.45")
    }


def test_their_table_comes_in_its_types(spark: SparkSession, folder: Path) -> None:
    reader = spark.read.format("message_capture").options(
        properties=str(folder / "a.properties"), table="S.ROW"
    )

    rows = reader.load(str(folder / "messages")).orderBy("NUM").collect()

    assert [row.NUM for row in rows] == [0, 1, 10, 11, 20, 21]
    assert {row.BALANCE for row in rows} == {Decimal("-123.45")}
