"""The format ``copybook`` and the column function on a real Spark session."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Observation, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from framed_files import frame
from trailgate.cli.main import run
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.errors import DecodeError, OptionError
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.parquet import prepare_parquet
from trailgate.mainframe.spark.jobs import run_parquet
from trailgate.spark import decode_copybook, read_records, record_counts

COPYBOOK = """
       01  ACCOUNT.
           05  NUM      PIC 9(4).
           05  BALANCE  PIC S9(3)V99 COMP-3.
           05  TAG      PIC X OCCURS 2.
"""


def record(number: int) -> bytes:
    return f"{number:04d}".encode("cp037") + bytes([0x00, 0x12 + number % 8, 0x3C]) + b"\xc1\xc2"


@pytest.fixture
def copybook(tmp_path: Path) -> str:
    path = tmp_path / "account.cpy"
    path.write_text(COPYBOOK)
    return str(path)


def test_files_are_read_in_splits_and_packed(
    spark: SparkSession, tmp_path: Path, copybook: str
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    for part in range(3):
        (folder / f"part{part}").write_bytes(b"".join(record(100 * part + i) for i in range(50)))

    frame = (
        spark.read.format("copybook").option("copybook", copybook).option("splitBytes", 200)
    ).load(str(folder))

    rows = sorted(frame.collect())
    assert [row.NUM for row in rows] == [100 * p + i for p in range(3) for i in range(50)]
    assert Decimal("1.23") == rows[0].BALANCE
    assert rows[0].TAG == ["A", "B"]
    assert frame.rdd.getNumPartitions() > 3


def test_files_with_descriptor_words_are_split_and_state_where_records_are(
    spark: SparkSession, tmp_path: Path, copybook: str
) -> None:
    path = tmp_path / "days" / "dt=2026-01-05" / "data"
    path.parent.mkdir(parents=True)
    path.write_bytes(frame([record(number) for number in range(60)], Framing(FrameKind.SPANNED)))
    reader = spark.read.format("copybook").option("copybook", copybook).option("splitBytes", 200)
    reader = reader.option("recordFormat", "VBS").option("partitions", "dt")

    found = (
        reader.option("numberColumn", "true")
        .option("fileColumn", "true")
        .load(str(tmp_path / "days"))
    )

    rows = sorted(found.select("NUM", "_record_number", "_file", "dt").collect())
    assert rows == [(n, n + 1, str(path), "2026-01-05") for n in range(60)]
    assert found.rdd.getNumPartitions() > 3


def test_a_column_is_decoded_and_null_stays_null(spark: SparkSession, copybook: str) -> None:
    frame = spark.createDataFrame([(bytearray(record(7)),), (None,)], "value binary")

    rows = frame.select(decode_copybook("value", copybook, shape="flat").alias("r")).collect()

    assert rows[0].r.asDict() == {"NUM": 7, "BALANCE": Decimal("1.93"), "TAG_1": "A", "TAG_2": "B"}
    assert rows[1].r is None


def test_a_value_that_is_longer_than_the_copybook_is_an_error(
    spark: SparkSession, copybook: str
) -> None:
    frame = spark.createDataFrame([(bytearray(record(7) + b"\xf1\xf2"),)], "value binary")

    with pytest.raises(
        PySparkException, match=r"more bytes than .*field ACCOUNT, text .12., bytes f1 f2\)"
    ):
        frame.select(decode_copybook("value", copybook)).collect()
    (row,) = frame.select(decode_copybook("value", copybook, surplus="drop").alias("r")).collect()
    assert row.r.NUM == 7


def test_a_column_has_no_options_of_files(copybook: str) -> None:
    options: Any = {"record_format": "rdw"}
    with pytest.raises(OptionError, match=r"\(of a column\) has no option record_format"):
        decode_copybook("value", copybook, **options)


def test_a_bad_field_stops_with_its_position_or_is_counted(
    spark: SparkSession, tmp_path: Path, copybook: str
) -> None:
    data = tmp_path / "data"
    data.write_bytes(record(1) + b"\xf0\xf0\x40\xf1" + record(2)[4:])
    reader = spark.read.format("copybook").option("copybook", copybook)

    with pytest.raises(PySparkException, match=r"data, record 2, byte 9, field NUM"):
        reader.load(str(data)).collect()
    told = reader.option("errors", "column").option("raw", "true").load(str(data)).collect()
    assert told[0]["_errors"] == []
    assert told[1]["_errors"][0].field == "NUM"
    assert (told[1].NUM, bytes(told[1]["_raw"])[:4]) == (None, b"\xf0\xf0\x40\xf1")


def test_a_wrong_option_is_named(spark: SparkSession, copybook: str) -> None:
    reader = spark.read.format("copybook").option("copybook", copybook).option("shap", "flat")
    with pytest.raises(PySparkException, match=r"no option shap.*Did you mean shape"):
        reader.load("somewhere").collect()


def test_the_job_writes_what_the_frame_reads(
    spark: SparkSession, tmp_path: Path, copybook: str
) -> None:
    data, target = tmp_path / "data", tmp_path / "out"
    data.write_bytes(b"".join(b"\x40\x40" + record(i)[2:] for i in range(100)))
    options = CopybookOptions.of({"copybook": copybook, "splitBytes": "300"})
    tally = PolicyTally()

    rows = run_parquet(spark, prepare_parquet(str(data), str(target), options), tally)

    assert tally == {("padding=left", "ACCOUNT", "NUM"): 100}
    frame = spark.read.format("copybook").option("copybook", copybook).load(str(data))
    assert rows == 100
    assert sorted(spark.read.parquet(str(target)).collect()) == sorted(frame.collect())
    assert not list(target.glob(".staging*"))


SEGMENTS = """
       01  CLAIM.
           05  SEG      PIC X.
           05  OWNER.
               10  NAME     PIC X(4).
               10  AGE      PIC 9(2).
           05  PART REDEFINES OWNER.
               10  CODE     PIC 9(6).
