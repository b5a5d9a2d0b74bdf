"""The broker that the adapter's own connection properties name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import OptionError
from trailgate.live.brokers.address import PROTOCOLS
from trailgate.live.jobs.source import DESTINATION, PASSWORD, URL, USER, broker_address

LOGIN = {USER: "me", PASSWORD: "a word:@/"}


def named(url: str, destination: str, **more: str) -> str:
    address = broker_address((), {URL: url, DESTINATION: destination, **LOGIN, **more})
    assert address is not None
    return str(address)


@pytest.mark.parametrize(
    ("url", "destination", "address"),
    [
        ("stomp://broker", "sampleQ", "stomp://broker:61613/sampleQ"),
        ("stomp://broker/", "dynamicQueues/sample.Q", "stomp://broker:61613/sample.Q"),
        ("amqp://broker:5673", "queue://sampleQ", "amqp://broker:5673/sampleQ"),
        ("amqps://broker?ca=/ca.pem", "jms/sampleQ", "amqps://broker:5671/jms/sampleQ"),
        ("STOMP+SSL://broker", "dynamicTopics/prices", "stomp+ssl://broker:61614/topic/prices"),
        ("kafka://broker:9", "topic/prices", "kafka://broker:9/topic/prices"),
    ],
)
def test_a_url_and_a_name_are_an_address(url: str, destination: str, address: str) -> None:
    assert named(url, destination) == address


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=20))
def test_a_destination_may_have_any_name(name: str) -> None:
    address = broker_address((), {URL: "stomp://broker?window=7", DESTINATION: f"queue/{name}"})

    assert address is not None
    assert (address.destination, dict(address.options)) == (name, {"window": "7"})


def test_user_and_password_are_those_of_the_properties_where_the_address_has_none() -> None:
    properties = {URL: "stomp://broker", DESTINATION: "q", **LOGIN}
    address = broker_address((), properties)
    other = broker_address((), {**properties, URL: "stomp://you:yours@broker"})
    given_one = broker_address(("stomp://broker/other",), properties)

    assert address is not None
    assert other is not None
    assert given_one is not None
    assert (address.user, address.password) == ("me", "a word:@/")
    assert (other.user, other.password) == ("you", "yours")
    assert (given_one.destination, given_one.user) == ("other", "me")


@pytest.mark.parametrize(
    "url",
    [
        "t3://localhost:7001",
        "tcp://broker:61616",
        "failover:(tcp://a:61616,tcp://b:61616)",
        "ldap://directory/cn=jms",
        "file:///opt/bindings",
        "localhost:7001",
        "stomp",
        "",
    ],
)
def test_a_url_that_cannot_be_spoken_names_those_that_can(url: str) -> None:
    with pytest.raises(OptionError) as raised:
        named(url, "sampleQ")

    assert (url or "an empty address") in raised.value.problem
    assert raised.value.where.field == URL
    assert all(f"{name}://" in raised.value.hint for name in PROTOCOLS)


def test_a_url_needs_a_host_and_a_destination() -> None:
    with pytest.raises(OptionError, match="names no host"):
        named("stomp://", "sampleQ")
    with pytest.raises(OptionError, match=r"jms\.destination is required"):
        broker_address((), {URL: "stomp://broker"})
    with pytest.raises(OptionError, match="no source of messages is named"):
        broker_address((), {DESTINATION: "sampleQ"})


def test_files_are_read_where_they_are_named() -> None:
    assert broker_address(("messages",), {URL: "t3://localhost:7001"}) is None
