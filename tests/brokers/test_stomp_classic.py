"""The STOMP receiver on a real ActiveMQ Classic: what it reports of other consumers."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from brokers.classic import Classic
from trailgate.brokers.address import parse_address
from trailgate.brokers.receiver import Receiver
from trailgate.brokers.stomp.receiver import StompReceiver


@contextmanager
def opened(address: str) -> Iterator[Receiver]:
    receiver: Receiver = StompReceiver(parse_address(address))
    try:
        yield receiver
    finally:
        receiver.close()


def test_a_second_consumer_of_the_queue_is_noted_by_both(
    classic: Classic, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("trailgate.brokers").propagate = True
    address = classic.address("two")
    with opened(address) as first, caplog.at_level("INFO", "trailgate.brokers"):
        assert first.receive(0.5) is None
        time.sleep(1)
        assert "consumers" not in caplog.text  # its own is none other
        with opened(address) as second:
            until = time.monotonic() + 20
            while caplog.text.count("two has 2 consumers") < 2 and time.monotonic() < until:
                second.receive(0.1)

    assert caplog.text.count("two has 2 consumers") == 2
