"""Batches and streams written to a store, where a request fails or the process is killed at it: what is done again leaves no trace of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
from pyspark import TaskContext

from laws import sampled
from sample_trail import DEFINITIONS
from spark.failing_batches import ROWS, SCHEMA, parts_of, task
from store_servers.bucket import Bucket
from stored_place import KilledError
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.errors import TrailgateError
from trailgate.jobs.trail_check import check_trail
from trailgate.spark.trail_sink import trail_stream_writer, trail_writer
from trailgate.storage.publish import store_folder
from trailgate.storage.reading.trails import read_trail
from trailgate.storage.stores import object_store as parted_upload
from trailgate.storage.stores import s3
from trailgate.storage.stores.s3 import S3Store
from trailgate.storage.writing.table_writing import NEEDED

# A process that is gone, a request that fails, one that is done and whose answer is lost, and a store that is gone until the batch is given again.
KILLED, FAILED, LOST, GONE = "killed", "failed", "lost", "gone"
SEE: Final = "check the published files before writing the same again"
PROBLEM: Final = "the store cannot be reached: a test"


class Fault(NamedTuple):
    """A kind of fault, and the number of the request at which it happens."""

    kind: str = ""
    at: int = 0


NONE: Final = Fault()
# Rows of the parts of each batch query: without positions they are whole transactions.
WHOLE: Final = (((0, 1), (1, 4)), ((4, 7), (7, 8)), ((0, 1), (7, 8)))


@contextmanager
def struck(fault: Fault) -> Iterator[list[int]]:
    """Let a fault happen; give how many requests were sent."""
    sent, lock, real = [0], threading.Lock(), S3Store.call

    def call(self: S3Store, *given: Any, **arguments: Any) -> Any:
        with lock:
            sent[0] += 1
            number = sent[0]
        if number == fault.at or (number > fault.at and fault.kind in (KILLED, GONE)):
            if fault.kind == KILLED:
                raise KilledError
            if fault.kind == LOST:
                real(self, *given, **arguments)
            raise self.error(PROBLEM, "")
        return real(self, *given, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Store, "call", call)
        yield sent


def rows_of(table: pa.Table | pa.RecordBatch) -> list[Any]:
    """Return the rows, but for what a trail adds."""
    return list(table.select(list(NEEDED)).to_pylist())


@pytest.fixture(autouse=True)
def _as_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be a task while a test runs."""
    monkeypatch.setattr(TaskContext, "_taskContext", None)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files put in parts, as long ones are."""
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 300)
    for module, name, size in (
        (s3, "MIN_PART", 300),
        (parted_upload, "PART", 700),
        (store_folder, "HEAD", 700),
    ):
        monkeypatch.setattr(module, name, size)


class Writing:
    """A trail in a bucket that rows are written to, as a batch query writes them or a stream."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket, self.prefix = bucket, f"{bucket.url}/dirdat/ot"
        bucket.put("x.def", write_sourcedefs(DEFINITIONS))
        self.options = {
            "path": self.prefix,
            "definitions": f"{bucket.url}/x.def",
        }

    def stream(self, number: int, attempt: int, fault: Fault = NONE) -> int:
        """Write and commit a batch of a stream; where that fails abort it, as Spark does, and raise. Return the requests."""
        writer = trail_stream_writer(self.options, SCHEMA)
        messages: list[Any] = []
        with struck(fault) as sent:
            try:
                for part, rows in enumerate(parts_of(number)):
                    task(number, part, attempt)
                    messages.append(None)
                    messages[-1] = writer.write(iter([rows]))
                writer.commit(messages, number)
            except TrailgateError:
                with suppress(TrailgateError):
                    writer.abort(messages, number)
                raise
        return sent[0]

    def write(self, number: int, attempt: int, fault: Fault = NONE) -> int:
        """Write and commit rows; where that fails abort it, as Spark does, and raise. Return the requests."""
        writer = trail_writer(self.options, SCHEMA, overwrite=False)
        messages: list[Any] = []
        with struck(fault) as sent:
            try:
                for part, (begin, end) in enumerate(WHOLE[number]):
                    task(number, part, attempt)
                    messages.append(None)
                    messages[-1] = writer.write(iter([ROWS.slice(begin, end - begin)]))
                writer.commit(messages)
            except TrailgateError:
                with suppress(TrailgateError):
                    writer.abort(messages)
                raise
        return sent[0]

    def operations(self) -> list[Any]:
        return rows_of(pa.Table.from_batches(read_trail(self.prefix)))

    def contents(self) -> dict[str, bytes]:
        return self.bucket.contents()

    def restore(self, contents: dict[str, bytes]) -> None:
        self.bucket.store.delete(self.bucket.keys())
        self.bucket.store.abandon("", bool)
        for key, data in contents.items():
            self.bucket.put(key, data)

    def left(self) -> list[str]:
        hidden = [key for key in self.bucket.keys("dirdat/") if "/." in key]
        return [*hidden, *(f"part of {key}" for key in self.bucket.uploads())]


# A fault at each request takes minutes; at so many of them seconds.
FAULTS = [(KILLED, 5), (LOST, 4), (FAILED, 3), (GONE, 3)]


def outcome(act: Callable[[], object]) -> str | None:
    """Return the text of the error that an action raises, None where it succeeds."""
    try:
        act()
    except (KilledError, TrailgateError) as error:
        return str(error)
    return None


@pytest.mark.parametrize(("kind", "count"), FAULTS)
@pytest.mark.usefixtures("short")
def test_a_batch_of_a_stream_that_is_given_again_is_there_once(
    s3_bucket: Bucket, kind: str, count: int
) -> None:
    writing = Writing(s3_bucket)
    writing.stream(0, 0)
    contents, before = writing.contents(), writing.operations()
    requests = writing.stream(1, 1)
    expected = writing.operations()
    seen = set()

    for at in sampled(range(1, requests + 1), count, f"stream {kind}"):
        writing.restore(contents)
        outcome(partial(writing.stream, 1, 1, Fault(kind, at)))
        found = writing.operations()
        assert found in (before, expected), at
        seen.add(len(found))
        writing.stream(1, 2)
        assert writing.operations() == expected, at
        assert writing.left() == [], at
    assert seen == {len(before), len(expected)}
    writing.stream(2, 1)
    assert writing.operations() == rows_of(ROWS)
    assert check_trail(writing.prefix).whole


@pytest.mark.parametrize(("kind", "count"), FAULTS)
@pytest.mark.usefixtures("short")
def test_a_batch_query_writes_everything_or_nothing(
    s3_bucket: Bucket, kind: str, count: int
) -> None:
    writing = Writing(s3_bucket)
    writing.write(0, 0)
    contents, before = writing.contents(), writing.operations()
    requests = writing.write(1, 1)
    both = writing.operations()

    for at in sampled(range(1, requests + 1), count, f"batch {kind}"):
        writing.restore(contents)
        error = outcome(partial(writing.write, 1, 1, Fault(kind, at)))
        assert writing.operations() in (before, both), at
        if kind in (FAILED, LOST) and error is not None and SEE not in error:
            assert writing.left() == [], at
        writing.write(2, 1)  # another writer completes what was decided
        found = writing.operations()
        own = found[len(before) : -2]
        assert own in ([], both[len(before) :]), at
        if error is None:
            assert own, at
        elif kind != KILLED and own:
            assert SEE in error, at
        assert writing.left() == [], at
