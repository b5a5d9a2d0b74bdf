"""The feeds of a live capture, and which protocol has which: a row of ``ROWS``.

Messages of a queue or topic are stored in the journal, then acknowledged, then captured. Those of a partition of a Kafka topic need no journal: offsets are their
numbers, and the broker keeps them.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from trailgate.brokers.address import BrokerAddress, Family
from trailgate.brokers.kafka import KafkaReceiver
from trailgate.brokers.receiver import Receiver, Window
from trailgate.errors import BrokerError, BrokerRefusedError, OptionError, Where
from trailgate.jobs.receive.feed import Feed, Link, Part
from trailgate.messages.messages import HeaderColumns, MessageBatch, as_messages
from trailgate.storage.live.journal import Journal, JournalOptions, Stored

SETTLE_SECONDS: Final = 5.0
NO_ID: Final = (
    "Artemis gives the JMS message ids of most messages by AMQP only: receive from amqp://HOST/QUEUE, or let jms.id name a header "
    "that the sender sets. The messages are still with the broker"
)


class JournalFeed:
    """Messages of a queue or topic: stored in the journal, then acknowledged, then given.

    ``needed`` is a header that every message must have: what lacks it stays with the broker, and BrokerRefusedError is raised.
    """

    name = "journal"

    def __init__(
        self,
        address: BrokerAddress,
        receiver: Receiver,
        folder: Path,
        options: JournalOptions,
        needed: str | None = None,
    ) -> None:
        self._address, self._receiver = str(address), receiver
        self._needed = needed
        self._journal = Journal(folder, options)
        self._stored: Iterator[Stored] = iter(())
        self.is_replayed = False

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield what the journal still has from before a message; see ``Feed``."""
        begin = max(self._journal.first, number - count)
        if begin < number:
            for stored in self._journal.read(begin):
                if stored.number >= number:
                    return
                part = self._part(stored, 0)
                yield part.messages.slice(0, min(len(part), number - stored.number))

    def open(self, number: int | None) -> None:
        """Begin with what the journal has from a message on; see ``Feed``."""
        self._stored = self._journal.read(number or 0)

    @property
    def is_connected(self) -> bool:
        """Return whether there is a connection to the broker."""
        return self._receiver.is_connected

    def receive(self, seconds: float) -> Part | None:
        """Return what the journal has, then what arrives; see ``Feed``."""
        if not self.is_replayed:
            stored = next(self._stored, None)
            if stored is not None:
                return self._part(stored, 0)
            self.is_replayed = True
        window = self._receiver.receive(seconds)
        if window is None:
            return None
        self._check(window)
        try:
            stored = self._journal.append(window.messages)
        except BrokerError as error:
            raise error.with_place(source=self._address) from error
        self._receiver.acknowledge(window)
        return self._part(stored, len(window.messages) - len(stored.messages))

    @property
    def link(self) -> Link:
        """Return how the connection is; see ``Feed``."""
        return Link(self._receiver.is_connected, self._receiver.connections)

    def lag(self, number: int) -> int:
        """Return how many messages of the journal are not in the trail; see ``Feed``."""
        return self._journal.next - number

    def mark_captured(self, number: int) -> None:
        """Remove what the trail has from the journal; see ``Feed``."""
        self._journal.release(number)

    def close(self) -> None:
        """Wait until the acknowledgements are confirmed, and disconnect; see ``Feed``."""
        try:
            if self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        finally:
            self._journal.close()

    def _check(self, window: Window) -> None:
        """Raise BrokerRefusedError where a message lacks the header that is needed."""
        if self._needed is None:
            return
        if HeaderColumns(window.messages["headers"]).values(self._needed).null_count:
            problem = f"messages come without {self._needed}, which jms.id or $jmsid needs"
            raise BrokerRefusedError(problem, where=Where(source=self._address), hint=NO_ID)

    def _part(self, stored: Stored, repeated: int) -> Part:
        numbers = np.arange(stored.number, stored.end)
        offsets = stored.offsets if len(stored.messages) else numbers
        messages, problems = as_messages(stored.messages, (stored.segment, offsets), self._address)
        return Part(messages, problems, numbers, stored.end, repeated)


EARLIER_SECONDS: Final = 5.0


class KafkaFeed:
    """Gives a partition, whose receiver is connected, from an offset on; see ``Feed``. Generated ids are made of offsets."""

    def __init__(self, address: BrokerAddress, receiver: KafkaReceiver) -> None:
        self._address, self._receiver = address, receiver
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
            if time.monotonic() - self._silent > self._receiver.silence:
                raise error.with_place(source=str(self._address)) from error
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

    def mark_captured(self, number: int) -> None:
        """Do nothing: the broker keeps messages as long as it is set to."""

    def close(self) -> None:
        """Let go of the broker."""
        self._receiver.close()


class Row(NamedTuple):
    """A protocol: the module and the class of its receiver, which is loaded when it is used, and whether the broker keeps what was read."""

    module: str
    receiver: str
    keeps_messages: bool = False


ROWS: Final[Mapping[Family, Row]] = MappingProxyType(
    {
        Family.STOMP: Row("trailgate.brokers.stomp.receiver", "StompReceiver"),
        Family.AMQP: Row("trailgate.brokers.amqp.receiver", "AmqpReceiver"),
        Family.KAFKA: Row("trailgate.brokers.kafka", "KafkaReceiver", keeps_messages=True),
    }
)


def check_journalled(address: BrokerAddress) -> None:
    """Raise OptionError for a broker that keeps messages which were read: it needs no journal."""
    if ROWS[address.family].keeps_messages:
        problem = f"{address} keeps its messages, and is not received into a journal"
        hint = 'Stream it by Spark\'s own format "kafka" through trailgate.spark.capture, or capture it by trailgate capture'
        raise OptionError(problem, hint=hint)


def receiver_of(address: BrokerAddress, *, lasting: bool = True) -> Any:
    """Return a receiver, which connects when it is first used; raises MissingDependencyError where its protocol is an extra.

    One that is ``lasting`` connects again for as long as it is used.
    """
    row = ROWS[address.family]
    return getattr(importlib.import_module(row.module), row.receiver)(address, lasting=lasting)


def feed_of(
    address: BrokerAddress,
    folder: Path,
    options: JournalOptions,
    needed: str | None = None,
    *,
    lasting: bool = True,
) -> Feed:
    """Return the feed of an address; ``folder`` is that of the journal, where one is needed. See ``JournalFeed``, and ``receiver_of``."""
    receiver = receiver_of(address, lasting=lasting)
    if ROWS[address.family].keeps_messages:
        receiver.connect()
        return KafkaFeed(address, receiver)
    return JournalFeed(address, receiver, folder, options, needed)
