"""How long a message takes from its sender to readers of the trail, at a steady rate."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import benchmarks.live.places  # noqa: F401  finds the brokers
import numpy as np
from benchmarks.live.places import following
from benchmarks.live.queues import ROOM, acknowledge, subscribe
from benchmarks.live.sending import RATE, TURN
from benchmarks.report import Figure

from brokers.artemis import Artemis
from brokers.live_place import LivePlace
from trailgate.arrays import Longs
from trailgate.storage.reading import splits as notices
from trailgate.storage.reading.trails import read_trail

SECONDS: Final = 20
QUICK_SECONDS: Final = 5
WARM: Final = 3000  # messages that do not count: loops are compiled or loaded meanwhile
ROOT: Final = Path(__file__).parents[2]
NAME: Final = re.compile(rb"W,0,(\d{10})")


def figures(broker: Artemis, place: LivePlace, *, quick: bool) -> Iterator[Figure]:
    """Yield the median and the 99th percentile."""
    count = RATE * (QUICK_SECONDS if quick else SECONDS)
    own = np.divide(_through_the_trail(broker, place, count), 1000)
    bare = np.divide(_through_the_broker(broker, count), 1000)
    for name, percentile in (("median", 50), ("99th percentile", 99)):
        yield Figure(
            f"from sending to reading in the trail at {RATE:,} messages/s, {name}",
            float(np.percentile(own, percentile)),
            "ms",
            "to a consumer that only acknowledges",
            float(np.percentile(bare, percentile)),
        )


def _through_the_trail(broker: Artemis, place: LivePlace, count: int) -> Longs:
    notices.LOG.setLevel(logging.ERROR)  # that a record is still being written is what is expected
    reader = _Reader(place)
    with following(place, broker.address("latency")):
        for messages in (WARM, count):
            with _sending(broker, "latency", messages):
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


def _through_the_broker(broker: Artemis, count: int) -> Longs:
    with socket.create_connection(("127.0.0.1", broker.stomp)) as opened:
        subscribe(opened, "bare")
        for messages in (WARM, count):
            with _sending(broker, "bare", messages):
                found = _received(opened, messages)
    return found


def _received(opened: socket.socket, count: int) -> Longs:
    """Return the latencies of so many messages, in microseconds."""
    found: list[Longs] = []
    seen, rest = 0, b""
    while seen < count:
        data = rest + opened.recv(ROOM)
        now = time.time_ns() // 1000
        whole = data.rfind(b"\0") + 1
        data, rest = data[:whole], data[whole:]
        seen += acknowledge(opened, data)
        sent = np.array([int(one) for one in NAME.findall(data)], np.int64)
        found.append((now - sent) % TURN)
    return np.concatenate(found)


@contextmanager
def _sending(broker: Artemis, queue: str, count: int) -> Iterator[None]:
    """Have a process of its own send."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.live.sending_process",
        str(broker.stomp),
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
