"""The stream reader of the format ``jms`` without Spark: when it receives, what it removes, and what it raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from received_messages import ListReceiver, received
from trailgate.errors import OptionError, StorageError, WriteError
from trailgate.live.files.journal_writer import Journal, JournalOptions
from trailgate.live.jobs.storing_receiver import StoringReceiver
from trailgate.live.spark import MESSAGES, JmsOptions, JmsStreamReader

SMALL = JournalOptions(segment_bytes=1)
ALL = ReadAllAvailable()


def tail(folder: Path, **options: str) -> JmsStreamReader:
    given = {"path": str(folder / "j"), **options}
    return JmsStreamReader(JmsOptions.of(given), from_arrow_schema(MESSAGES))


@contextmanager
def stopping(own: JmsStreamReader) -> Iterator[None]:
    try:
        yield
    finally:
        own.stop()


@pytest.fixture
def receivers(monkeypatch: pytest.MonkeyPatch) -> list[ListReceiver]:
    """Return a list of which the first is the broker's that a stream receives from."""
    found: list[ListReceiver] = []
    monkeypatch.setattr("trailgate.live.spark.make_receiver", lambda _: found[0])
    return found


def bodies(own: JmsStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    return [
        body
        for part in own.partitions(start, end)
        for batch in own.read(part)
        for body in batch["body"].to_pylist()
    ]


def test_nothing_is_done_before_the_first_offset_is_asked_for(
    tmp_path: Path, receivers: list[ListReceiver]
) -> None:
    receivers.append(ListReceiver(received(["a"])))
    own = tail(tmp_path, url="stomp://h/q")

    assert own.initialOffset() == {"message": 0}
    assert not list(tmp_path.iterdir())

    own.prepareForTriggerAvailableNow()
    with stopping(own):
        end = own.latestOffset({"message": 0}, ALL)
    assert end == {"message": 1}
    assert receivers[0].acknowledged == [1]
    assert receivers[0].closed


def test_what_the_query_has_committed_is_removed_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receivers: list[ListReceiver]
) -> None:
    def storing(receiver: Any, folder: Path, rule: None) -> StoringReceiver:
        assert rule is None
        return StoringReceiver(receiver, folder, SMALL)

    monkeypatch.setattr("trailgate.live.spark.StoringReceiver", storing)
    receivers.append(ListReceiver(*(received([text]) for text in "abcd")))
    own = tail(tmp_path, url="stomp://h/q")
    own.prepareForTriggerAvailableNow()
    with stopping(own):
        offset = {"message": 0}
        seen = []
        while (end := own.latestOffset(offset, ReadMaxRows(1))) != offset:
            seen += bodies(own, offset, end)
            assert own.initialOffset() == offset
            offset = end

    assert seen == [b"a", b"b", b"c", b"d"]


def test_a_disk_that_is_full_fails_the_query_and_nothing_is_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receivers: list[ListReceiver]
) -> None:
    def full(*_: object) -> None:
        raise WriteError("cannot write: No space left on device")

    monkeypatch.setattr(Journal, "append", full)
    receivers.append(ListReceiver(received(["a"])))
    own = tail(tmp_path, url="stomp://h/q")
    own.prepareForTriggerAvailableNow()

    with stopping(own), pytest.raises(WriteError, match="No space left"):
        own.latestOffset({"message": 0}, ALL)
    assert not receivers[0].acknowledged


def test_a_batch_is_given_again_as_it_was(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(received(["a", "b", "c"]))
        own = tail(tmp_path)
        end = own.latestOffset({"message": 0}, ReadMaxRows(2))
        journal.append(received(["d"]))

        assert bodies(own, {"message": 0}, end) == [b"a", b"b"]
        assert bodies(tail(tmp_path), {"message": 0}, end) == [b"a", b"b"]
        assert own.reportLatestOffset() == {"message": 4}


def test_a_journal_that_is_not_the_streams_is_an_error(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(received(["a"]))

    with pytest.raises(StorageError, match="ends before message 1, but the stream continues at 5"):
        tail(tmp_path).latestOffset({"message": 5}, ALL)


def test_a_batch_of_many_bytes_is_several_tasks_in_order(tmp_path: Path) -> None:
    strings = [str(number) for number in range(20)]
    with Journal(tmp_path / "j", SMALL) as journal:
        for text in strings:
            journal.append(received([text]))
    own = tail(tmp_path, splitBytes="3000")
    start, end = {"message": 3}, own.latestOffset({"message": 3}, ALL)

    assert len(own.partitions(start, end)) > 3
    assert bodies(own, start, end) == [text.encode() for text in strings[3:]]
    assert own.partitions(end, end) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"url": "kafka://h/t"}, "keeps its messages"),
        ({"url": "https://h/t"}, "neither the protocol of a broker"),
        ({"url": "stomp://h/q", "receive": "false"}, "receive is false, and a url is given"),
        ({"receive": "true"}, "receive is true, and no url is given"),
        ({"onError": "quarantine"}, "the option onError applies only to operations"),
        (
            {"ignoreUnsupported": "true"},
            "the option ignoreUnsupported applies only to operations",
        ),
        ({"onError": "skip"}, "skip"),
        ({"table": "A.B"}, "the option table applies only to operations"),
        ({"urls": "x"}, "Did you mean url"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(OptionError, match=problem):
        tail(tmp_path, **options)
