"""The capture job on a real Spark: the same bytes as in one process."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sample_trail import DEFINITIONS
from spark.test_message_source import INDICATED, LINES, PROPERTIES, indicated, wrote
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import OptionError, TrailgateError
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.spark.jobs import run_capture
from trailgate.spark.message_frames import capture
from trailgate.storage.reading.trails import read_trail


def job_over(
    folder: Path, lines: list[str], properties: str, options: CaptureOptions
) -> CaptureJob:
    messages, path = wrote(folder, lines, properties)
    return plan_capture(load_capture(path), messages, folder / "out" / "ot", options)


def published(folder: Path) -> dict[str, bytes]:
    files = (path for path in (folder / "out").iterdir() if path.name[0] != ".")
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize("size", [300, 1_000_000])
def test_spark_writes_the_same_bytes(spark: SparkSession, tmp_path: Path, size: int) -> None:
    options = CaptureOptions(split_bytes=size, message_per_line=True, max_bytes=4000)
    job = job_over(tmp_path, indicated([1, 4, 1, 7, 2, 1, 5]), INDICATED, options)

    here = run_local(job)
    expected = published(tmp_path)
    shutil.rmtree(tmp_path / "out")
    job.target.staging.mkdir(parents=True)
    there = run_capture(spark, pickle.loads(pickle.dumps(job)))

    assert there == here
    assert published(tmp_path) == expected
    assert sum(batch.num_rows for batch in read_trail(tmp_path / "out" / "ot")) == 21


def test_the_earliest_error_is_raised_and_nothing_is_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = indicated([1, 1, 1, 1])
    lines[1] = lines[1].replace("MY.ORDERS", "MY.FIRST")
    lines[3] = lines[3].replace("MY.ORDERS", "MY.SECOND")
    options = CaptureOptions(split_bytes=60, message_per_line=True)
    job = job_over(tmp_path, lines, INDICATED, options)

    with pytest.raises(TrailgateError, match=r"MY\.FIRST"):
        run_capture(spark, job)

    assert not [name for name in published(tmp_path) if name.startswith("ot0")]


def test_a_trail_that_spark_wrote_is_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    job = job_over(tmp_path, LINES, PROPERTIES, CaptureOptions(message_per_line=True))

    summary = run_capture(spark, job)

    frame = spark.read.format("trail").load(str(tmp_path / "out" / "ot"))
    kinds = [row.op_type for row in frame.orderBy("position").select("op_type").collect()]
    assert kinds == list("IUID")
    assert summary.operations == 4


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_messages_of_a_frame_are_parsed(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    _, properties = wrote(tmp_path, LINES, PROPERTIES.replace("txid=txid", "txid=*txid"))
    frame = spark.createDataFrame(
        [(line, {"x": "y"}) for line in LINES], "body string, headers map<string,string>"
    )

    parsed = capture(frame.withColumn("body", frame.body.cast(kind)).coalesce(1), properties)

    rows = parsed.collect()
    assert [row.op_type for row in rows] == list("IUID")
    assert rows[2].after == {"ID": "3", "TEXT": "ü"}
    assert [row.position[-1] for row in rows] == list("0123")


def test_transactions_over_rows_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    _, properties = wrote(tmp_path, LINES, INDICATED)

    with pytest.raises(OptionError, match="span messages"):
        capture(spark.createDataFrame([("x",)], "body string"), properties)


def test_a_table_of_a_frame_comes_in_its_types(spark: SparkSession, tmp_path: Path) -> None:
    _, properties = wrote(tmp_path, LINES)
    frame = spark.createDataFrame([(line,) for line in LINES], "body string")

    rows = capture(frame, properties, table="MY.NOTES").collect()

    assert [(row.ID, row.TEXT, row._op_type) for row in rows] == [(3, "ü", "I")]


def test_a_stream_of_bodies_is_parsed(spark: SparkSession, tmp_path: Path) -> None:
    _, properties = wrote(tmp_path, LINES, PROPERTIES.replace("=*seqid", "=txid"))
    bodies = spark.readStream.text(str(tmp_path / "in")).withColumnRenamed("value", "body")

    query = (
        capture(bodies, properties)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()

    assert spark.read.parquet(str(tmp_path / "out")).count() == len(LINES)


def test_a_stream_whose_ids_are_generated_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    _, properties = wrote(tmp_path, LINES)
    bodies = spark.readStream.text(str(tmp_path / "in")).withColumnRenamed("value", "body")

    with pytest.raises(OptionError, match="repeat in each batch"):
        capture(bodies, properties)


def test_a_bad_body_is_named_by_partition_and_row(spark: SparkSession, tmp_path: Path) -> None:
    _, properties = wrote(tmp_path, LINES)
    frame = spark.createDataFrame([(LINES[0],), (None,)], "body string").coalesce(1)

    with pytest.raises(PySparkException, match=r"the body is null.*message 1"):
        capture(frame, properties).collect()


def test_tombstones_of_change_events_are_no_operations(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "my.def").write_bytes(write_sourcedefs(DEFINITIONS))
    (tmp_path / "d.properties").write_text(
        f"parser.type=debezium\ndebezium.sourcedefs={tmp_path}/my.def\ndebezium.txid=*txid\n"
    )
    event = '{"before":null,"after":{"ID":%d},"op":"c","source":{"ts_ms":1,"schema":"MY","table":"NOTES"}}'
    bodies = [(event % 1,), (None,), (event % 2,), (None,)]
    frame = spark.createDataFrame(bodies, "value string").coalesce(1)

    rows = capture(frame, tmp_path / "d.properties", table="MY.NOTES").collect()

    assert [row.ID for row in rows] == [1, 2]
