"""The format ``jms`` on a real Spark: a journal that grows, over restarts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from capture_place import Place
from journal_messages import line, stored
from laws import one_of
from spark.test_message_source import LINES, PROPERTIES, wrote
from trailgate.live.files.journal_writer import Journal, JournalOptions
from trailgate.messages.message_batch import RECEIVED
from trailgate.spark import capture


def messages(*numbers: int) -> pa.RecordBatch:
    rows = [
        {
            "id": f"ID:{number}",
            "received": number,
            "headers": [("id", f"{number:04}")],
            "body": LINES[number % len(LINES)].encode(),
            "fault": None,
        }
        for number in numbers
    ]
    return pa.RecordBatch.from_pylist(rows, RECEIVED)


@pytest.mark.parametrize("most", one_of([None, "2"], "journal captured"))
def test_a_journal_is_captured_over_restarts_each_message_once(
    spark: SparkSession, tmp_path: Path, most: str | None
) -> None:
    own = PROPERTIES.replace("delim.txid=txid", "delim.txid=$id").replace("=*seqid", "=$id")
    _, properties = wrote(tmp_path, [], own)
    reader = spark.readStream.format("jms")
    reader = reader if most is None else reader.option("maxMessagesPerTrigger", most)
    frame = capture(reader.load(str(tmp_path / "j")), properties)
    done = []
    with Journal(tmp_path / "j", JournalOptions(segment_bytes=1)) as journal:
        for numbers in ((0, 1), (2, 3, 4), (5,)):
            journal.append(messages(*numbers))
            journal.append(messages(*numbers))  # given again
            writer = frame.coalesce(1).writeStream.format("parquet")
            query = (
                writer.option("checkpointLocation", str(tmp_path / "state"))
                .trigger(availableNow=True)
                .start(str(tmp_path / "rows"))
            )
            query.awaitTermination()
            rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("tx_id").collect()
            done.append([int(row.tx_id) for row in rows])

    assert done == [[0, 1], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]]


def test_bad_messages_are_quarantined_once_and_the_others_are_in_the_trail(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, spanning=True)
    good = [line(number, "W") for number in range(9)]
    bodies = [*good[:4], line(4, "B"), "I,MY.ORDERS,2026-13-01,E,5,5", "bad", *good[6:]]
    for end in (6, len(bodies)):
        with Journal(tmp_path / "j") as journal:
            begin = journal.next
            stored(journal, begin, bodies[begin:end])
        frame = (
            spark.readStream.format("jms")
            .options(properties=str(tmp_path / "p.properties"), onError="quarantine")
            .option("splitBytes", 100)
            .load(str(tmp_path / "j"))
        )
        writer = frame.writeStream.format("trail").options(definitions=str(tmp_path / "orders.def"))
        state = str(tmp_path / "state")
        query = writer.option("checkpointLocation", state).trigger(availableNow=True)
        query.start(str(tmp_path / "ot")).awaitTermination()

    files = sorted((tmp_path / "j.quarantine").glob("*.jsonl"))
    lines = [json.loads(one) for path in files for one in path.read_text().splitlines()]
    assert place.names("ot") == ["0", "1", "2", "3", "6", "7", "8"]
    assert [one["body"] for one in lines] == bodies[4:7]
    assert "2026-13-01" in lines[1]["reason"]


def test_messages_that_were_removed_before_they_were_read_are_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.readStream.format("jms").load(str(tmp_path / "j"))

    def run() -> None:
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "s"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with Journal(tmp_path / "j", JournalOptions(segment_bytes=1)) as journal:
        journal.append(messages(0))
        run()
        for number in (1, 2, 3):
            journal.append(messages(number))
        journal.release(3)

        with pytest.raises(PySparkException, match="messages 1 to 2 were deleted from the journal"):
            run()
