"""A run that cannot connect gives the reason once, with what to try where a port may be one without TLS."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from brokers.live_place import LivePlace
from brokers.receivers import PATIENCE


@pytest.fixture
def plain_port() -> Iterator[int]:
    """Return a port at which something answers in a protocol without TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                with taken:
                    taken.recv(100)
                    taken.sendall(b"ERROR\nmessage:no\n\n\0")

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


@pytest.mark.parametrize("scheme", ["stomp", pytest.param("amqp", marks=amqp)])
def test_the_reason_for_which_a_port_is_refused_is_given_once(tmp_path: Path, scheme: str) -> None:
    lines = lines_of(tmp_path, f"{scheme}://127.0.0.1:1/q?patience=2")

    assert sum("refused" in line for line in lines) == 1
    assert lines[-1].startswith("error: the broker cannot be reached")
    assert len(lines) == 2  # that it is tried again, and the error


@pytest.mark.parametrize(
    ("secure", "plain"), [("stomp+ssl", "stomp"), pytest.param("amqps", "amqp", marks=amqp)]
)
def test_tls_to_a_port_without_it_is_reported(
    tmp_path: Path, plain_port: int, secure: str, plain: str
) -> None:
    (line,) = lines_of(tmp_path, f"{secure}://127.0.0.1:{plain_port}/q?patience=2")

    assert "no encrypted connection" in line
    assert line.endswith(f"The port may not use TLS: try {plain}://")
