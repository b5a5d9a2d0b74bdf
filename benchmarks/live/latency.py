"""How long a message takes from its sender to readers of the trail, at a steady rate."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import benchmarks.live.places  # noqa: F401  finds the brokers
import numpy as np
from benchmarks.live.places import following
from benchmarks.live.queues import ROOM, acknowledge, subscribe
from benchmarks.live.sending import RATE, TURN
from benchmarks.report import Figure

from brokers.artemis import Artemis
from brokers.kafka import Kafka
from brokers.live_place import LivePlace
from trailgate.arrays import Longs
from trailgate.storage.reading import splits as notices
from trailgate.storage.reading.trails import read_trail

SECONDS: Final = 20
QUICK_SECONDS: Final = 5
WARM: Final = 3000  # messages that do not count: loops are compiled or loaded meanwhile
ROOT: Final = Path(__file__).parents[2]
NAME: Final = re.compile(rb"W,0,(\d{10})")


def figures(
    scheme: str, broker: Artemis | Kafka, place: LivePlace, *, quick: bool
) -> Iterator[Figure]:
    """Yield the median and the 99th percentile, by STOMP or from Kafka."""
    count = RATE * (QUICK_SECONDS if quick else SECONDS)
    way = WAYS[scheme](broker)
    own = np.divide(_through_the_trail(way, place, count), 1000)
    bare = np.divide(_through_the_broker(way, count), 1000)
    for name, percentile in (("median", 50), ("99th percentile", 99)):
        yield Figure(
            f"from sending by {scheme} to reading in the trail at {RATE:,} messages/s, {name}",
            float(np.percentile(own, percentile)),
            "ms",
            "to a consumer that only receives",
            float(np.percentile(bare, percentile)),
        )


class StompWay:
    """Messages through a queue of Artemis."""

    name = "stomp"

    def __init__(self, broker: Any) -> None:
        self.port, self._broker = broker.stomp, broker

    def address(self, queue: str) -> str:
        """Return the address of a queue."""
        return str(self._broker.address(queue))

    @contextmanager
    def consumer(self, queue: str) -> Iterator[Receiving]:
        """Yield what receives the bytes of some messages, and acknowledges them."""
        with socket.create_connection(("127.0.0.1", self.port)) as opened:
            subscribe(opened, queue)
            rest = b""

            def receive() -> bytes:
                nonlocal rest
                data = rest + opened.recv(ROOM)
                whole = data.rfind(b"\0") + 1
                data, rest = data[:whole], data[whole:]
                acknowledge(opened, data)
                return data

            yield receive


class KafkaWay:
    """Messages through a topic of Kafka."""

    name = "kafka"

    def __init__(self, broker: Any) -> None:
        self.port, self._broker = broker.port, broker

    def address(self, topic: str) -> str:
        """Create a topic, and return its address."""
        self._broker.create(topic)
        return str(self._broker.address(topic))

    @contextmanager
    def consumer(self, topic: str) -> Iterator[Receiving]:
        """Yield what receives the values of some messages."""
        from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415  an extra

        servers = {"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": "bare"}
        consumer = Consumer(servers)
        consumer.assign([TopicPartition(topic, 0, 0)])
        # consume(n) waits for n messages
        yield lambda: b"\n".join(
            one.value() for one in [*consumer.consume(1, 1.0), *consumer.consume(1000, 0)]
        )
        consumer.close()


Receiving = Callable[[], bytes]
Way = StompWay | KafkaWay
WAYS: Final[Mapping[str, Callable[[Any], Way]]] = {"stomp": StompWay, "kafka": KafkaWay}


def _through_the_trail(way: Way, place: LivePlace, count: int) -> Longs:
    notices.LOG.setLevel(logging.ERROR)  # that a record is still being written is what is expected
    reader = _Reader(place)
    with following(place, way.address("latency")):
        for messages in (WARM, count):
            with _sending(way, "latency", messages):
                found = reader.read(messages)
    return found


class _Reader:
    """Asks a trail for the next operations again and again."""

    def __init__(self, place: LivePlace) -> None:
        self._place = place
        self._after: str | None = None

    def read(self, count: int) -> Longs:
        """Return the latencies of so many operations, in microseconds."""
        found: list[Longs] = []
        seen = 0
        while seen < count:
            time.sleep(0.001)
            if not Path(f"{self._place.prefix}000000000").exists():
                continue
            for batch in read_trail(self._place.prefix, after=self._after, threads=1):
                now = time.time_ns() // 1000
                sent = [int(dict(values)["NAME"]) for values in batch["after"].to_pylist()]
                found.append((now - np.array(sent, np.int64)) % TURN)
                self._after, seen = batch["position"][-1].as_py(), seen + len(sent)
        return np.concatenate(found)


def _through_the_broker(way: Way, count: int) -> Longs:
    way.address("bare")
    with way.consumer("bare") as receive:
        for messages in (WARM, count):
            with _sending(way, "bare", messages):
                found = _received(receive, messages)
    return found


def _received(receive: Receiving, count: int) -> Longs:
    """Return the latencies of so many messages, in microseconds."""
    found: list[Longs] = []
    seen = 0
    while seen < count:
        data = receive()
        now = time.time_ns() // 1000
        sent = np.array([int(one) for one in NAME.findall(data)], np.int64)
        found.append((now - sent) % TURN)
        seen += len(sent)
    return np.concatenate(found)


@contextmanager
def _sending(way: Way, queue: str, count: int) -> Iterator[None]:
    """Have a process of its own send."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.live.sending_process",
        way.name,
        str(way.port),
        queue,
        str(count),
    ]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        yield
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
