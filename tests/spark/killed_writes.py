"""Run as a program: a batch query and a stream write into a bucket, and processes of Spark are killed meanwhile.

``python killed_writes.py FOLDER s3://BUCKET STEP...``. Each step writes and looks at what is there then, and prints its name. A step whose name
ends with ``+driver`` kills the driver and its JVM; the program is run again then, with the steps that remain.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from types import MappingProxyType
from typing import Any, Final, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from laws import one_of
from sample_trail import NOTES, Op, Transaction, write_trail
from trailgate.jobs.trail_check import check_trail
from trailgate.spark.sessions import session
from trailgate.spark.trail import TrailSource
from trailgate.spark.trail_sink import (
    StagedBatch,
    StagedOperations,
    TrailStreamWriter,
    TrailWriter,
    trail_stream_writer,
    trail_writer,
)
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.stores.s3 import S3Store
from trailgate.storage.stores.writable_stores import writable_store
from trailgate.storage.writing.table_writing import NEEDED

Rows = Iterator[pa.RecordBatch]
WRITE, COMMIT = "write", "commit"
MANIFEST: Final = "manifest.json"
STAGED: Final = "/.o"


@dataclass(frozen=True)
class Strike:
    """Where a process is killed, once: in a method, before or after the put of a number of those whose keys have a text in them.

    ``batch`` is the number of a stream's batch, ``pids`` are processes that are killed with it.
    """

    method: str
    key: str
    number: int = 1
    after: bool = False
    batch: int = 0
    pids: tuple[int, ...] = ()

    def kill(self, file: Path) -> None:
        """Remove the file, as a sign that the strike was done, and kill."""
        file.unlink()
        for pid in (*self.pids, os.getpid()):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def struck(file: str, method: str, batch: int = 0) -> Iterator[None]:
    """Let this process be killed, where a strike at a method is in a file; it gets another name first, as it is done once."""
    path = Path(file)
    strike = Strike(**json.loads(path.read_bytes())) if path.exists() else None
    if strike is None or (strike.method, strike.batch) != (method, batch):
        yield
        return
    taken = path.rename(path.with_name("taken"))
    real, puts = S3Store.call, 0

    def call(self: S3Store, operation: str, key: str = "", **arguments: Any) -> Any:
        nonlocal puts
        puts += operation == "put_object" and strike.key in key
        if puts == strike.number and not strike.after:
            strike.kill(taken)
        found = real(self, operation, key, **arguments)
        if puts == strike.number:
            strike.kill(taken)
        return found

    S3Store.call = call  # type: ignore[method-assign]
    yield
    raise AssertionError("the process was not killed")


class KilledWriter(TrailWriter):
    """The writer of a batch query."""

    strike: str

    def write(self, iterator: Rows) -> StagedOperations:
        with struck(self.strike, WRITE):
            return super().write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with struck(self.strike, COMMIT):
            super().commit(messages)


class KilledStreamWriter(TrailStreamWriter):
    """The writer of a stream; its strikes at tasks are in any batch."""

    strike: str

    def write(self, iterator: Rows) -> StagedBatch:
        with struck(self.strike, WRITE):
            return super().write(iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        with struck(self.strike, COMMIT, batchId):
            super().commit(messages, batchId)


class KilledTrail(TrailSource):
    """The format ``trail`` whose processes are killed."""

    strike = ""

    def writer(self, schema: StructType, overwrite: bool) -> KilledWriter:
        made = trail_writer(self.options, schema, overwrite=overwrite)
        made.__class__, cast("Any", made).strike = KilledWriter, self.strike
        return cast("KilledWriter", made)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledStreamWriter:  # noqa: N802  Spark's name
        del overwrite
        made = trail_stream_writer(self.options, schema)
        made.__class__, cast("Any", made).strike = KilledStreamWriter, self.strike
        return cast("KilledStreamWriter", made)


def transactions(file: int) -> list[Transaction]:
    """Return transactions of 20 operations together."""
    keys = range(1000 * file, 1000 * file + 10)
    return [[Op("I", key), Op("I", key, None, table=NOTES)] for key in keys]


FILES: Final = [transactions(number) for number in range(4)]


class Writes:
    """What is written, and looked at."""

    def __init__(self, folder: Path, bucket: str) -> None:
        self.folder, self.bucket = folder, bucket
        self.source = folder / "oa"
        if not Path(f"{self.source}.def").exists():
            write_trail(self.source, FILES)
        self.strike = folder / "strike"
        self.spark: SparkSession = session("local[2, 4]", **{"spark.task.maxFailures": "4"})
        named = {"strike": str(self.strike)}
        self.spark.dataSource.register(type("KilledTrail", (KilledTrail,), named))

    @property
    def pids(self) -> tuple[int, int]:
        """Return the processes of the JVM and of the driver."""
        return cast("Any", self.spark.sparkContext)._gateway.proc.pid, os.getpid()

    def options(self, frame: Any, **more: str) -> Any:
        options = {"definitions": f"{self.source}.def", "maxBytes": "1200", **more}
        return frame.format("trail").options(**options)

    def batch(self, strike: Strike | None, *, fails: bool = False) -> None:
        """Write the source once more."""
        self.arm(strike)
        frame: DataFrame = (
            self.spark.read.format("trail").option("splitBytes", "1500").load(str(self.source))
        )
        assert frame.rdd.getNumPartitions() > 2
        try:
            self.options(frame.write).mode("append").save(f"{self.bucket}/dirdat/ob")
        except (
            PySparkException,
            Py4JError,
        ):  # the second one where the process that commits is killed
            assert fails
        else:
            assert not fails
            self.note("ob", 1)
        self.check("ob")

    def stream(self, strike: Strike | None, *, fails: bool = False) -> None:
        """Start the query again; each of its batches is a file of the source."""
        self.arm(strike)
        reader = self.spark.readStream.format("trail").option("maxFilesPerTrigger", "1")
        state = str(self.folder / f"state{self.noted('os')}")
        writer = self.options(reader.load(str(self.source)).writeStream, checkpointLocation=state)
        query = writer.trigger(availableNow=True).start(f"{self.bucket}/dirdat/os")
        try:
            query.awaitTermination()
        except PySparkException:
            assert fails
            return
        assert not fails
        self.note("os", 1)
        self.check("os")

    def arm(self, strike: Strike | None) -> None:
        if strike is not None:
            self.strike.write_text(json.dumps(asdict(strike)))

    def noted(self, name: str) -> int:
        """Return how often the source was written to a trail."""
        file = self.folder / f"{name}.count"
        return int(file.read_text()) if file.exists() else 0

    def note(self, name: str, more: int) -> None:
        (self.folder / f"{name}.count").write_text(str(self.noted(name) + more))

    def check(self, name: str) -> None:
        """Check that a trail has each operation as often as it was written, in order and in whole transactions, and that nothing is left."""
        assert not [*self.folder.glob("strike"), *self.folder.glob("taken")]
        times, trail = self.noted(name), f"{self.bucket}/dirdat/{name}"
        if times:
            assert rows(trail) == rows(str(self.source)) * times
            assert check_trail(trail).whole
        store = cast("Any", writable_store(self.bucket, "a test")[0])
        found = store.call("list_multipart_uploads").get("Uploads", ())
        left = [key for key, _ in store.list_keys(f"dirdat/.{name}")]
        assert not [*left, *found], left
        assert not [*Path(gettempdir()).glob("trailgate-staged-*")]


def rows(trail: str) -> list[Any]:
    table = pa.Table.from_batches(read_trail(trail))
    return list(table.select(list(NEEDED)).to_pylist())


TASKS: Final = (
    (Writes.batch, Strike(WRITE, STAGED)),
    (Writes.batch, Strike(WRITE, STAGED, 2, after=True)),
    (Writes.stream, Strike(WRITE, STAGED, 2)),
)
COMMITS: Final = (
    Strike(COMMIT, MANIFEST, 1, after=False, batch=0),
    Strike(COMMIT, MANIFEST, 1, after=True, batch=1),
    Strike(COMMIT, MANIFEST, 2, after=True, batch=2),
)


def tasks(writes: Writes) -> None:
    """Kill workers of tasks, which are tried again."""
    for write, strike in one_of(TASKS, "tasks"):
        write(writes, strike)


def commits(writes: Writes) -> None:
    """Kill the process that commits: before it decides, after it, and after all is published."""
    for commit in one_of((batch_commits, stream_commits), "commits"):
        commit(writes)


def batch_commits(writes: Writes) -> None:
    writes.batch(Strike(COMMIT, MANIFEST), fails=True)


def stream_commits(writes: Writes) -> None:
    for strike in one_of(COMMITS, "commits of streams"):
        writes.stream(strike, fails=True)
    writes.stream(None)


def batch_driver(writes: Writes) -> None:
    """Kill the driver between staging and deciding."""
    writes.batch(Strike(COMMIT, MANIFEST, pids=writes.pids))


def stream_driver(writes: Writes) -> None:
    """Kill the driver when a batch of the stream is decided, and is not published yet."""
    writes.stream(Strike(COMMIT, MANIFEST, after=True, batch=1, pids=writes.pids))


STEPS: Final = MappingProxyType[str, Callable[[Writes], None]](
    {
        "tasks": tasks,
        "commits": commits,
        "batch+driver": batch_driver,
        "batch": partial(Writes.batch, strike=None),
        "stream+driver": stream_driver,
        "stream": partial(Writes.stream, strike=None),
    }
)


def main(folder: Path, bucket: str, steps: Sequence[str]) -> None:
    writes = Writes(folder, bucket)
    for step in steps:
        STEPS[step](writes)
        sys.stdout.write(f"{step}\n")
        sys.stdout.flush()
    writes.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
