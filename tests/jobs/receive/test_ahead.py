"""Receiving ahead: parts come in order and joined, no more than there is room for, and an error once, after what came before it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from received_messages import ListFeed, received
from trailgate.errors import BrokerError, WriteError
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.receiver import MessageWindow
from trailgate.live.files.journal_writer import JournalOptions
from trailgate.live.jobs.feed import FeedPart, JournalFeed, PrefetchingFeed

WAIT = 120.0


class CountedFeed(ListFeed):
    """One message a part; fails after the last if it is to. Notes who uses it, and what it gave."""

    def __init__(self, bodies: Sequence[str], error: Exception | None = None) -> None:
        super().__init__(bodies, [1] * len(bodies))
        self.error, self.given, self.closed = error, 0, False
        self.threads: set[int] = set()

    def receive(self, seconds: float) -> FeedPart | None:
        self.threads.add(threading.get_ident())
        part = super().receive(seconds)
        if part is None and self.error is not None:
            raise self.error
        if part is None:
            time.sleep(seconds)
            return None
        self.given += 1
        return part

    def mark_captured(self, number: int) -> None:
        self.threads.add(threading.get_ident())
        super().mark_captured(number)

    def close(self) -> None:
        self.closed = True


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + WAIT
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.001)


def receive_all(ahead: PrefetchingFeed, numbers: list[int]) -> None:
    while True:
        part = ahead.receive(WAIT)
        numbers += [] if part is None else part.numbers.tolist()


def test_parts_that_wait_are_captured_together() -> None:
    feed = CountedFeed([f"text {i}" for i in range(40)])
    ahead = PrefetchingFeed(feed)
    ahead.open(3)
    until(lambda: feed.given == 37)
    part = ahead.receive(WAIT)
    ahead.mark_captured(40)
    until(lambda: feed.log == [40])
    ahead.close()

    assert part is not None
    assert part.numbers.tolist() == list(range(3, 40))
    assert (part.end, len(part.messages), part.problems) == (40, 37, ())
    strings = [
        bytes(part.messages.data[int(begin) : int(end)]).decode()
        for begin, end in zip(part.messages.starts, part.messages.ends, strict=True)
    ]
    assert strings == [f"text {i}" for i in range(3, 40)]
    assert len(feed.threads) == 1
    assert threading.get_ident() not in feed.threads


def test_no_more_is_received_than_there_is_room_for() -> None:
    feed = CountedFeed(["x" * 100] * 50)
    ahead = PrefetchingFeed(feed, ahead=250)
    ahead.open(0)
    until(lambda: feed.given == 3)
    time.sleep(0.05)
    assert feed.given == 3
    part = ahead.receive(WAIT)
    until(lambda: feed.given == 6)
    ahead.close()
    assert part is not None
    assert len(part) == 3


def test_an_error_is_raised_once_after_the_parts_before_it() -> None:
    feed = CountedFeed(["a", "b"], BrokerError("lost"))
    ahead = PrefetchingFeed(feed)
    ahead.open(0)
    numbers: list[int] = []
    with pytest.raises(BrokerError, match="lost"):
        receive_all(ahead, numbers)
    ahead.close()

    assert numbers == [0, 1]
    assert feed.closed


def test_an_error_that_nobody_got_is_raised_when_it_is_closed() -> None:
    feed = CountedFeed([], WriteError("cannot write: No space left on device"))
    ahead = PrefetchingFeed(feed)
    ahead.open(0)
    with pytest.raises(WriteError, match="No space"):
        ahead.close()
    assert feed.closed


def test_nothing_coming_means_nothing_only_where_the_feed_was_asked() -> None:
    asked, go = threading.Event(), threading.Event()

    class Slow(CountedFeed):
        def receive(self, seconds: float) -> FeedPart | None:
            asked.set()
            go.wait(WAIT)
            return super().receive(seconds)

    ahead = PrefetchingFeed(Slow([]))
    ahead.open(0)
    asked.wait(WAIT)
    assert ahead.receive(0.01) is None
    assert not ahead.is_connected
    go.set()
    assert ahead.receive(WAIT) is None
    assert ahead.is_connected
    ahead.close()


def test_a_feed_that_is_slow_to_answer_is_known_to_have_nothing() -> None:
    class Slow(CountedFeed):
        def receive(self, seconds: float) -> FeedPart | None:
            return super().receive(max(seconds, 0.3))

    ahead = PrefetchingFeed(Slow(["a"]))
    ahead.open(0)
    assert ahead.receive(WAIT) is not None
    for _ in range(3):
        assert ahead.receive(0.01) is None
        assert ahead.is_connected
    ahead.close()


class ListReceiver:
    """Gives windows; ``acknowledged`` are those that were."""

    is_connected, connections = True, 1

    def __init__(self, windows: Sequence[pa.RecordBatch]) -> None:
        self._windows = list(windows)
        self.acknowledged: list[str] = []

    def receive(self, seconds: float) -> MessageWindow | None:
        if not self._windows:
            time.sleep(seconds)
            return None
        return MessageWindow(self._windows.pop(0))

    def acknowledge(self, window: MessageWindow) -> None:
        self.acknowledged += window.messages["id"].to_pylist()

    def settle(self, _seconds: float) -> bool:
        return True

    def close(self) -> None:
        pass


def test_messages_that_cannot_be_stored_are_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, stored = os.pwrite, threading.Event()

    def full(handle: int, data: memoryview, offset: int) -> int:
        if stored.is_set():
            raise OSError(28, "No space left on device")
        return real(handle, data, offset)

    receiver = ListReceiver([received(["a", "b"]), received(["c"])])
    acknowledge = receiver.acknowledge

    def acknowledged(window: MessageWindow) -> None:
        acknowledge(window)
        stored.set()

    monkeypatch.setattr(receiver, "acknowledge", acknowledged)
    monkeypatch.setattr(os, "pwrite", full)
    address = parse_address("stomp://localhost/q")
    ahead = PrefetchingFeed(JournalFeed(address, receiver, tmp_path / "j", JournalOptions()))
    ahead.open(None)
    numbers: list[int] = []
    with pytest.raises(WriteError, match="No space left"):
        receive_all(ahead, numbers)
    ahead.close()

    assert numbers == [0, 1]
    assert receiver.acknowledged == ["a", "b"]
