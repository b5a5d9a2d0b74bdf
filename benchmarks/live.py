"""From a full queue of a real Artemis to the trail, beside a bare consumer that only acknowledges."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from _pytest.outcomes import Skipped
from benchmarks.report import Figure, Target

from brokers import artemis
from brokers.live_place import LivePlace, row
from brokers.stomp_sender import Sender
from trailgate.brokers.address import parse_address
from trailgate.brokers.stomp.frames import encode_frame
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.receive.job import opened
from trailgate.jobs.receive.options import ReceiveOptions

MESSAGES: Final = {1: 80_000, 100: 24_000}  # by operations of one message
QUICK: Final = 4
ROUNDS: Final = 3
TARGET: Final = Target(0.7)
ROOM: Final = 1 << 18
AHEAD: Final = str(8 << 20)


def _fill(broker: artemis.Artemis, queue: str, operations: int, count: int) -> None:
    sender = Sender(broker.stomp, queue, artemis.LOGIN, **{"destination-type": "ANYCAST"})
    letters = ["W"] if operations == 1 else ["B", *"M" * (operations - 2), "E"]
    body = "\n".join(row(at, letter) for at, letter in enumerate(letters))
    for _ in range(0, count, 1000):
        sender.send([body] * min(1000, count))
    sender.close()


def _bare(broker: artemis.Artemis, queue: str, count: int) -> float:
    """Return the seconds of the fastest consumer that we know: it finds no frames, and acknowledges the last one of each read."""
    with socket.create_connection(("127.0.0.1", broker.stomp)) as opened_socket:
        login = {"login": artemis.LOGIN[0], "passcode": artemis.LOGIN[1]}
        connect = {"accept-version": "1.2", "host": "x", **login}
        opened_socket.sendall(encode_frame("CONNECT", connect))
        assert b"CONNECTED" in opened_socket.recv(ROOM)
        headers = {"id": "0", "destination": queue, "ack": "client"}
        headers |= {"subscription-type": "ANYCAST", "consumer-window-size": AHEAD}
        started = time.perf_counter()
        opened_socket.sendall(encode_frame("SUBSCRIBE", headers))
        seen = 0
        rest = b""
        while seen < count:
            data = rest + opened_socket.recv(ROOM)
            whole = data.rfind(b"\0") + 1
            rest = data[whole:]
            found = data.count(b"\nack:", 0, whole)
            if found:
                seen += found
                begin = data.rfind(b"\nack:", 0, whole) + 5
                name = data[begin : data.index(b"\n", begin)].decode()
                opened_socket.sendall(encode_frame("ACK", {"id": name}))
        opened_socket.sendall(encode_frame("DISCONNECT", {"receipt": "bye"}))
        while b"RECEIPT" not in opened_socket.recv(ROOM):
            pass
        return time.perf_counter() - started


def _ours(broker: artemis.Artemis, queue: str, place: LivePlace, count: int) -> float:
    """Return the seconds until the last message is in the trail."""
    capture = load_capture(place.properties)
    address = parse_address(broker.address(queue))
    options = ReceiveOptions(until_empty=True)
    started = time.perf_counter()
    seen, last = 0, 0.0
    with opened(capture, address, f"{place.prefix}.{queue}", options) as live:
        for report in live.run():
            seen, last = seen + report.messages, time.perf_counter()
    assert seen == count
    return last - started


def _figures(broker: artemis.Artemis, place: LivePlace, quick: bool) -> Iterator[Figure]:
    for operations, most in MESSAGES.items():
        count = most // QUICK if quick else most
        own: list[float] = []
        bare: list[float] = []
        for turn in range(ROUNDS + 1):
            for measured, seconds in ((own, _ours), (bare, _bare)):
                queue = f"{seconds.__name__[1:]}{operations}x{turn}"
                _fill(broker, queue, operations, count)
                taken = (
                    _ours(broker, queue, place, count)
                    if seconds is _ours
                    else _bare(broker, queue, count)
                )
                if turn:  # the first one compiles, and warms the broker up
                    measured.append(taken)
        name = f"a queue of messages of {operations} operation{'s' * (operations > 1)} to the trail"
        yield Figure(
            name,
            count / min(own) / 1000,
            "k messages/s",
            "a consumer that only acknowledges",
            count / min(bare) / 1000,
            TARGET,
        )


def run(*, quick: bool) -> list[Figure]:
    """Return the figures, nothing where no broker can be had."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            with artemis.running(Path(folder)) as broker:
                return list(_figures(broker, LivePlace(Path(folder)), quick))
        except Skipped as reason:
            print(reason)
            return []
