"""A broker that fails at any step of any batch: each message is sent once, and what a run reports was sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from laws import chance
from memory_broker import STEPS, FaultyBroker
from sample_trail import Op, write_trail
from trailgate.jobs.retries import Retries
from trailgate.publish.job import publish_trail
from trailgate.publish.senders.broker import BrokerSink

TRANSACTIONS = 12
RUNS = 40


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