"""


def test_a_segment_is_a_frame_of_which_only_what_is_asked_for_is_decoded(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, copybook = tmp_path / "data", tmp_path / "claim.cpy"
    copybook.write_text(SEGMENTS)
    data.write_bytes("OAnna41P000007OBob ??P00000?".encode("cp037"))
    reader = spark.read.format("copybook").option("copybook", str(copybook))
    reader = reader.option("kinds", "SEG: O=OWNER, P=PART").option("splitBytes", 14)
    reader = reader.option("parents", "PART=OWNER")

    owners = reader.option("segment", "OWNER").load(str(data))
    parts = reader.option("segment", "PART").option("columns", "SEG").load(str(data))

    assert owners.columns == ["_file", "_record_id", "_id_0", "_id_1", "SEG", "NAME", "AGE"]
    named = reader.option("segment", "OWNER").option("columns", "NAME").load(str(data))
    assert [row.asDict() for row in named.select("NAME", "_id_0").collect()] == [
        {"NAME": "Anna", "_id_0": 0},
        {"NAME": "Bob", "_id_0": 14},
    ]
    assert parts.select("SEG", "_id_0", "_id_1").collect() == [("P", 0, 7), ("P", 14, 21)]
    with pytest.raises(PySparkException, match=r"record 3, byte 19, field AGE"):
        owners.select("NAME").collect()


def test_a_row_of_a_root_has_arrays_of_what_is_below_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, copybook = tmp_path / "data", tmp_path / "claim.cpy"
    copybook.write_text(SEGMENTS)
    data.write_bytes("OAnna41P000007P000008OBob 22".encode("cp037"))
    options = {"kinds": "SEG: O=OWNER, P=PART", "parents": "PART=OWNER", "children": "nested"}
    reader = spark.read.format("copybook").option("copybook", str(copybook)).options(**options)
    reader = reader.option("splitBytes", 7)

    owners = reader.option("segment", "OWNER").load(str(data))
    rows = owners.select("NAME", "_record_id", "PART").collect()
    parts = owners.selectExpr("NAME", "explode(PART.CODE) AS CODE").collect()

    assert [(row.NAME, row["_record_id"], len(row.PART)) for row in rows] == [
        ("Anna", 0, 2),
        ("Bob", 21, 0),
    ]
    assert parts == [("Anna", 7), ("Anna", 8)]
    assert owners.schema["PART"].dataType.elementType["CODE"].metadata["picture"] == "9(6)"
    frame = read_records(spark, str(data), str(copybook), **options)  # type: ignore[arg-type]
    assert frame.select("OWNER.PART").collect()[0].PART[1].CODE == 8


def test_applied_policies_are_counted_while_a_frame_is_read(
    spark: SparkSession, tmp_path: Path, copybook: str
) -> None:
    """In all tasks, by an accumulator; bad fields by an observation too, in the format."""
    data = tmp_path / "data"
    bad = b"\xf0\x40\xf0\xf1" + record(0)[4:]
    data.write_bytes(b"".join([b"\x40\x40" + record(i)[2:] for i in range(60)] + [bad] * 7))
    counts = record_counts(spark)
    options: Any = {"split_bytes": 90, "errors": "column"}
    frame = read_records(spark, str(data), copybook, counts=counts, **options)
    assert counts.value == {}
    assert frame.rdd.getNumPartitions() > 3

    assert len(frame.collect()) == 67

    assert counts.value == {
        ("padding=left", "ACCOUNT", "NUM"): 60,
        ("errors=column", "ACCOUNT", "NUM"): 7,
    }
    assert next(iter(counts.value.lines())) == "errors=column: 7 values (NUM 7)"
    reader = spark.read.format("copybook").option("copybook", copybook).option("splitBytes", 90)
    seen = Observation()
    found = reader.option("errors", "column").load(str(data))
    found.observe(seen, expr("count_if(size(_errors) > 0) AS records")).collect()
    assert seen.get == {"records": 7}


def test_a_part_that_fails_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, copybook: str
) -> None:
    data, target = tmp_path / "data", tmp_path / "out"
    data.write_bytes(record(1) * 50 + b"\x40" * 9)
    options = CopybookOptions.of({"copybook": copybook, "splitBytes": "100"})

    with pytest.raises(DecodeError, match="field NUM"):
        run_parquet(spark, prepare_parquet(str(data), str(target), options))
    assert list(target.iterdir()) == []


CLAIMS = """
       01  CLAIM.
           05  SEG-ID   PIC X(2).
           05  HOLDER.
               10  NAME     PIC X(6).
           05  PAYMENT REDEFINES HOLDER.
               10  AMOUNT   PIC S9(4)V99.
