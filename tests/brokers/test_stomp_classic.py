"""The STOMP receiver on a real ActiveMQ Classic: what it reports of other consumers."""

from __future__ import annotations

from brokers.classic import LOGIN, Classic
from brokers.receivers import PATIENCE, check_second_consumer_is_noted, opened
from brokers.stomp_sender import Sender


def test_a_second_consumer_of_the_queue_is_noted_by_both(classic: Classic) -> None:
    check_second_consumer_is_noted(classic.address("two"))


def test_a_durable_subscription_gets_what_came_while_nobody_listened(classic: Classic) -> None:
    address = classic.address("topic/stomp.prices") + "?durable=mine&client-id=stomp"
    with opened(address) as receiver:
        assert receiver.receive(0.5) is None
    sender = Sender(classic.stomp, "/topic/stomp.prices", LOGIN)
    sender.send(["later"])
    sender.close()
    with opened(address) as receiver:
        window = receiver.receive(20)
        assert window is not None
        receiver.acknowledge(window)
        assert receiver.settle(PATIENCE)
    assert window.messages["body"].to_pylist() == [b"later"]
