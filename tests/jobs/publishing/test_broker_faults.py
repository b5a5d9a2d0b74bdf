"""A broker that fails at any step of any batch: each message is sent once, and what a run reports was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import chance
from memory_broker import STEPS, FaultyBroker, FullBroker
from sample_trail import Op, write_trail
from trailgate.jobs.retries import Retries
from trailgate.messages.publishing import WrittenMessages
from trailgate.publish.commands.follow import follow_trail
from trailgate.publish.job import PublicationSettings, publish_trail
from trailgate.publish.message_origins import MessageOrigins
from trailgate.publish.senders.broker_sink import BatchSize, BrokerSink
from trailgate.publish.senders.sender import OutgoingMessages

TRANSACTIONS = 12
RUNS = 40


def test_a_broker_that_fails_at_any_step_gets_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.jobs.retries.TARGET_PAUSE", 0.0)
    own = chance("faulty brokers")
    transactions = [
        [Op("I", 10 * number + one) for one in range(own.randint(1, 4))]
        for number in range(TRANSACTIONS)
    ]
    trail = write_trail(tmp_path / "ot", [transactions])
    broker = FaultyBroker(own, 0.0)
    opened: list[FaultyBroker] = []

    def faulty_sink(*_: object) -> BrokerSink:
        return BrokerSink(opened[-1], "memory", Retries(60), most=own.choice((1, 2, 5, 1000)))

    monkeypatch.setattr("trailgate.publish.job.broker_sink", faulty_sink)
    opened.append(broker)
    publish_trail(trail, "kafka://memory/topic", "json")
    wanted, faults = broker.messages, set[str]()
    assert len(wanted) == sum(map(len, transactions))

    for _ in range(RUNS):
        opened.append(FaultyBroker(own, own.choice((0.1, 0.3, 0.6))))
        done = publish_trail(trail, "kafka://memory/topic", "json")
        again = publish_trail(trail, "kafka://memory/topic", "json")
        assert opened[-1].messages == wanted
        assert (done.messages, again.messages) == (len(wanted), 0)
        faults |= opened[-1].faults

    assert faults == set(STEPS)


def test_a_broker_with_little_room_gets_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch that never fits is sent in smaller ones, in order, and what is reported is what was sent."""
    monkeypatch.setattr("trailgate.jobs.retries.TARGET_PAUSE", 0.0)
    own = chance("full brokers")
    transactions = [
        [Op("I", 10 * number + one) for one in range(own.randint(1, 4))]
        for number in range(10 * TRANSACTIONS)
    ]
    trail = write_trail(tmp_path / "ot", [transactions[:50], transactions[50:]])
    wanted = [op.key for transaction in transactions for op in transaction]

    for _ in range(RUNS):
        broker = FullBroker(own, own.choice((0.0, 0.1, 0.3)), 4, own.choice((4, 20, 200)))
        sink = BrokerSink(broker, "memory", Retries(60), most=own.choice((2, 50, 1000)))
        monkeypatch.setattr("trailgate.publish.job.broker_sink", lambda *_, sink=sink: sink)
        done = publish_trail(trail, "kafka://memory/topic", "json")
        assert [json.loads(one)["after"]["ID"] for one in broker.messages] == wanted
        assert (done.messages, done.operations) == (len(wanted), len(wanted))
        assert done.transactions == len(transactions)
        assert sum(done.counts["MY.ORDERS"].values()) == len(wanted)
    assert "publishing in smaller batches" in caplog.text


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 10_000))
def test_batches_grow_again_after_a_refusal(taken: list[bool], most: int) -> None:
    size = BatchSize(most)
    for is_taken in taken:
        tried = size.messages
        assert 1 <= tried <= most
        if is_taken:
            size.note_taken()
            assert size.messages >= tried
        else:
            size.note_refused(tried)
            assert size.messages == 1
    for _ in range(300):
        size.note_taken()
    assert size.messages == most


class WaitingBroker(FaultyBroker):
    """A broker in memory that takes messages only while ``takes`` is set."""

    def __init__(self) -> None:
        super().__init__(Random(0), 0.0)
        self.takes = Event()
        self.takes.set()

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        assert self.takes.wait(60)
        super().send(parts, state)


def one_message(body: bytes) -> OutgoingMessages:
    zero = np.zeros(1, np.int64)
    origins = MessageOrigins(
        positions=pa.array(["0" * 20]),
        tables=pa.array(["MY.ORDERS"]),
        op_types=np.array([ord("I")], np.uint8),
        times=zero,
        numbers=zero,
        marks=zero.astype(bool),
    )
    return OutgoingMessages(WrittenMessages(pa.array([body], pa.large_binary()), zero), origins)


def test_messages_are_written_while_a_batch_is_sent() -> None:
    broker = WaitingBroker()
    sink = BrokerSink(broker, "memory", Retries(60), most=1)
    state = sink.begin("trail", {}, None)
    broker.takes.clear()
    sink.append(one_message(b"1"))
    sink.commit(replace(state, messages=1))
    sink.append(one_message(b"2"))
    assert broker.messages == []
    broker.takes.set()
    sink.commit(replace(state, messages=2))
    sink.close()

    assert broker.messages == [b"1", b"2"]
    assert broker.stored is not None
    assert json.loads(broker.stored)["messages"] == 2


class CountingBroker(FaultyBroker):
    """A broker in memory that records the number of messages of each batch."""

    def __init__(self) -> None:
        super().__init__(Random(0), 0.0)
        self.batches: list[int] = []

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        self.batches.append(sum(len(part.messages) for part in parts))
        super().send(parts, state)


@pytest.mark.parametrize("chunk", [1_000, 1_000_000])
def test_batches_are_equally_large_however_the_trail_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """Memory is used for the messages of a batch, and not for those of all chunks that it touches."""
    monkeypatch.setattr("trailgate.publish.job.CHUNK_BYTES", chunk)
    monkeypatch.setattr("trailgate.publish.senders.broker_sink.BATCH_SECONDS", 600.0)
    broker = CountingBroker()
    sink = BrokerSink(broker, "memory", Retries(60), most=10)
    monkeypatch.setattr("trailgate.publish.job.broker_sink", lambda *_: sink)
    trail = write_trail(tmp_path / "ot", [[[Op("I", number)] for number in range(95)]])
    publish_trail(trail, "kafka://memory/topic", "json")

    assert [count for count in broker.batches if count] == [10] * 9 + [5]


def test_a_followed_trail_is_read_with_the_given_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = write_trail(tmp_path / "ot", [[[Op("I", 1)], [Op("I", 2)]]])
    definitions = str(Path(f"{trail}.def").rename(tmp_path / "tables.def"))
    brokers = [FaultyBroker(chance("definitions"), 0.0) for _ in range(2)]
    opened = iter(brokers)

    @contextmanager
    def stop_after_a_look() -> Iterator[Callable[[], bool]]:
        looks = iter([False])
        yield lambda: next(looks, True)

    monkeypatch.setattr(
        "trailgate.publish.job.broker_sink",
        lambda *_: BrokerSink(next(opened), "memory", Retries(60)),
    )
    monkeypatch.setattr("trailgate.publish.commands.follow.catch_stop_signals", stop_after_a_look)
    to, settings = "kafka://memory/topic", PublicationSettings(format="json")
    publish_trail(trail, to, "json", definitions=definitions)
    follow_trail(str(trail), to, settings, definitions, as_json=True)

    assert len(brokers[0].messages) == 2
    assert brokers[1].messages == brokers[0].messages
