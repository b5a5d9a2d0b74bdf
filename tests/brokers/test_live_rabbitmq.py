"""From a real RabbitMQ to a trail: by AMQP 1.0, and by STOMP where a header has an id that a message keeps."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brokers.live_place import LivePlace, row
from brokers.rabbitmq import LOGIN, RabbitMQ
from brokers.receivers import PATIENCE, received_again
from brokers.stomp_sender import Sender

KEPT = {"id_header": "amqp-message-id"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def sent(broker: RabbitMQ, queue: str, numbers: range) -> None:
    """Send operations with ids of the sender's own, as STOMP's clients of RabbitMQ do."""
    sender = Sender(broker.stomp, f"/queue/{queue}", LOGIN, host="/")
    for number in numbers:
        sender.send([row(number, "W")], **{"amqp-message-id": f"own-{number}"})
    sender.close()


@pytest.mark.parametrize("scheme", ["amqp", "stomp"])
def test_redelivered_messages_have_the_same_ids(rabbitmq: RabbitMQ, scheme: str) -> None:
    if scheme == "amqp":
        pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    options = {} if scheme == "amqp" else {**KEPT, "virtual_host": "%2F"}
    queue = f"again.{scheme}"
    sent(rabbitmq, queue, range(20))
    address = rabbitmq.address(queue, scheme, **options)
    first, rest = received_again(
        address, rabbitmq.address(queue, scheme, window="5", **options), 20
    )

    assert [one["id"] for one in (*first, *rest)] == [f"own-{number}" for number in range(20)]


@pytest.mark.parametrize("scheme", ["amqp", "stomp"])
def test_each_operation_is_captured_once(rabbitmq: RabbitMQ, place: LivePlace, scheme: str) -> None:
    if scheme == "amqp":
        pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    options = {} if scheme == "amqp" else {**KEPT, "virtual_host": "%2F"}
    queue = f"once.{scheme}"
    sent(rabbitmq, queue, range(300))
    place.run("--from", rabbitmq.address(queue, scheme, **options))
    sent(rabbitmq, queue, range(290, 310))  # as after a restart of the sender
    place.run("--from", rabbitmq.address(queue, scheme, **options))

    assert place.captured() == [(number, "W") for number in range(310)]


def test_ids_of_a_session_are_refused(rabbitmq: RabbitMQ, place: LivePlace) -> None:
    address = rabbitmq.address("session", "stomp", virtual_host="%2F")
    process = place.start("--from", address, output=subprocess.DEVNULL)

    assert process.wait(PATIENCE) == 2
    assert "RabbitMQ is not known to keep a message's id" in place.log.read_text()


def test_a_virtual_host_that_is_not_there_is_named(rabbitmq: RabbitMQ, place: LivePlace) -> None:
    address = rabbitmq.address("none", "stomp", virtual_host="none", **KEPT)
    process = place.start("--from", address, output=subprocess.DEVNULL)

    assert process.wait(PATIENCE) == 1
    assert "Virtual host 'none' access denied" in place.log.read_text()
