"""A STOMP message whose header has an undefined escape is a bad message; what cannot be read at all ends a run that does not last."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from stomp_broker import StompBroker, message
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.errors import BrokerError, BrokerRefusedError
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.stomp.receiver import StompReceiver

GIVEN: Final = ("--properties", "dirprm/shop.properties", "--to", "dirdat/ot")
FAULT: Final = r"the header x has the escape \z, which STOMP 1.2 does not have"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailgate.jobs.retries.BROKER_PAUSE", 0.01)
    monkeypatch.setattr("trailgate.jobs.retries.FACTOR", 1.0)


@pytest.fixture
def bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sample's messages."""
    unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    return [file.read_text() for file in sorted(Path("messages").iterdir())]


@pytest.mark.parametrize("line", [r"x:q\z", "x:q\\", r"x:\c\z"])
def test_only_the_message_with_the_escape_is_bad(
    bodies: list[str], capsys: pytest.CaptureFixture[str], line: str
) -> None:
    lines = [(line,) if number == 2 else () for number in range(len(bodies))]
    frames = [message(number, body, *lines[number]) for number, body in enumerate(bodies)]
    with closing(StompBroker(frames)) as broker:
        given = ["--from", broker.address, *GIVEN, "--on-error", "quarantine", "--json"]
        assert run(["capture", *given]) == 0

    total = json.loads(capsys.readouterr().out.splitlines()[-1])["total"]
    assert (total["messages"], total["quarantined"]) == (len(bodies), 1)
    assert broker.acknowledged == len(bodies)
    (bad,) = map(json.loads, Path("dirdat/ot.quarantine.jsonl").read_text().splitlines())
    assert "has the escape \\" in json.dumps(bad).replace("\\\\", "\\")


def test_the_messages_before_it_are_captured_and_acknowledged(
    bodies: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    frames = [message(0, bodies[0]), message(1, bodies[1], r"x:q\z")]
    with closing(StompBroker(frames)) as broker:
        assert run(["capture", "--from", broker.address, *GIVEN]) == 1

    shown = capsys.readouterr().err
    assert FAULT in shown
    assert broker.place in shown
    assert broker.acknowledged >= 1
    assert broker.consumers == 1
    assert Path("dirdat/ot000000000").exists()


def test_a_message_that_cannot_be_acknowledged_is_named() -> None:
    frame = message(0, "body").replace(b"ack:0", b"ack:0\\z")
    with closing(StompBroker([frame])) as broker:
        receiver = StompReceiver(parse_address(broker.address), lasting=False)
        with closing(receiver), pytest.raises(BrokerRefusedError) as raised:
            receiver.receive(20)

    assert r"the ack header of the message m-0 has the escape \z" in str(raised.value)
    assert broker.place in str(raised.value)
    assert "amqp://" in raised.value.hint


UNREADABLE: Final = {
    "no colon": b"MESSAGE\nno colon\n\nbody\0",
    "a length that is none": b"MESSAGE\ncontent-length:x\n\nbody\0",
    "another frame": b"CONNECTED\nversion:1.2\n\n\0",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_run_that_does_not_last_ends_if_it_can_read_nothing(name: str) -> None:
    """The broker accepts each new connection, and sends the same again."""
    with closing(StompBroker([UNREADABLE[name]], pause=0.2)) as broker:
        # After three missing heart-beats the broker no longer has the lost consumer's messages.
        address = parse_address(f"{broker.address}&heart-beat=1")
        receiver = StompReceiver(address, lasting=False)
        with closing(receiver), pytest.raises(BrokerError) as raised:
            receiver.receive(20)

    assert receiver.connections > 1
    assert broker.place in str(raised.value)
