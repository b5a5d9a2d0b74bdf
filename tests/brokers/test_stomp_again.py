"""A subscription that fails for the moment is tried again; one that the broker refuses is not."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress

import pytest

from trailgate.errors import BrokerRefusedError
from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.stomp.connection import ConsumerWatch
from trailgate.live.brokers.stomp.receiver import StompReceiver

CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:0,0\nserver:ActiveMQ-Artemis/2.44.0\n\n\0"
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
    monkeypatch.setattr("trailgate.jobs.backoff.FIRST", 0.01)
    monkeypatch.setattr("trailgate.jobs.backoff.FACTOR", 1.0)


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
    monkeypatch.setattr("trailgate.live.brokers.stomp.connection.RETRY_SECONDS", 0.01)
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
