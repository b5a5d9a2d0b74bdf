"""A process that sends at a steady rate, each message with the time at which it is sent."""

from __future__ import annotations

import time
from typing import Final

import benchmarks.live.places  # noqa: F401  it finds what tests share

from brokers.artemis import LOGIN
from brokers.stomp_sender import Sender

RATE: Final = 1000  # messages a second
TURN: Final = 10**10  # microseconds: what a message has room for
TICK: Final = 0.005


def send(port: int, queue: str, count: int) -> None:
    """Send messages at the rate."""
    sender = Sender(port, queue, LOGIN, **{"destination-type": "ANYCAST"})
    begun, sent = time.perf_counter(), 0
    while sent < count:
        due = min(count, int((time.perf_counter() - begun) * RATE))
        now = time.time_ns() // 1000 % TURN
        sender.send([f"I,MY.ORDERS,2026-01-01,W,0,{now:010}"] * (due - sent))
        sent = due
        time.sleep(TICK)
