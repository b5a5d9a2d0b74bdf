"""The AMQP receiver on a real ActiveMQ Classic, whose connector has transport.transformer=jms."""

from __future__ import annotations

import pytest

from brokers.classic import LOGIN, Classic
from brokers.receivers import opened, received, received_again
from brokers.stomp_sender import Sender
from trailgate.errors import BrokerRefusedError

proton = pytest.importorskip("proton", reason="AMQP needs the extra amqp")


def test_messages_of_every_protocol_arrive_with_their_jms_ids(classic: Classic) -> None:
    from brokers.amqp_sender import send_messages  # noqa: PLC0415  an extra

    classic.produce("amqp.all", "text ä 😀")
    sender = Sender(classic.stomp, "/queue/amqp.all", LOGIN)
    sender.send(["by STOMP"], JMSTxId="7")
    sender.close()
    own = proton.Message("by AMQP", id="ID:1", durable=True, properties={"JMSTxId": "8"})
    send_messages(classic.amqp, LOGIN, "amqp.all", [own, proton.Message({"a": 1}, id="ID:2")])
    with opened(classic.address("amqp.all", "amqp")) as receiver:
        jms, stomp, amqp, mapped = received(receiver, 4)

    bodies = [one["body"].decode() for one in (jms, stomp, amqp)]
    assert bodies == ["text ä 😀", "by STOMP", "by AMQP"]
    assert mapped["fault"] is not None
    assert all(one["id"] == dict(one["headers"])["JMSMessageID"] for one in (jms, stomp, amqp))
    assert [dict(one["headers"])["JMSTxId"] for one in (stomp, amqp)] == ["7", "8"]
    assert dict(jms["headers"])["JMSDestination"] == "queue://amqp.all"


def test_unacknowledged_messages_are_redelivered_in_order(classic: Classic) -> None:
    strings: list[bytes | str] = [f"number {i}" for i in range(300)]
    sender = Sender(classic.stomp, "/queue/amqp.again", LOGIN)
    sender.send(strings)
    sender.close()
    address = classic.address("amqp.again", "amqp")

    first, rest = received_again(address, f"{address}?window=50", 300)

    assert [one["body"].decode() for one in [*first, *rest]] == strings


def test_a_durable_subscription_gets_what_came_while_nobody_listened(classic: Classic) -> None:
    from brokers.amqp_sender import send_messages  # noqa: PLC0415  an extra

    address = classic.address("topic/prices", "amqp") + "?durable=mine&client-id=amqp"
    with opened(address) as receiver:
        assert receiver.receive(0.5) is None
    later = proton.Message("later", id="ID:9")
    send_messages(classic.amqp, LOGIN, "topic://prices", [later], "topic")
    with opened(address) as receiver:
        assert [one["body"] for one in received(receiver, 1)] == [b"later"]


def test_a_wrong_login_is_refused_at_once(classic: Classic) -> None:
    address = classic.address("q", "amqp").replace(LOGIN[0] + ":", "nobody:")
    with opened(address) as receiver, pytest.raises(BrokerRefusedError):
        receiver.receive(5)
