"""The AMQP receiver on a real Artemis: headers in the JMS meaning, kinds of bodies, subscriptions, refusals."""

from __future__ import annotations

import time
from typing import Any

import pytest

from brokers.artemis import LOGIN, Artemis
from brokers.cut_connection import Proxy
from brokers.receivers import PATIENCE, opened, received, received_again
from trailgate.errors import BrokerRefusedError

proton = pytest.importorskip("proton", reason="AMQP needs the extra amqp")


def send(broker: Artemis, target: str, *messages: Any, kind: str = "queue") -> None:
    from brokers.amqp_sender import send_messages  # noqa: PLC0415  an extra

    send_messages(broker.amqp, LOGIN, target, messages, kind)


def test_the_headers_of_a_jms_client_arrive_by_their_jms_names(artemis: Artemis) -> None:
    artemis.produce("amqp.headers", ["text ä 😀"], TxInd="B")
    with opened(artemis.address("amqp.headers", "amqp")) as receiver:
        (message,) = received(receiver, 1)

    headers = dict(message["headers"])
    assert message["body"].decode() == "text ä 😀"
    assert headers["TxInd"] == "B"
    assert headers["JMSMessageID"] == message["id"]
    assert (headers["JMSDeliveryMode"], headers["JMSRedelivered"]) == ("2", "false")
    assert (headers["JMSPriority"], headers["JMSXDeliveryCount"]) == ("4", "1")
    assert abs(int(headers["JMSTimestamp"]) / 1000 - time.time()) < 300


def test_typed_properties_and_kinds_of_bodies(artemis: Artemis) -> None:
    properties = {
        "flag": True,
        "count": proton.int32(-7),
        "rate": proton.float32(0.1),
        "none": None,
        "text": "",
    }
    send(
        artemis,
        "amqp.kinds",
        proton.Message("text", id="1", properties=properties, subject="T", group_id="g"),
        proton.Message(b"\xff\0", id="2", durable=False),
        proton.Message({"a": 1}, id="3"),
        proton.Message(id="4"),
    )
    with opened(artemis.address("amqp.kinds", "amqp")) as receiver:
        text, raw, mapped, empty = received(receiver, 4)

    headers = dict(text["headers"])
    assert (text["body"], raw["body"]) == (b"text", b"\xff\0")
    assert [one["fault"] is None for one in (text, raw, mapped, empty)] == [
        True,
        True,
        False,
        False,
    ]
    assert (headers["flag"], headers["count"], headers["text"]) == ("true", "-7", "")
    assert (headers["JMSType"], headers["JMSXGroupID"]) == ("T", "g")
    assert headers["rate"] == "0.1"
    assert "none" not in headers
    assert [one["id"] for one in (text, raw, mapped, empty)] == ["1", "2", "3", "4"]


def test_unacknowledged_messages_are_redelivered_with_the_same_ids(artemis: Artemis) -> None:
    strings = [f"number {i}" for i in range(300)]
    send(artemis, "amqp.again", *(proton.Message(text, id=text, durable=True) for text in strings))
    windowed = artemis.address("amqp.again", "amqp", window=50)

    first, rest = received_again(artemis.address("amqp.again", "amqp"), windowed, 300)

    assert [one["body"].decode() for one in first] + [one["id"] for one in rest] == strings


def test_only_what_the_selector_matches_is_received(artemis: Artemis) -> None:
    send(artemis, "amqp.chosen", *(proton.Message(k, id=k, properties={"Kind": k}) for k in "ab"))
    address = artemis.address("amqp.chosen", "amqp", selector="Kind%20=%20'b'")
    with opened(address) as receiver:
        assert [one["body"] for one in received(receiver, 1)] == [b"b"]


def test_a_durable_subscription_gets_what_came_while_nobody_listened(artemis: Artemis) -> None:
    address = artemis.address("topic/amqp.prices", "amqp", durable="mine", client_id="amqp")
    with opened(address) as receiver:
        assert receiver.receive(0.5) is None
    send(artemis, "amqp.prices", proton.Message("x", id="x"), kind="topic")
    with opened(address) as receiver:
        assert [one["body"] for one in received(receiver, 1)] == [b"x"]


def test_a_wrong_login_is_refused_at_once(artemis: Artemis) -> None:
    address = artemis.address("q", "amqp").replace(LOGIN[0] + ":", "nobody:")
    with opened(address) as receiver, pytest.raises(BrokerRefusedError):
        receiver.receive(5)


def test_messages_keep_their_order_over_a_connection_that_goes_silent(artemis: Artemis) -> None:
    proxy = Proxy(artemis.amqp)
    send(artemis, "silent", *(proton.Message(f"{n}", id=f"{n}", durable=True) for n in range(2000)))
    address = artemis.address("silent", "amqp", heart_beat=1, window=100)
    found: dict[str, int] = {}
    until = time.monotonic() + PATIENCE
    with opened(address.replace(f":{artemis.amqp}/", f":{proxy.port}/")) as receiver:
        while len(found) < 2000:
            assert time.monotonic() < until, len(found)
            window = receiver.receive(0.5)
            if window is None:
                continue
            for one in window.messages.to_pylist():
                found.setdefault(one["id"], int(one["body"]))
            if 300 <= len(found) < 400:
                proxy.silence()
            receiver.acknowledge(window)
    proxy.close()

    assert list(found.values()) == [*range(2000)]