"""


@pytest.mark.parametrize("options", [{}, {"shape": "flat", "names": "sql"}])
def test_the_schema_that_the_command_prints_is_the_formats(
    spark: SparkSession,
    tmp_path: Path,
    copybook: str,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, str],
) -> None:
    given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    (tmp_path / "data").write_bytes(record(1))
    assert run(["copybook", copybook, "--to", "spark", *given]) == 0
    made = StructType.fromJson(json.loads(capsys.readouterr().out))

    reader = spark.read.format("copybook").option("copybook", copybook).options(**options)

    found = reader.load(str(tmp_path / "data")).schema
    assert made == found
    assert made.json() == found.json()


def test_each_kind_has_the_schema_of_its_segment(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "claim.cpy").write_text(CLAIMS)
    (tmp_path / "data").write_bytes("HDANNA  PY00125C".encode("cp037"))
    kinds = "SEG-ID: HD=HOLDER, PY=PAYMENT"
    given = ["--to", "spark", "-o", f"kinds={kinds}"]
    assert run(["copybook", str(tmp_path / "claim.cpy"), *given]) == 0
    made = json.loads(capsys.readouterr().out)

    reader = spark.read.format("copybook").option("copybook", str(tmp_path / "claim.cpy"))

    assert list(made) == ["HOLDER", "PAYMENT"]
    for name, schema in made.items():
        frame = reader.options(kinds=kinds, segment=name).load(str(tmp_path / "data"))
        assert StructType.fromJson(schema).json() == frame.schema.json()
