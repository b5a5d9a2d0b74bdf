"""Writing the format ``copybook`` on a real Spark: what was read is written byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trailgate import write_records

BATCH_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
COPYBOOK = """
       01  ACCOUNT.
           05  NUM      PIC 9(4).
           05  OWNER.
               10  NAME     PIC X(5).
               10  BALANCE  PIC S9(3)V99 COMP-3.
           05  N        PIC 9.
           05  TAG      PIC X OCCURS 0 TO 3 DEPENDING ON N.
"""


def record(number: int) -> bytes:
    head = f"{number:04d}".encode("cp037") + "Ann  ".encode("cp037")
    tags = "ABC"[: number % 4]
    body = head + bytes([0x00, 0x12 + number % 8, 0x3C]) + f"{len(tags)}{tags}".encode("cp037")
    return (len(body) + 4).to_bytes(2, "big") + b"\0\0" + body


@pytest.fixture
def copybook(tmp_path: Path) -> str:
    path = tmp_path / "account.cpy"
    path.write_text(COPYBOOK)
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for part in range(2):
        (folder / f"part{part}").write_bytes(b"".join(record(50 * part + i) for i in range(50)))
    return folder


def content(folder: Path) -> bytes:
    return b"".join(p.read_bytes() for p in sorted(folder.glob("part*")))


@pytest.mark.parametrize("shape", ["tree", "flat"])
def test_rows_are_written_as_the_bytes_that_they_were_read_from(
    spark: SparkSession, tmp_path: Path, copybook: str, data: Path, shape: str
) -> None:
    options = {"copybook": copybook, "recordFormat": "rdw", "shape": shape}
    frame = spark.read.format("copybook").options(**options).load(str(data))
    if shape == "flat":
        frame = frame.fillna("")  # of elements that a record has not

    frame.write.format("copybook").options(**options).mode("append").save(str(tmp_path / "new"))

    assert content(tmp_path / "new") == content(data)
    assert (tmp_path / "new" / "_SUCCESS").exists()
    again = spark.read.format("copybook").options(**options).load(str(tmp_path / "new"))
    assert again.count() == 100


def test_a_value_that_does_not_fit_is_named_and_nothing_is_there(
    spark: SparkSession, tmp_path: Path, copybook: str, data: Path
) -> None:
    options = {"copybook": copybook, "recordFormat": "rdw"}
    frame = spark.read.format("copybook").options(**options).load(str(data)).coalesce(1)
    wrong = frame.selectExpr("if(NUM = 77, 12345, NUM) AS NUM", "OWNER", "N", "TAG")
    target = tmp_path / "new"

    with pytest.raises(
        PySparkException, match=r"more than 4 digits: 12345 \(part-00000.*, record 78, field NUM"
    ):
        wrong.write.format("copybook").options(**options).mode("append").save(str(target))

    assert not target.exists() or list(target.iterdir()) == []


def test_values_that_cannot_be_written_are_refused_before_any_task(
    spark: SparkSession, tmp_path: Path, copybook: str, data: Path
) -> None:
    frame = spark.read.format("copybook").option("copybook", copybook)
    frame = frame.option("recordFormat", "rdw").load(str(data))
    writer = frame.write.format("copybook").option("copybook", copybook)

    with pytest.raises(PySparkException, match="never overwritten"):
        writer.mode("overwrite").save(str(tmp_path / "new"))
    with pytest.raises(PySparkException, match="the folder is not empty"):
        writer.mode("append").save(str(data))
    less = frame.drop("NUM").write.format("copybook").option("copybook", copybook)
    text = frame.selectExpr("'x' AS NUM", "OWNER", "N", "TAG").write.format("copybook")
    with pytest.raises(PySparkException, match=r"no column for a field .*field NUM"):
        less.mode("append").save(str(tmp_path / "new"))
    with pytest.raises(PySparkException, match=r"string values in a field of .*field NUM"):
        text.option("copybook", copybook).mode("append").save(str(tmp_path / "new"))
    assert not (tmp_path / "new").exists()


SEGMENTS = """
       01  CLAIM.
           05  SEG      PIC X.
           05  OWNER.
               10  NAME     PIC X(4).
               10  AGE      PIC 9(2).
           05  PART REDEFINES OWNER.
               10  CODE     PIC 9(3).
