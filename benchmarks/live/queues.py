"""From a full queue of a real Artemis to the trail, beside a bare consumer that only acknowledges."""

from __future__ import annotations

import importlib.util
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

from benchmarks.live.places import body, captured, cpu_of, fill
from benchmarks.report import Figure, Target

from brokers.artemis import LOGIN, Artemis
from brokers.live_place import LivePlace
from trailgate.live.brokers.stomp.frames import encode_frame

MESSAGES: Final = {1: 80_000, 100: 24_000}  # by operations of one message
BY_AMQP: Final = 16_000
QUICK: Final = 4
ROUNDS: Final = 3
TARGET: Final = Target(0.7)
ROOM: Final = 1 << 18
AHEAD: Final = str(8 << 20)
AMQP_AHEAD: Final = 1000


def figures(broker: Artemis, place: LivePlace, *, quick: bool) -> Iterator[Figure]:
    """Yield messages and megabytes a second, and the CPU that each message takes, by STOMP and by AMQP."""
    for operations, most in MESSAGES.items():
        count = most // QUICK if quick else most
        text = body(operations)
        runs = _Runs(broker, place, f"stomp{operations}x", count)
        runs.take("stomp", lambda queue, text=text, count=count: fill(broker, queue, text, count))  # type: ignore[misc]
        yield from runs.figures(operations, len(text))
    if importlib.util.find_spec("proton") is not None:
        count = BY_AMQP // QUICK if quick else BY_AMQP
        runs = _Runs(broker, place, "amqp1x", count)
        runs.take("amqp", lambda queue: _fill_by_amqp(broker, queue, count))
        yield from runs.amqp_figures()


class _Runs:
    """Measures the capture and the bare consumer in turn; the first of each compiles, and warms the broker up."""

    def __init__(self, broker: Artemis, place: LivePlace, name: str, count: int) -> None:
        self.broker, self.place, self.name, self.count = broker, place, name, count
        self.own: list[float] = []
        self.bare: list[float] = []
        self.cpu: list[float] = []
        self.broker_cpu: list[float] = []
        self.bare_cpu: list[float] = []

    def take(self, scheme: str, filled: Callable[[str], None]) -> None:
        consumer = {"stomp": bare_stomp, "amqp": _bare_amqp}[scheme]
        for turn in range(ROUNDS + 1):
            queue = f"{self.name}{turn}"
            filled(queue)
            address = self.broker.address(queue, scheme)
            before, of_broker = time.process_time(), cpu_of(self.broker.process)
            own = captured(address, self.place, queue, self.count)
            spent = time.process_time() - before, cpu_of(self.broker.process) - of_broker
            filled(f"{queue}bare")
            before = time.process_time()
            bare = consumer(self.broker, f"{queue}bare", self.count)
            of_bare = time.process_time() - before
            if turn:
                self.own.append(own)
                self.bare.append(bare)
                self.cpu.append(spent[0])
                self.broker_cpu.append(spent[1])
                self.bare_cpu.append(of_bare)

    def figures(self, operations: int, size: int) -> Iterator[Figure]:
        name = f"a queue of messages of {operations} operation{'s' * (operations > 1)} to the trail"
        beside, thousands = "a consumer that only acknowledges", self.count / 1000
        own, bare = min(self.own), min(self.bare)
        yield Figure(
            name=name,
            figure=thousands / own,
            unit="k messages/s",
            yardstick=beside,
            yardstick_figure=thousands / bare,
            target=TARGET,
        )
        megabytes = self.count * size / 1e6
        yield Figure(name, megabytes / own, "MB/s", beside, megabytes / bare)
        a_message = 1e6 / self.count
        cpu, other = min(self.cpu) * a_message, min(self.broker_cpu) * a_message
        yield Figure(f"{name}: CPU", cpu, "µs a message", "that of the broker", other)

    def amqp_figures(self) -> Iterator[Figure]:
        name = "a queue of messages of 1 operation to the trail, by AMQP"
        beside, thousands = "a proton consumer that only accepts", self.count / 1000
        own, bare = thousands / min(self.own), thousands / min(self.bare)
        yield Figure(
            name=name,
            figure=own,
            unit="k messages/s",
            yardstick=beside,
            yardstick_figure=bare,
            target=TARGET,
        )
        own, bare = min(self.cpu) * 1000 / thousands, min(self.bare_cpu) * 1000 / thousands
        yield Figure(f"{name}: CPU", own, "µs a message", beside, bare)


def bare_stomp(broker: Artemis, queue: str, count: int) -> float:
    """Return the seconds of the fastest consumer that we know: it finds no frames, and acknowledges the last one of each read."""
    with socket.create_connection(("127.0.0.1", broker.stomp)) as opened_socket:
        started = time.perf_counter()
        subscribe(opened_socket, queue)
        seen = 0
        rest = b""
        while seen < count:
            data = rest + opened_socket.recv(ROOM)
            whole = data.rfind(b"\0") + 1
            rest = data[whole:]
            seen += acknowledge(opened_socket, data[:whole])
        opened_socket.sendall(encode_frame("DISCONNECT", {"receipt": "bye"}))
        while b"RECEIPT" not in opened_socket.recv(ROOM):
            pass
        return time.perf_counter() - started


def subscribe(to: socket.socket, queue: str) -> None:
    """Log in, and ask for a queue."""
    connect = {"accept-version": "1.2", "host": "x", "login": LOGIN[0], "passcode": LOGIN[1]}
    to.sendall(encode_frame("CONNECT", connect))
    assert b"CONNECTED" in to.recv(ROOM)
    headers = {"id": "0", "destination": queue, "ack": "client"}
    headers |= {"subscription-type": "ANYCAST", "consumer-window-size": AHEAD}
    to.sendall(encode_frame("SUBSCRIBE", headers))


def acknowledge(to: socket.socket, frames: bytes) -> int:
    """Acknowledge the last message of some frames; return how many there are."""
    found = frames.count(b"\nack:")
    if found:
        begin = frames.rfind(b"\nack:") + 5
        name = frames[begin : frames.index(b"\n", begin)].decode()
        to.sendall(encode_frame("ACK", {"id": name}))
    return found


def _fill_by_amqp(broker: Artemis, queue: str, count: int) -> None:
    from brokers.amqp_sender import send  # noqa: PLC0415  an extra

    send(broker.amqp, LOGIN, queue, [body(1)] * count)


def _bare_amqp(broker: Artemis, queue: str, count: int) -> float:
    """Return the seconds of a consumer of the library that accepts what has come, and looks at nothing."""
    from proton import Delivery  # noqa: PLC0415  an extra
    from proton.utils import BlockingConnection  # noqa: PLC0415  an extra

    started = time.perf_counter()
    user, password = LOGIN
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{broker.amqp}", 30, user=user, password=password, allowed_mechs="PLAIN"
    )
    receiver = connection.create_receiver(
        queue, credit=AMQP_AHEAD
    )  # closes the link when it is dropped
    fetcher = receiver.fetcher
    seen = 0
    while seen < count:
        connection.wait(lambda: fetcher.has_message)
        while fetcher.has_message:
            _, delivery = fetcher.incoming.popleft()
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
            seen += 1
    connection.close()
    return time.perf_counter() - started
