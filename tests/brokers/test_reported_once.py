"""A run that cannot connect gives the reason once, with what to try where a port may be one without TLS."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from brokers.live_place import LivePlace
from brokers.receivers import PATIENCE
from sample_trail import Op, write_trail
from trailgate.errors import BrokerError
from trailgate.publish.job import publish_trail

# What a port without TLS sends, and the alert with which one with TLS answers anything else.
PLAIN: Final = b"ERROR\nmessage:no\n\n\0"
ALERT: Final = bytes.fromhex("15030300020250")


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Return a port that answers the first bytes of each connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(100)
                    taken.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def lines_of(folder: Path, address: str) -> list[str]:
    """Return what a run until the queue is empty logs."""
    with closing(LivePlace(folder)) as place:
        process = place.start("--from", address, "--until-empty", output=subprocess.DEVNULL)
        assert process.wait(PATIENCE) == 1
        return place.log.read_text().splitlines()


amqp = pytest.mark.skipif(find_spec("proton") is None, reason="AMQP needs the extra amqp")
kafka = pytest.mark.skipif(
    find_spec("confluent_kafka") is None, reason="Kafka needs the extra kafka"
)


@pytest.mark.parametrize("scheme", ["stomp", pytest.param("amqp", marks=amqp)])
def test_the_reason_for_which_a_port_is_refused_is_given_once(tmp_path: Path, scheme: str) -> None:
    lines = lines_of(tmp_path, f"{scheme}://127.0.0.1:1/q?patience=2")

    assert sum("refused" in line for line in lines) == 1
    assert lines[-1].startswith("error: the broker cannot be reached")
    assert len(lines) == 2  # that it is tried again, and the error


@kafka
@pytest.mark.parametrize("scheme", ["kafka", "kafka+ssl"])
def test_the_reason_for_which_kafka_is_not_reached_is_given_once(
    tmp_path: Path, scheme: str
) -> None:
    (line,) = lines_of(tmp_path, f"{scheme}://127.0.0.1:1/q?patience=2")

    assert line.startswith("error: the broker cannot be reached: ")
    assert line.count("refused") == 1


@pytest.mark.parametrize(
    ("secure", "plain"), [("stomp+ssl", "stomp"), pytest.param("amqps", "amqp", marks=amqp)]
)
def test_tls_to_a_port_without_it_is_reported(tmp_path: Path, secure: str, plain: str) -> None:
    with answering(PLAIN) as port:
        (line,) = lines_of(tmp_path, f"{secure}://127.0.0.1:{port}/q?patience=2")

    assert "no encrypted connection" in line
    assert line.endswith(f"The port may not use TLS: try {plain}://")


@kafka
@pytest.mark.parametrize(
    ("scheme", "answer", "text", "hint"),
    [
        ("kafka+ssl", PLAIN, "wrong version number", "The port may not use TLS: try kafka://"),
        (
            "kafka+ssl",
            b"",
            "(?:PLAINTEXT broker listener|SSL_HANDSHAKE).*",  # librdkafka has two texts
            "The port may not use TLS: try kafka://",
        ),
        ("kafka", ALERT, "closes the connection", "The port may use TLS: try kafka+ssl://"),
        ("kafka", b"", "closes the connection", "The port may use TLS: try kafka+ssl://"),
    ],
)
def test_kafka_on_a_port_with_tls_or_without_is_reported_once(
    tmp_path: Path, scheme: str, answer: bytes, text: str, hint: str
) -> None:
    """Kafka's own ports close such a connection, or answer it by an alert."""
    with answering(answer) as port:
        (line,) = lines_of(tmp_path, f"{scheme}://127.0.0.1:{port}/q?patience=2")
        trail = write_trail(tmp_path / "aa", [[[Op("I", 1)]]])
        with pytest.raises(BrokerError) as sent:
            publish_trail(trail, f"{scheme}://127.0.0.1:{port}/q?patience=2", "json")

    assert len(re.findall(text, line)) == 1
    assert line.endswith(hint)
    assert re.search(text, str(sent.value))
    assert str(sent.value).endswith(hint)
