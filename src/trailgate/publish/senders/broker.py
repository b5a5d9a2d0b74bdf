"""Publish to a broker: batches of messages of complete transactions, each with the new state of the publication.

After a lost connection the state at the broker shows whether the last batch has arrived. If it is the state
of neither the last batch nor the one before, another run is publishing, and this run stops.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from trailgate.errors import BrokerRefusedError, Where
from trailgate.jobs.retries import Retries, call_with_retries
from trailgate.publish.senders.sender import (
    STOP_ONE,
    OutgoingMessages,
    PublishedState,
    Sender,
    StoredState,
)
from trailgate.publish.senders.waiting import WaitingMessages

BATCH_MESSAGES: Final = 10_000
BATCH_BYTES: Final = 16 << 20
BATCH_SECONDS: Final = 1.0  # after which messages are sent even if their batch is not full
OTHER_RUN: Final = "another run publishes there"
OTHER_GROUP: Final = "Give this publication a group of its own: --group NAME"


class BrokerSink:
    """Publishes to a broker; see ``Sink``. ``sent`` is called with the state after each batch."""

    def __init__(
        self,
        sender: Sender,
        name: str,
        retries: Retries,
        *,
        most: int = BATCH_MESSAGES,
        sent: Callable[[PublishedState], None] = lambda _: None,
    ) -> None:
        self._sender, self.name, self._retries = sender, name, retries
        self.most, self._sent = most, sent
        self._run = uuid.uuid4().hex
        self._open, self._ready = WaitingMessages(), WaitingMessages()
        self._since = 0.0
        self._stored: str | None = None  # the state at the broker
        self._tried: str | None = None  # the state that was sent last
        self._last: PublishedState | None = None

    @property
    def guarantee(self) -> str:
        """The delivery guarantee of the broker."""
        return self._sender.guarantee

    names: tuple[str, ...] = ()

    def begin(self, source: str, form: Mapping[str, str], after: str | None) -> PublishedState:
        """Connect, and return the stored state; see ``Sink``."""
        where = Where(source=self.name)
        text = call_with_retries(self._sender.open, self._retries)
        known = PublishedState(source, form, position=after or "")
        if text is not None:
            stored = StoredState.decode(text, where)
            stored.state.check(source, form, where, "the group's messages were", OTHER_GROUP)
            known = stored.state
            self._sender.remember(stored.tables)
        self.published = known
        # Storing the state at once makes this the run that publishes: one that was fenced finds
        # a state that is not its own when it connects again.
        self._stored = text
        self._store()
        return known

    def append(self, part: OutgoingMessages) -> None:
        """Add messages; see ``Sink``."""
        self._open.append(part)

    def commit(self, state: PublishedState) -> None:
        """Release the messages so far for sending; see ``Sink``. They are sent if the batch is full or a second old."""
        if not self._ready.count:
            self._since = time.monotonic()
        self._open.move_to(self._ready)
        self.published = state
        waited = time.monotonic() - self._since
        is_full = self._ready.count >= self.most or self._ready.bytes >= BATCH_BYTES
        if is_full or waited > BATCH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Send the committed messages, and store the state."""
        if self.published != self._last:
            self._store()

    def close(self) -> None:
        """Send the committed messages, and disconnect."""
        self.flush()
        self.discard()

    def discard(self) -> None:
        """Disconnect without sending."""
        self._open.clear()
        self._ready.clear()
        self._sender.close()

    def _store(self) -> None:
        """Send the committed messages with their state, with retries."""
        # The state of an earlier batch would be taken for that of this one if an attempt fails before it sends.
        self._tried = None
        call_with_retries(self._send, self._retries)
        self._last = self.published
        self._ready.clear()
        self._sent(self.published)

    def _send(self) -> None:
        """Try to send. After a failed attempt the stored state is read first, since the batch may have arrived."""
        if self._retries.is_out:
            found = self._sender.open()
            if found is not None and found == self._tried:
                self._stored = found
                return
            if found != self._stored:
                problem = f"{OTHER_RUN}: the stored position is not that of this run"
                raise BrokerRefusedError(problem, where=Where(source=self.name), hint=STOP_ONE)
        self._sender.check(self._ready)
        self._tried = StoredState(self._run, self.published, self._sender.tables).encode()
        self._sender.send(self._ready, self._tried)
        self._stored = self._tried
