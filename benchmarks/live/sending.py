"""A process that sends at a steady rate, each message with the time at which it is sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import benchmarks.live.places  # noqa: F401  it finds what tests share

from brokers.artemis import LOGIN
from brokers.stomp_sender import Sender

RATE: Final = 1000  # messages a second
TURN: Final = 10**10  # microseconds: what a message has room for
TICK: Final = 0.005
Sending = Callable[[Sequence[str]], None]


def send(scheme: str, port: int, queue: str, count: int) -> None:
    """Send messages at the rate, by STOMP or to Kafka."""
    send_at_once = {"stomp": _by_stomp, "kafka": _to_kafka}[scheme](port, queue)
    begun, sent = time.perf_counter(), 0
    while sent < count:
        due = min(count, int((time.perf_counter() - begun) * RATE))
        now = time.time_ns() // 1000 % TURN
        send_at_once([f"I,MY.ORDERS,2026-01-01,W,0,{now:010}"] * (due - sent))
        sent = due
        time.sleep(TICK)


def _by_stomp(port: int, queue: str) -> Sending:
    return Sender(port, queue, LOGIN, **{"destination-type": "ANYCAST"}).send


def _to_kafka(port: int, topic: str) -> Sending:
    from confluent_kafka import Producer  # noqa: PLC0415  an extra

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{port}", "linger.ms": 0})

    def send_at_once(bodies: Sequence[str]) -> None:
        for body in bodies:
            producer.produce(topic, body)
        producer.flush()

    return send_at_once
