"""Addresses of queues and topics: what they mean, and what is refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from trailgate.errors import OptionError
from trailgate.live.brokers.address import (
    OPTIONS,
    PROTOCOLS,
    BrokerAddress,
    Direction,
    is_address,
    parse_address,
)


def test_a_queue_is_named_by_the_path() -> None:
    address = parse_address("stomp://broker.local/orders.in")

    assert address == BrokerAddress("stomp", "broker.local", 61613, "orders.in")


def test_a_topic_user_password_and_options_are_read() -> None:
    text = "STOMP+SSL://jo%40x:p%2Fw@[::1]:7/topic/prices/eu?durable=a%20b&client-id=c&prefetch=7"
    address = parse_address(text)

    assert (address.host, address.port, address.tls) == ("::1", 7, True)
    assert (address.kind, address.destination) == ("topic", "prices/eu")
    assert (address.user, address.password) == ("jo@x", "p/w")
    assert dict(address.options) == {"durable": "a b", "client-id": "c", "prefetch": "7"}
    assert address.number("prefetch", 1) == 7
    assert address.number("window", 9) == 9


def test_the_login_of_the_properties_counts_where_the_address_has_none() -> None:
    assert parse_address("stomp://h/q", "u", "p").user == "u"
    assert parse_address("stomp://own:x@h/q", "u", "p").password == "x"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_has_a_port(name: str) -> None:
    address = parse_address(f"{name}://h/q")

    assert address.port == PROTOCOLS[name].port
    assert address.tls == PROTOCOLS[name].tls


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tcp://h:61616/q", "Supported protocols: stomp://"),
        ("kakfa://h/q", "Did you mean kafka?"),
        ("q", "cannot be received from q"),
        ("stomp:q", "cannot be received"),
        ("stomp:///q", "names no host"),
        ("stomp://h", "names no queue or topic"),
        ("stomp://h/topic/", "names no queue or topic"),
        ("stomp://h:port/q", "is not an address"),
        ("stomp://h/q?selektor=x", "Did you mean selector?"),
        ("kafka://h/q?selector=a", "the option selector, which kafka does not support"),
        ("kafka://h/q?patience=1&patience=2", "has the option patience twice. Set it once"),
        ("stomp://h/q?prefetch=0", "not a number of 1 or more"),
        ("stomp://h/q?durable=a&client-id=b", "a durable subscription needs a topic"),
        ("amqp://h/topic/t?durable=a", "a durable subscription needs a topic"),
    ],
)
def test_what_is_not_an_address_is_refused(text: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem.replace("?", r"\?")):
        parse_address(text)


def test_a_value_that_an_option_does_not_have_is_refused() -> None:
    with pytest.raises(OptionError, match="message-key is 'base64', not text or hex"):
        parse_address("kafka://h/t?message-key=base64")


def test_a_misspelled_broker_is_not_taken_for_a_folder() -> None:
    brokers = [*PROTOCOLS, "kakfa", "stmop", "Amqp", "kafka+sll"]
    others = ["s3", "s3a", "gs", "abfs", "abfss", "hdfs", "file", "http", "https"]

    assert all(is_address(f"{name}://h/q") for name in brokers)
    assert not any(is_address(f"{name}://h/q") for name in others)
    assert not any(map(is_address, ["kafka", "kafka/q", "out/kafka:x", ""]))


# What a receiver and a sender do not share, and why: all other options are for both.
RECEIVED = {
    "selector",  # what a consumer is interested in
    "durable",  # a subscription
    *("prefetch", "prefetch-bytes", "window"),  # how far ahead it reads
    "id-header",  # ids of received messages
    "partition",  # a sender uses all
    "compacted",  # a sender deletes nothing
    "message-key",  # a sender's keys are text
}
SENT = {"create", "compression", "tombstones"}


@pytest.mark.parametrize("direction", Direction)
def test_a_sender_takes_the_options_of_a_receiver(direction: Direction) -> None:
    others = {Direction.RECEIVED: SENT, Direction.SENT: RECEIVED}[direction]
    for name, row in OPTIONS.items():
        for protocol, known in PROTOCOLS.items():
            value = row.choices[0] if row.choices else "1"
            text = f"{protocol}://h/topic/q?{name}={value}" + "&client-id=c" * (name == "durable")
            if known.family in row.families and name not in others:
                assert parse_address(text, direction=direction).options[name] == value
            else:
                with pytest.raises(OptionError, match=f"the option {name}"):
                    parse_address(text, direction=direction)


def test_a_password_is_never_shown() -> None:
    address = parse_address("stomp://jo:secret@h/q")

    assert "secret" not in repr(address) + str(address)
    for text in ("stomp://jo:secret@h", "tcp://jo:secret@h/q", "stomp://jo:secret@h/q?x=1"):
        with pytest.raises(OptionError) as raised:
            parse_address(text)
        assert "secret" not in str(raised.value)
        assert "***@h" in str(raised.value)


def test_an_address_survives_pickling() -> None:
    address = parse_address("stomp://jo:secret@h/q?selector=a")

    assert pickle.loads(pickle.dumps(address)) == address


def test_every_option_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/live.md").read_text()

    assert [name for name in (*OPTIONS, *PROTOCOLS) if f"`{name}`" not in page] == []
