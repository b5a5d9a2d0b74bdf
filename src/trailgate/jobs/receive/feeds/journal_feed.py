"""Messages of a queue or topic: stored in the journal, then acknowledged, then captured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from trailgate.brokers.address import BrokerAddress
from trailgate.brokers.receiver import Receiver, Window
from trailgate.errors import BrokerError, BrokerRefusedError, Where
from trailgate.jobs.receive.feeds.feed import Link, Part
from trailgate.messages.capture import MessageBatch
from trailgate.messages.parsing.header_columns import HeaderColumns
from trailgate.messages.received import as_messages
from trailgate.storage.files.journal.journal import Journal, JournalOptions, Stored

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
            raise error.located(source=self._address) from error
        self._receiver.acknowledge(window)
        return self._part(stored, len(window.messages) - len(stored.messages))

    @property
    def link(self) -> Link:
        """Return how the connection is; see ``Feed``."""
        return Link(self._receiver.is_connected, self._receiver.connections)

    def lag(self, number: int) -> int:
        """Return how many messages of the journal are not in the trail; see ``Feed``."""
        return self._journal.next - number

    def captured(self, number: int) -> None:
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
