"""Message ids by ``jms.id`` from a real Artemis: what JMS clients send, what is sent twice, and what has no id."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from brokers.artemis import LOGIN, Artemis
from brokers.live_place import LivePlace, row
from brokers.receivers import PATIENCE
from brokers.stomp_sender import Sender

QUEUE = {"destination-type": "ANYCAST"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LivePlace]:
    with closing(LivePlace(tmp_path)) as made:
        yield made


def with_ids(place: LivePlace, jms_id: str) -> None:
    text = place.properties.read_text().replace("delim.seqid=*seqid", "delim.seqid=$jmsid")
    place.properties.write_text(text + f"jms.id={jms_id}\n")


def sent(broker: Artemis, queue: str, *pairs: tuple[str, int]) -> None:
    """Send operations with an id of the sender's own."""
    sender = Sender(broker.stomp, queue, LOGIN, **QUEUE)
    for own, number in pairs:
        sender.send([row(number, "W")], GG_ID=own)
    sender.close()


def test_messages_that_a_sender_repeats_are_captured_once_and_counted(
    artemis: Artemis, place: LivePlace
) -> None:
    with_ids(place, "ogg")
    address = artemis.address("twice")
    sent(artemis, "twice", ("01", 1), ("02", 2), ("02", 2))
    first = place.run("--from", address)
    sent(artemis, "twice", ("01", 1), ("02", 2), ("03", 3))
    second = place.run("--from", address)

    assert place.captured() == [(1, "W"), (2, "W"), (3, "W")]
    assert [sum(report["duplicates"] for report in run) for run in (first, second)] == [1, 2]


def test_an_id_of_another_length_stops_the_run_and_both_are_named(
    artemis: Artemis, place: LivePlace
) -> None:
    with_ids(place, "GG_ID")
    sent(artemis, "longer", ("9", 9), ("10", 10))
    process = place.start("--from", artemis.address("longer"))

    assert process.wait(PATIENCE) == 1
    assert "the message id 10 has 2 characters, but 9 before it has 1" in place.log.read_text()
    assert place.captured() == [(9, "W")]


@pytest.mark.parametrize("mode", ["stop", "quarantine"])
def test_without_the_jms_id_that_is_needed_nothing_is_taken_from_the_broker(
    artemis: Artemis, place: LivePlace, mode: str
) -> None:
    queue = f"without.{mode}"
    with_ids(place, "JMSMessageID")
    artemis.produce(queue, [row(1, "W")])
    process = place.start("--from", artemis.address(queue), "--on-error", mode)

    assert process.wait(PATIENCE) == 1
    assert "without JMSMessageID, which jms.id or $jmsid needs" in place.log.read_text()
    assert "amqp://" in place.log.read_text()
    pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    place.run("--from", artemis.address(queue, "amqp"))
    assert place.captured() == [(1, "W")]
    assert place.column("csn")[0].startswith("ID:")


@pytest.mark.parametrize("scheme", ["amqp", "stomp"])
def test_messages_with_one_id_and_other_bodies_are_captured_or_refused(
    artemis: Artemis, place: LivePlace, scheme: str
) -> None:
    pytest.importorskip("proton", reason="AMQP needs the extra amqp")
    from proton import Message  # noqa: PLC0415  an extra

    from brokers.amqp_sender import send_messages  # noqa: PLC0415  as above

    queue, wanted = f"one.id.{scheme}", [(number, "W") for number in range(10)]
    strings = [Message(row(*one), id="ID:one", durable=True) for one in wanted]
    send_messages(artemis.amqp, LOGIN, queue, strings)
    process = place.start("--from", artemis.address(queue, scheme), output=subprocess.DEVNULL)

    if scheme == "stomp":  # by which Artemis gives ids of its own
        assert process.wait(PATIENCE) == 0
    else:
        assert process.wait(PATIENCE) == 1
        assert (
            "the message id ID:one was received before with a different body"
            in place.log.read_text()
        )
        place.run("--from", artemis.address(queue, "stomp"))
    assert place.captured() == wanted
