"""The STOMP receiver on a real Artemis: what arrives, what is acknowledged, what comes again."""

from __future__ import annotations

import time

import pytest

from brokers.artemis import LOGIN, Artemis
from brokers.receivers import PATIENCE, check_second_consumer_is_noted, opened
from brokers.stomp_sender import Sender
from trailgate.errors import BrokerRefusedError, OptionError
from trailgate.live.brokers.receiver import MessageWindow, Receiver

QUEUE = {"destination-type": "ANYCAST"}
# Whoever comes within some milliseconds after another consumer gets later messages first (seen; docs/brokers.md).
MOMENT = 1.0
TOPIC = {"destination-type": "MULTICAST"}


def sent(broker: Artemis, queue: str, bodies: list[str | bytes], **headers: str) -> None:
    sender = Sender(broker.stomp, queue, LOGIN, **QUEUE)
    sender.send(bodies, **headers)
    sender.close()


def received(receiver: Receiver, count: int, seconds: float = PATIENCE) -> list[MessageWindow]:
    """Return windows until so many messages have come."""
    windows: list[MessageWindow] = []
    until = time.monotonic() + seconds
    while sum(len(window.messages) for window in windows) < count:
        assert time.monotonic() < until, f"{windows} of {count} messages"
        window = receiver.receive(0.5)
        if window is not None:
            windows.append(window)
    return windows


def bodies(windows: list[MessageWindow]) -> list[str]:
    return [body.decode() for window in windows for body in window.messages["body"].to_pylist()]


def ids(windows: list[MessageWindow]) -> list[str]:
    return [one for window in windows for one in window.messages["id"].to_pylist()]


def test_the_headers_of_a_jms_client_arrive_by_their_jms_names(artemis: Artemis) -> None:
    artemis.produce("headers", ["text ä 😀"], TxInd="B", Path="a:b\\c")
    with opened(artemis.address("headers")) as receiver:
        (window,) = received(receiver, 1)
        receiver.acknowledge(window)
        assert receiver.settle(PATIENCE)

    message = window.messages.to_pylist()[0]
    headers = dict(message["headers"])
    assert message["body"].decode() == "text ä 😀"
    assert message["fault"] is None
    assert headers["TxInd"] == "B"
    assert headers["Path"] == "a:b\\c"
    assert headers["JMSDeliveryMode"] == "2"
    assert headers["JMSRedelivered"] == "false"
    assert headers["JMSPriority"] == "4"
    assert headers["JMSExpiration"] == "0"
    assert headers["JMSDestination"] == "headers"
    assert abs(int(headers["JMSTimestamp"]) / 1000 - time.time()) < 300
    assert not any(name.startswith(("_AMQ", "__", "message-id")) for name in headers)


def test_unacknowledged_messages_are_redelivered_with_the_same_ids(artemis: Artemis) -> None:
    strings: list[str | bytes] = [f"number {i}" for i in range(5000)]
    sent(artemis, "again", strings)
    with opened(artemis.address("again", window=100)) as receiver:
        first = received(receiver, 1000)
        for window in first[:5]:
            receiver.acknowledge(window)
        assert receiver.settle(PATIENCE)
    time.sleep(MOMENT)
    with opened(artemis.address("again")) as receiver:
        second = received(receiver, 5000 - len(bodies(first[:5])))
        receiver.acknowledge(second[-1])
        assert receiver.settle(PATIENCE)

    assert bodies(first[:5]) + bodies(second) == strings
    again = ids(second)
    assert ids(first[5:10]) == again[: len(ids(first[5:10]))]
    assert None not in again
    assert len(set(again)) == len(again)
    with opened(artemis.address("again")) as receiver:
        assert receiver.receive(1) is None


def test_a_connection_that_is_lost_is_made_again(artemis: Artemis) -> None:
    sent(artemis, "restart", ["one", "two"])
    with opened(artemis.address("restart")) as receiver:
        before = received(receiver, 2)
        artemis.process.kill()
        artemis.process.start()
        receiver.acknowledge(
            before[-1]
        )  # of a connection that is gone: the broker gives its messages again
        assert receiver.settle(PATIENCE)
        after = received(receiver, 2)
        receiver.acknowledge(after[-1])
        assert receiver.settle(PATIENCE)

    assert bodies(after) == ["one", "two"]
    assert ids(after) == ids(before)


def test_only_what_the_selector_matches_is_received(artemis: Artemis) -> None:
    sent(artemis, "chosen", ["no"], Kind="a")
    sent(artemis, "chosen", ["yes"], Kind="b")
    with opened(artemis.address("chosen", selector="Kind%20=%20'b'")) as receiver:
        assert bodies(received(receiver, 1)) == ["yes"]


def test_a_durable_subscription_gets_what_came_while_nobody_listened(artemis: Artemis) -> None:
    address = artemis.address("topic/prices", durable="mine", client_id="stomp")
    with opened(address) as receiver:
        assert receiver.receive(0.2) is None
    sender = Sender(artemis.stomp, "prices", LOGIN, **TOPIC)
    sender.send(["first", "second"])
    sender.close()
    with opened(address) as receiver:
        assert bodies(received(receiver, 2)) == ["first", "second"]


def test_long_messages_bytes_and_empty_ones(artemis: Artemis) -> None:
    long = "x" * 3_000_000
    sent(artemis, "kinds", [long, b"\0\n\xff\0", ""])
    with opened(artemis.address("kinds")) as receiver:
        windows = received(receiver, 3, 60)

    found = [message for window in windows for message in window.messages.to_pylist()]
    assert [message["body"] for message in found] == [long.encode(), b"\0\n\xff\0", b""]
    assert [message["fault"] is None for message in found] == [True, True, False]


def test_a_wrong_login_is_refused_at_once(artemis: Artemis) -> None:
    address = artemis.address("q").replace(LOGIN[0] + ":", "nobody:")
    with opened(address) as receiver, pytest.raises(BrokerRefusedError, match="login"):
        receiver.receive(5)


def test_an_option_that_the_broker_does_not_have_is_refused(artemis: Artemis) -> None:
    with opened(artemis.address("q", prefetch=7)) as receiver, pytest.raises(OptionError):
        receiver.receive(5)
    with (
        opened(artemis.address("q", selector="=")) as receiver,
        pytest.raises(BrokerRefusedError, match="subscription"),
    ):
        receiver.receive(5)


def test_a_second_consumer_of_the_queue_is_noted_by_both(artemis: Artemis) -> None:
    check_second_consumer_is_noted(artemis.address("two"))
