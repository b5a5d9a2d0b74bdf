"""A subscription that fails for the moment is tried again; one that the broker refuses is not."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress
from typing import BinaryIO

import pytest

from trailgate.errors import BrokerRefusedError
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.stomp.consumers import ConsumerWatch
from trailgate.live.brokers.stomp.receiver import StompReceiver

CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:ActiveMQ/5.18.3\n\n\0"
ARTEMIS = b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:ActiveMQ-Artemis/2.44.0\n\n\0"
UNKNOWN = b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:Another/1\n\n\0"
MESSAGE = b"MESSAGE\nmessage-id:0,1\nsubscription:0\ndestination:q\ntimestamp:1\nack:a\n\nbody\0"
SUBSCRIBED = b"RECEIPT\nreceipt-id:subscribed\n\n\0" + MESSAGE
TOO_SLOW = b"ERROR\nmessage:AMQ229014: Did not receive data within the 2000ms connection TTL\n\n\0"
REFUSED = b"ERROR\nmessage:AMQ229213: User: x does not have permission='CONSUME'\n\n\0"


class Broker:
    """Answers to each connection's subscription by the next answer, and closes the connection unless it is the last one."""

    def __init__(self, *answers: bytes) -> None:
        self._answers = answers
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            for answer in self._answers:
                opened, _ = self._listening.accept()
                with opened:
                    opened.recv(4096)
                    opened.sendall(CONNECTED)
                    opened.recv(4096)
                    opened.sendall(answer)
                    if answer is SUBSCRIBED:
                        opened.recv(4096)

    def close(self) -> None:
        self._thread.join(240)
        self._listening.close()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trailgate.jobs.retries.BROKER_PAUSE", 0.01)
    monkeypatch.setattr("trailgate.jobs.retries.FACTOR", 1.0)


def receiver(broker: Broker) -> StompReceiver:
    return StompReceiver(parse_address(f"stomp://127.0.0.1:{broker.port}/q"))


def test_a_connection_that_ends_while_it_subscribes_is_made_again() -> None:
    with closing(Broker(b"", TOO_SLOW, SUBSCRIBED)) as broker, closing(receiver(broker)) as own:
        window = own.receive(20)

    assert window is not None
    assert window.messages["body"].to_pylist() == [b"body"]


def test_a_subscription_that_the_broker_refuses_is_an_error() -> None:
    with (
        closing(Broker(REFUSED)) as broker,
        closing(receiver(broker)) as own,
        pytest.raises(BrokerRefusedError, match="does not have permission"),
    ):
        own.receive(20)


def test_a_broker_that_does_not_report_consumers_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trailgate.live.brokers.stomp.consumers.RETRY_SECONDS", 0.01)
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(1)
        watch = ConsumerWatch(parse_address(f"stomp://127.0.0.1:{listening.getsockname()[1]}/q"))
        with suppress(TimeoutError):
            while True:
                opened, _ = listening.accept()
                with opened:
                    asked.append(opened.recv(4096))
                    opened.sendall(UNKNOWN)
                    opened.recv(4096)
        watch.close()

    assert len(asked) == 1


class AskedBroker:
    """Artemis as it answers questions about a queue: by ``replies``, and by the last one again."""

    def __init__(self, *replies: bytes) -> None:
        self._replies = list(replies)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                opened, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(opened,), daemon=True).start()

    def _answer(self, opened: socket.socket) -> None:
        with opened, opened.makefile("rb") as frames, suppress(OSError):
            while frame := read_frame(frames):
                if frame.startswith(b"CONNECT"):
                    opened.sendall(ARTEMIS)
                elif b"receipt:subscribed" in frame:
                    opened.sendall(SUBSCRIBED)
                elif (at := frame.find(b"receipt:")) >= 0:
                    own = frame[at:].split(b"\n")[0].removeprefix(b"receipt:")
                    opened.sendall(b"RECEIPT\nreceipt-id:" + own + b"\n\n\0")
                elif b"deliveringCount" in frame or b"consumerCount" in frame:
                    one = len(self._replies) == 1
                    opened.sendall(self._replies[0] if one else self._replies.pop(0))

    def close(self) -> None:
        self._listening.close()


def read_frame(frames: BinaryIO) -> bytes:
    """Return the bytes of the next frame, or none at the end."""
    found = bytearray()
    while (byte := frames.read(1)) and byte != b"\0":
        found += byte
    return bytes(found)


def reply(text: str) -> bytes:
    return f"MESSAGE\nmessage-id:1,2\nsubscription:x\ndestination:y\n\n{text}\0".encode()


NONE, ONE, THREE = (reply(f"[{number}]") for number in (0, 1, 3))
MISSING = reply('["Problem while retrieving attribute consumerCount"]')
FORBIDDEN = b"ERROR\nmessage:AMQ229032: User: x does not have permission='MANAGE'\n\n\0"


@pytest.mark.parametrize(
    "replies",
    [
        pytest.param((ONE, THREE, ONE, ONE, NONE, NONE), id="the broker notices a lost consumer"),
        pytest.param((NONE,), id="nothing is held"),
        pytest.param((NONE, THREE, NONE, ONE, NONE), id="messages are put back soon"),
        pytest.param((ONE, THREE), id="another consumer holds messages"),
        pytest.param((MISSING,), id="there is no queue yet"),
        pytest.param((FORBIDDEN,), id="the user may not ask"),
    ],
)
def test_messages_are_received_when_no_lost_connection_holds_any(
    replies: tuple[bytes, ...],
) -> None:
    with closing(AskedBroker(*replies)) as broker:
        own = StompReceiver(parse_address(f"stomp://127.0.0.1:{broker.port}/q"))
        with closing(own):
            window = own.receive(20)

    assert window is not None
    assert window.messages["body"].to_pylist() == [b"body"]


def test_a_message_that_a_lost_connection_holds_for_ever_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trailgate.live.brokers.stomp.consumers.RETURN_SECONDS", 0.5)
    with closing(AskedBroker(*(NONE, ONE) * 100)) as broker:
        own = StompReceiver(parse_address(f"stomp://127.0.0.1:{broker.port}/q"))
        with (
            closing(own),
            pytest.raises(BrokerRefusedError, match="queue q has 1 message") as error,
        ):
            own.receive(20)

    assert "Start the broker again" in error.value.hint
