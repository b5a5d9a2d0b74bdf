"""Streams of messages and of trails, and the stream sink of the format ``trail``, on a real Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sample_trail import DEFINITIONS, Op, write_trail
from spark.test_message_source import INDICATED, LINES, PROPERTIES, wrote
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.trail_check import check_trail
from trailgate.spark import capture
from trailgate.storage.reading.trails import read_trail


def line(number: int) -> str:
    return f"I,MY.ORDERS,2026-01-01 00:00:00,t{number},{number},name {number}"


def put(folder: Path, *numbers: int) -> None:
    """Write one file a number, each of two messages; whole files appear at once."""
    for number in numbers:
        hidden = folder / "in" / f".m{number:04}"
        hidden.write_text(f"{line(2 * number)}\n{line(2 * number + 1)}\n")
        hidden.rename(folder / "in" / f"m{number:04}.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of properties and two files of messages."""
    wrote(tmp_path, [])
    (tmp_path / "in" / "a.txt").unlink()
    put(tmp_path, 0, 1)
    return tmp_path


def messages(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    reader = spark.readStream.format("message_capture").options(
        properties=str(folder / "x.properties"), messagePer="line", **options
    )
    return reader.load(str(folder / "in"))


def to_trail(frame: DataFrame, folder: Path, **options: Any) -> StreamingQuery:
    """Run what is available now of a stream into a trail."""
    writer = frame.writeStream.format("trail").options(
        definitions=str(folder / "x.def"), checkpointLocation=str(folder / "state"), **options
    )
    query: StreamingQuery = writer.trigger(availableNow=True).start(str(folder / "ot"))
    query.awaitTermination()
    return query


def names(folder: Path) -> list[str]:
    rows = [row for batch in read_trail(folder / "ot") for row in batch["after"].to_pylist()]
    return [dict(row)["NAME"] for row in rows]


def expected(count: int) -> list[str]:
    return [f"name {number}" for number in range(2 * count)]


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "ot.manifest.json").read_bytes())
    return found


def test_a_growing_folder_is_captured_into_one_trail_over_restarts(
    spark: SparkSession, folder: Path
) -> None:
    frame = messages(spark, folder, maxFilesPerTrigger="1")
    query = to_trail(frame, folder)
    assert names(folder) == expected(2)
    assert len([one for one in query.recentProgress if one["numInputRows"]]) == 2

    put(folder, 2, 3, 4)
    to_trail(frame, folder)
    to_trail(frame, folder)

    assert names(folder) == expected(5)
    found = manifest(folder)
    assert [file["name"] for file in found["files"]] == ["ot000000000"]
    assert list(found["queries"].values()) == [4]
    assert check_trail(str(folder / "ot")).whole
    seq_ids = [row for batch in read_trail(folder / "ot") for row in batch["csn"].to_pylist()]
    assert seq_ids == sorted(set(seq_ids))
    assert not [path for path in folder.iterdir() if "stream-" in path.name]


def test_a_batch_that_spark_repeats_is_in_the_trail_once(spark: SparkSession, folder: Path) -> None:
    frame = messages(spark, folder, maxFilesPerTrigger="1")
    to_trail(frame, folder)
    commits = folder / "state" / "commits"
    for path in (commits / "1", commits / ".1.crc"):
        path.unlink()
    put(folder, 2)

    to_trail(frame, folder)

    assert names(folder) == expected(3)


def test_a_file_that_comes_too_late_stops_the_stream(spark: SparkSession, folder: Path) -> None:
    frame = messages(spark, folder)
    put(folder, 5)
    to_trail(frame, folder)
    put(folder, 3)
    os.utime(folder / "in" / "m0003.txt", (1, 1))

    with pytest.raises(PySparkException, match=r"4 files sort up to m0005\.txt, but only 3 of"):
        to_trail(frame, folder)


def test_transactions_over_messages_are_refused_in_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrote(tmp_path, ["x"], INDICATED)

    with pytest.raises(PySparkException, match="span messages cannot be taken from a stream"):
        to_trail(messages(spark, tmp_path), tmp_path)


def test_a_trail_is_streamed_into_a_trail(spark: SparkSession, folder: Path) -> None:
    to_trail(messages(spark, folder), folder)
    other = folder / "other"
    other.mkdir()
    (other / "x.def").write_bytes((folder / "x.def").read_bytes())
    frame = spark.readStream.format("trail").load(str(folder / "ot"))

    to_trail(frame, other, maxBytes="1")
    put(folder, 2)
    to_trail(messages(spark, folder), folder)
    to_trail(frame, other, maxBytes="1")

    assert names(other) == expected(3)
    assert len(manifest(other)["files"]) == 6
    assert check_trail(str(other / "ot")).whole


def test_any_rows_of_a_stream_are_written_as_whole_transactions_by_its_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    transactions = [[Op("I", 10 * tx + i) for i in range(1 + tx % 4)] for tx in range(8)]
    prefix = write_trail(tmp_path / "ot", [transactions])
    (tmp_path / "x.def").write_bytes(write_sourcedefs(DEFINITIONS))
    stream = spark.readStream.format("trail").option("maxBytesPerTrigger", "1500").load(str(prefix))

    def append(batch: DataFrame, number: int) -> None:
        del number
        target = batch.write.format("trail").mode("append").option("base", str(tmp_path))
        target.option("definitions", "x.def").save("filtered")

    filtered = stream.where("tx_ind not in ('B', 'E')")
    writer = filtered.writeStream.foreachBatch(append).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "state")).start()
    query.awaitTermination()

    assert len(query.recentProgress) > 1
    found = [row for batch in read_trail(tmp_path / "filtered") for row in batch.to_pylist()]
    assert [row["tx_ind"] for row in found] == ["W", "W", "B", "E", "W", "W", "B", "E"]
    assert check_trail(str(tmp_path / "filtered")).whole


def test_a_stream_or_a_frame_without_rows_makes_a_trail_without_rows(
    spark: SparkSession, folder: Path
) -> None:
    to_trail(messages(spark, folder).where("false"), folder)
    empty = spark.read.format("trail").load(str(folder / "ot"))
    assert empty.count() == 0

    writer = empty.write.format("trail").mode("append").option("definitions", str(folder / "x.def"))
    writer.save(str(folder / "frame"))
    typed = spark.read.format("trail").option("table", "MY.ORDERS")

    assert typed.load(str(folder / "frame")).count() == 0


def test_rows_as_kafka_has_them_are_captured(spark: SparkSession, tmp_path: Path) -> None:
    own = PROPERTIES.replace("delim.txid=txid", "delim.txid=$id").replace("=*seqid", "=$id")
    _, properties = wrote(tmp_path, [], own)
    rows = [
        (text.encode(), [("id", f"{n:04}".encode()), ("x", None)]) for n, text in enumerate(LINES)
    ]
    frame = spark.createDataFrame(
        rows, "value binary, headers array<struct<key:string,value:binary>>"
    )

    found = capture(frame.coalesce(1), properties).collect()

    assert [row.op_type for row in found] == list("IUID")
    assert [row.tx_id for row in found] == ["0000", "0001", "0002", "0003"]