"""


def test_segments_are_written_as_they_were_read(spark: SparkSession, tmp_path: Path) -> None:
    data, copybook = tmp_path / "data", tmp_path / "claim.cpy"
    copybook.write_text(SEGMENTS)
    records = ["OAnna41", "P007", "P008", "OBob 22"] * 5
    data.write_bytes("".join(f"{text}\n" for text in records).encode())
    options = {"copybook": str(copybook), "kinds": "SEG: O=OWNER, P=PART", "codePage": "ascii"}
    options["recordFormat"] = "line"
    frame = spark.read.format("copybook").options(**options).load(str(data))

    frame.write.format("copybook").options(**options).mode("append").save(str(tmp_path / "new"))

    assert content(tmp_path / "new") == data.read_bytes()


def test_columns_state_what_they_are_in_the_copybook(
    spark: SparkSession, copybook: str, data: Path
) -> None:
    reader = spark.read.format("copybook").option("copybook", copybook)
    frame = reader.option("recordFormat", "rdw").load(str(data))

    balance = frame.schema["OWNER"].dataType["BALANCE"]
    assert balance.metadata["picture"] == "S9(3)V99"
    assert frame.schema["NUM"].metadata["comment"] == "PIC 9(4) zoned, offset 0, length 4"
    assert frame.select("OWNER.BALANCE").schema["BALANCE"].metadata == balance.metadata
    assert frame.where("NUM = 7").select("TAG").collect()[0].TAG == ["A", "B", "C"]


def test_trees_are_written_as_they_were_read(spark: SparkSession, tmp_path: Path) -> None:
    names, parents = "ABCDX", "B=A, C=B, D=A"
    (tmp_path / "r.cpy").write_text(
        "\n".join(f"01 {n}. 05 K PIC X. 05 N-{n} PIC 99." for n in names)
    )
    data = tmp_path / "data"
    data.write_bytes("".join(f"{n}{at:02d}" for at, n in enumerate("XABDCBCADX")).encode("cp037"))
    options = {
        "copybook": str(tmp_path / "r.cpy"),
        "kinds": "K: " + ", ".join(f"{name}={name}" for name in names),
        "parents": parents,
        "children": "nested",
        "raw": "true",
        "offsetColumn": "true",
    }
    frame = spark.read.format("copybook").options(**options).load(str(data))
    assert frame.count() == 4

    writer = frame.write.format("copybook").options(**options).mode("append")
    writer.save(str(tmp_path / "new"))

    assert content(tmp_path / "new") == data.read_bytes()
    unordered = {**options, "offsetColumn": "false"}
    nested = spark.read.format("copybook").options(**unordered).load(str(data))
    with pytest.raises(
        PySparkException, match=r"order of . (and|among) .* is unknown .*offsetColumn"
    ):
        nested.write.format("copybook").options(**unordered).mode("append").save(
            str(tmp_path / "other")
        )


@pytest.mark.parametrize("form", ["VB", "VBS"])
def test_blocks_are_filled_as_those_that_were_read(
    spark: SparkSession, tmp_path: Path, form: Any
) -> None:
    """A block goes on over the batches in which Spark passes rows."""
    text = "01 R. 05 N PIC 9(4). 05 T PIC X(96)."
    rows = pa.table({"N": pa.array(range(700)), "T": ["x"] * 700})
    write_records(rows, tmp_path / "data", copybook_text=text, record_format=form)
    options = {"copybookText": text, "recordFormat": form}
    size = spark.conf.get(BATCH_ROWS)
    spark.conf.set(BATCH_ROWS, "37")
    try:
        frame = spark.read.format("copybook").options(**options).load(str(tmp_path / "data"))
        writer = frame.coalesce(1).write.format("copybook").options(**options)
        writer.mode("append").save(str(tmp_path / "new"))
    finally:
        spark.conf.set(BATCH_ROWS, size)

    data = (tmp_path / "data").read_bytes()
    assert content(tmp_path / "new") == data
    assert int.from_bytes(data[:2], "big") == 4 + 104 * 314  # 32,660 of 32,760 bytes
