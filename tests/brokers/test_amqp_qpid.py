"""From a real Qpid Broker-J, by AMQP 1.0: messages with their ids, what is not acknowledged, and each operation once whatever is killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brokers.live_place import LivePlace, messages, transactions
from brokers.qpid import LOGIN, Qpid
from brokers.receivers import opened, received, received_again
from laws import chance
from trailgate.errors import BrokerRefusedError

proton = pytest.importorskip("proton", reason="AMQP needs the extra amqp")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def test_messages_arrive_with_their_ids_and_properties(qpid: Qpid) -> None:
    from brokers.amqp_sender import send_messages  # noqa: PLC0415  an extra

    own = proton.Message("text ä 😀", id="ID:1", durable=True, properties={"JMSTxId": "8"})
    send_messages(qpid.amqp, LOGIN, "all", [own, proton.Message({"a": 1}, id="ID:2", durable=True)])
    with opened(qpid.address("all")) as receiver:
        text, mapped = received(receiver, 2)

    assert (text["body"].decode(), text["id"]) == ("text ä 😀", "ID:1")
    assert dict(text["headers"])["JMSTxId"] == "8"
    assert mapped["fault"] is not None


def test_unacknowledged_messages_are_redelivered_in_order(qpid: Qpid) -> None:
    from brokers.amqp_sender import send  # noqa: PLC0415  an extra

    strings = [f"number {i}" for i in range(300)]
    send(qpid.amqp, LOGIN, "again", strings)
    address = qpid.address("again")

    first, rest = received_again(address, f"{address}?window=50", 300)

    assert [one["body"].decode() for one in [*first, *rest]] == strings


def test_a_wrong_login_is_refused_at_once(qpid: Qpid) -> None:
    address = qpid.address("q").replace(LOGIN[0] + ":", "nobody:")
    with opened(address) as receiver, pytest.raises(BrokerRefusedError):
        receiver.receive(5)


def test_each_operation_is_captured_once_whatever_is_killed(qpid: Qpid, place: LivePlace) -> None:
    from brokers.amqp_sender import send  # noqa: PLC0415  an extra

    drawn = chance("killed qpid")
    wanted = transactions(drawn, 5_000)
    bodies = list(messages(drawn, wanted))
    address = qpid.address("killed")
    process = place.start("--from", address, "--follow")
    half = len(bodies) // 2
    for turn, part in enumerate((bodies[:half], bodies[half:])):
        send(qpid.amqp, LOGIN, "killed", part)
        time.sleep(drawn.uniform(0.0, 2.0))
        if turn:
            qpid.process.kill()
            qpid.process.start()
        else:
            place.kill(process)
            time.sleep(1)
            process = place.start("--from", address, "--follow")
    place.kill(process)
    place.run_until(5_000, "--from", address)

    assert place.captured() == [one for transaction in wanted for one in transaction]
