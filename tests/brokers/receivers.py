"""Receivers in tests: opened and closed, and what several brokers do alike."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trailgate.live.brokers.address import parse_address
from trailgate.live.brokers.receiver import MessageWindow, Receiver
from trailgate.live.jobs.feed import make_receiver

PATIENCE = 240.0  # seconds that a busy machine may take


@contextmanager
def opened(address: str) -> Iterator[Receiver]:
    """Yield the receiver of an address, by STOMP or AMQP."""
    receiver = make_receiver(parse_address(address))
    try:
        yield receiver
    finally:
        receiver.close()


def received(receiver: Receiver, count: int, seconds: float = PATIENCE) -> list[dict[str, Any]]:
    """Return messages until so many have come; all are acknowledged."""
    found: list[dict[str, Any]] = []
    until = time.monotonic() + seconds
    while len(found) < count:
        assert time.monotonic() < until, found
        window: MessageWindow | None = receiver.receive(0.5)
        if window is not None:
            found += window.messages.to_pylist()
            receiver.acknowledge(window)
    assert receiver.settle(PATIENCE)
    return found


def received_again(
    address: str, window: str, count: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the messages of a first window, the only one that is acknowledged, and what comes after a second start."""
    with opened(window) as receiver:
        first = receiver.receive(PATIENCE)
        assert first is not None
        receiver.acknowledge(first)
        assert receiver.settle(PATIENCE)
    time.sleep(1)
    with opened(address) as receiver:
        return first.messages.to_pylist(), received(receiver, count - len(first.messages))


class LoggedTexts(logging.Handler):
    """Collects the texts that the log of brokers gets, each once.

    ``caplog`` has each twice after an earlier test of the process has run a command that prints this log: pytest then adds
    its handler to this logger and to the root, and the texts reach both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def count(self, text: str) -> int:
        """Count the texts that contain ``text``."""
        return sum(text in one for one in self.texts)


@contextmanager
def logged() -> Iterator[LoggedTexts]:
    """Yield the texts that the log of brokers gets from now on, from level INFO."""
    log, found = logging.getLogger("trailgate.brokers"), LoggedTexts()
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(found)
    try:
        yield found
    finally:
        log.removeHandler(found)
        log.setLevel(level)


def check_second_consumer_is_noted(address: str) -> None:
    """Check that both consumers of the queue "two" note that there are two."""
    with opened(address) as first, logged() as log:
        assert first.receive(0.5) is None
        time.sleep(1)
        assert not log.count("consumers")  # its own is none other
        with opened(address) as second:
            until = time.monotonic() + PATIENCE
            while log.count("two has 2 consumers") < 2 and time.monotonic() < until:
                second.receive(0.1)

    assert log.count("two has 2 consumers") == 2
