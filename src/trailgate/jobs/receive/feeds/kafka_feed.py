"""Messages of one partition of a Kafka topic: offsets are their numbers, and the broker keeps them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.backoff import PATIENCE
from trailgate.brokers.kafka.receiver import KafkaReceiver
from trailgate.errors import BrokerError
from trailgate.jobs.receive.feeds.feed import Link, Part
from trailgate.messages.capture import MessageBatch
from trailgate.messages.received import as_messages

EARLIER_SECONDS: Final = 5.0


class KafkaFeed:
    """Gives a partition, whose receiver is connected, from an offset on; see ``Feed``. Generated ids are made of offsets."""

    def __init__(
        self, address: BrokerAddress, receiver: KafkaReceiver, *, lasting: bool = True
    ) -> None:
        self._address, self._receiver = address, receiver
        self._patience = math.inf if lasting else address.number("patience", PATIENCE)
        self._silent: float | None = None  # since when the broker does not answer
        self._high = self._end = 0
        self.is_replayed = False

    @property
    def name(self) -> str:
        """Return topic and partition."""
        return f"kafka topic {self._address.destination}, partition {self._receiver.partition}"

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield what the broker still has from before an offset; see ``Feed``."""
        begin = max(self._receiver.bounds()[0], number - count)
        if begin >= number:
            return
        self._receiver.open(begin)
        while self._receiver.next < number:
            part = self.receive(EARLIER_SECONDS)
            if part is None:  # what is there are not messages
                return
            yield part.messages.slice(0, int(np.searchsorted(part.numbers, number)))

    def open(self, number: int | None) -> None:
        """Begin at an offset; see ``Feed``."""
        self._receiver.open(number)
        self._high = self._end = self._receiver.bounds()[1]
        self.is_replayed = False

    @property
    def is_connected(self) -> bool:
        """Return whether the broker answers, and has nothing more; raises BrokerError where it does not for too long."""
        try:
            has_more = self._receiver.next < self._receiver.bounds()[1]
        except BrokerError as error:
            self._silent = self._silent or time.monotonic()
            if time.monotonic() - self._silent > self._patience:
                raise error.located(source=str(self._address)) from error
            return False
        self._silent = None
        return not has_more

    def receive(self, seconds: float) -> Part | None:
        """Return the next messages; see ``Feed``."""
        self.is_replayed = self.is_replayed or self._receiver.next >= self._high
        window = self._receiver.receive(seconds)
        if window is None:
            return None
        self._end = self._receiver.known_end()
        numbers = window.token
        zeros = np.zeros(len(numbers), np.int64)
        messages, problems = as_messages(window.messages, (numbers, zeros), str(self._address))
        return Part(messages, problems, numbers, int(numbers[-1]) + 1)

    @property
    def link(self) -> Link:
        """Return how the connection is; see ``Feed``."""
        return Link(self._receiver.is_reached, self._receiver.connections)

    def lag(self, number: int) -> int:
        """Return how many messages the partition has from an offset on, as far as is known; see ``Feed``."""
        return max(0, self._end - number)

    def captured(self, number: int) -> None:
        """Do nothing: the broker keeps messages as long as it is set to."""

    def close(self) -> None:
        """Let go of the broker."""
        self._receiver.close()
