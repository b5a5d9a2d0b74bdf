"""A broker that fails at any step of any batch: each message is sent once, and what a run reports was sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest

from laws import chance
from sample_trail import Op, write_trail
from trailgate.errors import BrokerError
from trailgate.jobs.retries import Retries
from trailgate.publish.job import publish_trail
from trailgate.publish.senders.broker import BrokerSink
from trailgate.publish.senders.sender import EXACTLY_ONCE, OutgoingMessages

TRANSACTIONS = 12
RUNS = 40
# The steps of a batch at which a broker may fail; after the last one the batch has arrived.
STEPS = ("open", "check", "before sending", "while sending", "after sending")


class FaultyBroker:
    """A sender and the broker that it sends to; it fails at drawn steps, never twice in a row at the same one."""

    guarantee = EXACTLY_ONCE
    tables: Sequence[str] = ()

    def __init__(self, own: Random, share: float) -> None:
        self._own, self._share, self._failed = own, share, ""
        self.stored: str | None = None
        self.messages: list[bytes] = []
        self.faults: set[str] = set()
        self._is_open = False

    def _reach(self, step: str) -> None:
        if step != self._failed and self._own.random() < self._share:
            self._failed = step
            self.faults.add(step)
            self.close()
            raise BrokerError(f"the broker fails: {step}")
        self._failed = ""

    def open(self) -> str | None:
        self._reach("open")
        self._is_open = True
        return self.stored

    def read(self) -> str | None:
        return self.stored

    def remember(self, tables: Iterable[str]) -> None:
        del tables

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        del parts
        self._reach("check")

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        if not self._is_open:
            raise BrokerError("there is no connection")
        self._reach("before sending")
        sent = [body for part in parts for body in part.messages.bodies.to_pylist()]
        self._reach("while sending")
        self.messages += sent
        self.stored = state
        self._reach("after sending")

    def close(self) -> None:
        self._is_open = False


def test_a_broker_that_fails_at_any_step_gets_each_message_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.jobs.retries.FIRST", 0.0)
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
