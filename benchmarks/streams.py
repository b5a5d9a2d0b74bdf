"""Streams on two cores: a journal of messages into a trail, beside the batch capture of the same messages, and small batches gathered.

The figures are messages a second of all processors' time, of Spark and of all its Python processes: what else the machine does does not count.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import pyarrow as pa
from benchmarks.report import Figure, processor_seconds
from pyspark.sql import DataFrame, SparkSession

from brokers.live_place import LivePlace, row
from trailgate import capture_files
from trailgate.live.files.journal_writer import Journal
from trailgate.messages.message_batch import RECEIVED
from trailgate.spark import capture_runner, session
from trailgate.storage.files.manifest import read_manifest
from trailgate.storage.reading.trails import read_trail

MESSAGES: Final = 400_000
QUICK: Final = 10
WINDOW: Final = 4096  # messages of a frame of the journal, as STOMP gives them
TRANSACTION: Final = 4  # messages of a transaction
BATCHES: Final = 20
RUNS: Final = 3
BUSY = {"spark.python.authenticate.socketTimeout": "300s"}  # a machine that does other things too


def _least(act: Callable[[int], object]) -> float:
    """Return the seconds of the run that took least, without the first one, which warms up."""
    taken = []
    for turn in range(RUNS + 1):
        before = processor_seconds()
        act(turn)
        taken.append(processor_seconds() - before)
    return min(taken[1:])


def _lines(count: int) -> list[str]:
    letters = ["B", *"M" * (TRANSACTION - 2), "E"]
    return [row(number, letters[number % TRANSACTION]) for number in range(count)]


def _fill(journal: Path, lines: list[str]) -> None:
    with Journal(journal) as writing:
        for begin in range(0, len(lines), WINDOW):
            part = lines[begin : begin + WINDOW]
            numbers = np.arange(begin, begin + len(part))
            columns: list[Any] = [
                pa.array([f"ID:{number}" for number in numbers.tolist()]),
                pa.array(numbers),
                pa.array([[("JMSTimestamp", "1767225600000")]] * len(part), RECEIVED.field(2).type),
                pa.array([line.encode() for line in part]),
                pa.nulls(len(part), pa.string()),
            ]
            writing.append(pa.RecordBatch.from_arrays(columns, schema=RECEIVED))


class _Bench:
    """Messages in a journal and in a file, and what makes trails of them."""

    def __init__(self, spark: SparkSession, folder: Path, count: int) -> None:
        self.spark, self.place, self.count = spark, LivePlace(folder), count
        lines = _lines(count)
        self.journal, self.file = folder / "j", folder / "messages.txt"
        _fill(self.journal, lines)
        self.file.write_text("".join(f"{line}\n" for line in lines))

    def frame(self, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("jms").options(**options)
        return reader.option("properties", str(self.place.properties)).load(str(self.journal))

    def stream(self, name: str, turn: int, **options: str) -> str:
        """Bring the journal into a trail; return its prefix."""
        own = self.place.folder / f"{name}{turn}"
        own.mkdir()
        writer = (
            self.frame(**options)
            .writeStream.format("trail")
            .option("definitions", str(self.place.folder / "orders.def"))
        )
        writer = writer.option("checkpointLocation", str(own / "state")).trigger(availableNow=True)
        writer.start(str(own / "ot")).awaitTermination()
        return str(own / "ot")

    def noop(self, turn: int) -> None:
        own = self.place.folder / f"noop{turn}"
        writer = self.frame().writeStream.format("noop").option("checkpointLocation", str(own))
        writer.trigger(availableNow=True).start().awaitTermination()

    def batch(self, turn: int) -> None:
        own = self.place.folder / f"batch{turn}"
        own.mkdir()
        done = capture_files(
            self.file, own / "ot", self.place.properties,
            message_per="line", runner=capture_runner(self.spark),
        )  # fmt: skip
        assert done.operations == self.count

    def read(self, _turn: int) -> None:
        reader = self.spark.read.format("message_capture").option("messagePer", "line")
        frame = reader.option("properties", str(self.place.properties)).load(str(self.file))
        frame.write.format("noop").mode("overwrite").save()


def run(*, quick: bool) -> list[Figure]:
    """Return the figures."""
    spark = session("local[2]", "trailgate-benchmarks", **BUSY)
    count = MESSAGES // QUICK if quick else MESSAGES
    folder = Path(tempfile.mkdtemp(prefix="trailgate-bench-"))
    try:
        bench = _Bench(spark, folder, count)
        batch = count / _least(bench.batch) / 1000
        whole = count / _least(lambda turn: bench.stream("whole", turn)) / 1000
        most = str(-(-count // BATCHES))
        small = (
            count
            / _least(lambda turn: bench.stream("small", turn, maxMessagesPerTrigger=most))
            / 1000
        )
        noop = count / _least(bench.noop) / 1000
        read = count / _least(bench.read) / 1000
        for name in ("whole", "small"):
            prefix = str(folder / f"{name}1" / "ot")
            manifest = read_manifest(prefix)
            assert manifest is not None
            assert len(manifest.files) <= BATCHES // 4, "small batches are gathered"
            assert sum(part.num_rows for part in read_trail(prefix)) == count
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
    unit = "k messages/CPU s"
    return [
        Figure("jms -> trail, one batch", whole, unit, "batch capture on Spark", batch),
        Figure(f"jms -> trail, {BATCHES} batches", small, unit, "one batch", whole),
        Figure("jms -> noop", noop, unit, "message_capture -> noop", read),
    ]
