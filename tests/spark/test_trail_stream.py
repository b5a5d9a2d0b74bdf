"""The format ``trail`` as a stream on a real Spark."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from laws import one_of
from raw_trail import abend, inserts, write_files
from trailgate.errors import DecodeError
from trailgate.spark.sources import Offset
from trailgate.spark.trail import TrailOptions, TrailSource, TrailStreamReader

TRANSACTIONS = [inserts([10 * tx + i for i in range(1 + tx % 4)], tx=tx) for tx in range(60)]


def expected() -> list[int]:
    return [10 * tx + i for tx in range(60) for i in range(1 + tx % 4)]


class Writer(threading.Thread):
    """Appends to a trail in torn chunks, rolls over, and breaks off transactions in between."""

    def __init__(self, prefix: Path) -> None:
        super().__init__()
        records: list[bytes] = []
        for tx, rows in enumerate(TRANSACTIONS):
            if tx % 7 == 3:
                records += [*rows[: len(rows) // 2], abend()]
            records += rows
        third = len(records) // 3
        whole = write_files(
            prefix, [records[:third], records[third : 2 * third], records[2 * third :]]
        )
        self._files = [Path(f"{whole}{number:09}") for number in range(3)]
        self._data = [file.read_bytes() for file in self._files]
        for file in self._files:
            file.unlink()

    def run(self) -> None:
        for file, data in zip(self._files, self._data, strict=True):
            with file.open("ab", buffering=0) as target:
                for start in range(0, len(data), 1111):
                    target.write(data[start : start + 1111])
                    time.sleep(0.05)


def stream(spark: SparkSession, prefix: Path, **options: Any) -> Any:
    return spark.readStream.format("trail").options(**options).load(str(prefix))


def started(frame: Any, folder: Path, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "state"))
    query: StreamingQuery = writer.trigger(**trigger).start(str(folder / "rows"))
    return query


def landed(spark: SparkSession, folder: Path) -> list[int]:
    if not (folder / "rows" / "_spark_metadata").exists():
        return []
    frame = spark.read.parquet(str(folder / "rows"))
    if "ID" in frame.columns:
        return [row.ID for row in frame.orderBy("_position").select("ID").collect()]
    rows = frame.orderBy("position").selectExpr("int(after['ID']) AS id").collect()
    return [row.id for row in rows]


@pytest.mark.parametrize(
    "options", one_of([{}, {"table": "MY.ORDERS", "maxBytesPerTrigger": "3000"}], "growing trail")
)
def test_a_growing_trail_lands_once_over_rollovers_and_restarts(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    writer = Writer(tmp_path / "ot")
    writer.start()
    for _ in range(2):
        query = started(
            stream(spark, tmp_path / "ot", **options), tmp_path, processingTime="0 seconds"
        )
        time.sleep(2)
        query.stop()
    writer.join()
    started(
        stream(spark, tmp_path / "ot", **options), tmp_path, availableNow=True
    ).awaitTermination()

    assert landed(spark, tmp_path) == expected()
    batch = spark.read.format("trail").load(str(tmp_path / "ot"))
    assert batch.count() == len(expected())


class OlderTail(DataSourceStreamReader):  # type: ignore[misc]  # pyspark's types are not followed
    """A reader that PySpark before 4.2 asks without saying where the query is."""

    def __init__(self, options: TrailOptions, schema: StructType) -> None:
        self._tail = TrailStreamReader(options, schema)

    def initialOffset(self) -> Offset:  # noqa: N802
        return self._tail.initialOffset()

    def latestOffset(self) -> Offset:  # noqa: N802
        return self._tail.latestOffset()

    def partitions(self, start: Offset, end: Offset) -> list[Any]:
        return self._tail.partitions(start, end)

    def read(self, partition: Any) -> Iterator[Any]:
        return self._tail.read(partition)


class OlderSource(TrailSource):
    """The format as PySpark before 4.2 sees it."""

    @classmethod
    def name(cls) -> str:
        return "trail_before_42"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return OlderTail(TrailOptions.of(self.options), schema)


def test_without_admission_control_a_trail_lands_once_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Workers need not be able to import this module.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(OlderSource)
    prefix = write_files(tmp_path / "ot", TRANSACTIONS[:4])
    reader = spark.readStream.format("trail_before_42").option("maxFilesPerTrigger", "1")
    for _ in range(2):
        query = started(reader.load(str(prefix)), tmp_path, processingTime="0 seconds")
        query.processAllAvailable()
        query.stop()
        write_files(prefix, TRANSACTIONS[:7])

    assert landed(spark, tmp_path) == expected()[: sum(map(len, TRANSACTIONS[:7]))]


def test_a_wrong_option_is_reported_with_the_nearest_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(
        PySparkException, match=r"(?si)no option maxBytesPerTriger. Did you mean maxBytesPerTrigger"
    ):
        stream(spark, tmp_path / "ot", maxBytesPerTriger="1").schema.json()


def test_a_batch_is_bounded_by_files(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [TRANSACTIONS[1], TRANSACTIONS[2], TRANSACTIONS[3]])

    query = started(stream(spark, prefix, maxFilesPerTrigger="1"), tmp_path, availableNow=True)
    query.awaitTermination()

    counts = [progress["numInputRows"] for progress in query.recentProgress]
    assert [count for count in counts if count] == [2, 3, 4]


def test_latest_begins_at_the_present_end(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [TRANSACTIONS[1]])
    frame = stream(spark, prefix, startingPosition="latest")
    started(frame, tmp_path, availableNow=True).awaitTermination()
    write_files(prefix, [TRANSACTIONS[1], TRANSACTIONS[2]])

    started(frame, tmp_path, availableNow=True).awaitTermination()

    assert landed(spark, tmp_path) == [20, 21, 22]


def test_a_trail_that_was_cut_back_stops_the_stream(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*TRANSACTIONS[1], *TRANSACTIONS[2]]])
    frame = stream(spark, prefix)
    started(frame, tmp_path, availableNow=True).awaitTermination()
    write_files(prefix, [TRANSACTIONS[1]])

    with pytest.raises(PySparkException, match=r"was shortened to byte \d+.*new checkpoint"):
        started(frame, tmp_path, availableNow=True).awaitTermination()


def test_records_are_streamed_as_well(spark: SparkSession, tmp_path: Path) -> None:
    prefix = write_files(tmp_path / "ot", [[*TRANSACTIONS[3][:1], abend(), *TRANSACTIONS[3]]])

    frame = stream(spark, prefix, records="all")
    started(frame, tmp_path, availableNow=True).awaitTermination()

    found = spark.read.parquet(str(tmp_path / "rows")).orderBy("position").collect()
    assert [row.type_name for row in found] == ["Insert", "RestartAbend", *["Insert"] * 4]


def _with_damaged_length(folder: Path) -> Path:
    """Write a trail of two files; in the last one a length hides five operations behind it, and the end of its transaction."""
    first, torn, hidden = TRANSACTIONS[3], TRANSACTIONS[7], TRANSACTIONS[11][:1]
    prefix = write_files(folder / "ot", [first, [*TRANSACTIONS[2], *torn, *hidden]])
    path = Path(f"{prefix}000000001")
    data = bytearray(path.read_bytes())
    at = data.index(torn[1])
    data[at + 2 : at + 4] = b"\xf0\x00"
    path.write_bytes(data)
    return prefix


DAMAGED = r"(?s)the record's length is damaged: it states 61440 bytes.*a record follows at byte \d+.*ot000000001, byte \d+"


def test_a_stream_stops_at_a_damaged_length_in_the_last_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    prefix = _with_damaged_length(tmp_path)

    with pytest.raises(PySparkException, match=DAMAGED):
        started(
            stream(spark, prefix, maxBytesPerTrigger="100"), tmp_path, availableNow=True
        ).awaitTermination()

    whole = sorted([*(30 + i for i in range(4)), *(20 + i for i in range(3))])
    assert sorted(landed(spark, tmp_path)) in (whole, whole[3:], [])


@pytest.mark.parametrize("options", [{}, {"splitBytes": "200"}, {"records": "all"}])
def test_a_batch_never_shows_part_of_what_a_damaged_length_hides(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    prefix = _with_damaged_length(tmp_path)

    with pytest.raises(PySparkException, match=DAMAGED):
        spark.read.format("trail").options(**options).load(str(prefix)).collect()


def rows_of(reader: Any, parts: list[Any]) -> list[Any]:
    """Return the batches that tasks read, each with its own copy of the reader."""
    return [one for part in parts for one in sent(reader).read(sent(part))]


def sent(value: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(value))


def test_a_missing_record_stops_a_stream_and_a_batch(tmp_path: Path) -> None:
    complete, torn, last = TRANSACTIONS[2], TRANSACTIONS[3][1:], TRANSACTIONS[5]
    # The record is the first of a file, and of a batch of the stream.
    prefix = write_files(tmp_path / "ot", [complete, [*torn, *last]])
    source = TrailSource({"path": str(prefix), "maxFilesPerTrigger": "1"})
    stream = source.streamReader(source.schema())
    first = stream.initialOffset()
    second = stream.latestOffset(first, None)
    third = stream.latestOffset(second, None)
    batch = TrailSource({"path": str(prefix)}).reader(source.schema())
    missing = r"records are missing: this record continues a transaction.* before it, tx2, begins at position 0:.*ot000000001, byte \d+.*--salvage"

    assert sum(map(len, rows_of(stream, stream.partitions(first, second)))) == len(complete)
    with pytest.raises(DecodeError, match=missing):
        rows_of(stream, stream.partitions(second, third))
    with pytest.raises(DecodeError, match=missing):
        rows_of(batch, batch.partitions())


def test_a_stream_that_ends_names_the_bytes_left_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rest = [*TRANSACTIONS[3][:2], TRANSACTIONS[3][2][:-1]]
    prefix = write_files(tmp_path / "ot", [[*TRANSACTIONS[2], *rest]])
    source = TrailSource({"path": str(prefix)})
    reader = source.streamReader(source.schema())
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), None)
    assert not caplog.records
    assert reader.latestOffset(end, None) == end
    assert reader.latestOffset(end, None) == end

    torn = len(rest[2])
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert f"{len(rest[0]) + len(rest[1])} bytes from position 0:{end['offset']} on" in messages[0]
    assert f"{torn} bytes at the end of {prefix}000000000 are not read" in messages[1]


def test_a_batch_of_an_open_transaction_names_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = write_files(tmp_path / "ot", [[*TRANSACTIONS[2], *TRANSACTIONS[3][:2]]])
    source = TrailSource({"path": str(prefix)})
    source.reader(source.schema()).partitions()

    (record,) = caplog.records
    assert "has not ended: only part of it is read" in record.getMessage()


def test_a_new_stream_names_missing_first_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = write_files(tmp_path / "ot", [TRANSACTIONS[1], TRANSACTIONS[2]])
    Path(f"{prefix}000000000").unlink()
    source = TrailSource({"path": str(prefix)})
    source.streamReader(source.schema()).initialOffset()

    (record,) = caplog.records
    assert "begins at file number 1: operations of earlier files are missing" in record.getMessage()
