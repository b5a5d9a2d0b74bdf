"""Publish to a broker: batches of messages of complete transactions, each with the new state of the publication.

After a lost connection the state at the broker shows whether the last batch has arrived. If it is
neither the state after the last batch nor the state before it, another run is publishing, and this
run stops.

A full batch is sent in a thread, while the messages of the next one are written. Only one batch is
sent at a time.

A broker without room for a batch may have room for a smaller one: a queue of 1,000 messages never
accepts 10,000 in one transaction. So ``BatchRefusedError`` asks the run to publish again from the
stored state, in batches that begin with one transaction and grow as long as the broker accepts
them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Final

from trailgate.errors import BrokerFullError, BrokerRefusedError, OptionError, Where
from trailgate.jobs.retries import Retries, call_with_retries
from trailgate.live.brokers.address import BrokerAddress, ProtocolFamily
from trailgate.messages.publishing import TRANSACTION, PublishOptions
from trailgate.publish.senders.message_buffer import WaitingMessages
from trailgate.publish.senders.sender import (
    LOG,
    STOP_ONE,
    OutgoingMessages,
    PublishedState,
    Sender,
    StoredState,
)

BATCH_MESSAGES: Final = 10_000
BATCH_BYTES: Final = 16 << 20
BATCH_SECONDS: Final = 1.0  # after which messages are sent even if their batch is not full
WITH_TOMBSTONES: Final = frozenset({"debezium"})
# Only the module in use is imported: its library may not be installed.
SENDERS: Final[Mapping[ProtocolFamily, str]] = MappingProxyType(
    {
        ProtocolFamily.KAFKA: "kafka:KafkaSender",
        ProtocolFamily.STOMP: "confirmed:ConfirmedStompSender",
        ProtocolFamily.AMQP: "amqp:AmqpSender",
    }
)
ENDED: Final = "the run has ended"
OTHER_RUN: Final = "another run publishes there"
GROUP_IS: Final = "the group's messages were"
OTHER_GROUP: Final = "Give this publication a group of its own: --group NAME"


class BatchRefusedError(Exception):
    """Raised if a broker has no room for a batch of several transactions.

    ``rewind`` connects again, and returns the state from which to publish again, in smaller
    batches.
    """

    def __init__(self, rewind: Callable[[], PublishedState]) -> None:
        super().__init__("the broker has no room for the batch")
        self.rewind = rewind


class BatchSize:
    """Adapts the number of messages in a batch to the size that the broker accepts.

    After a refused batch the number is 1, and it doubles with each accepted batch. Its upper limit
    is half of the refused number, and rises slowly with each accepted batch.
    """

    def __init__(self, most: int) -> None:
        self._most = self._ceiling = most
        self.messages = most

    def note_taken(self) -> None:
        """Record that the broker accepted a batch."""
        self._ceiling = min(self._most, self._ceiling + 1 + self._ceiling // 16)
        self.messages = min(2 * self.messages, self._ceiling)

    def note_refused(self, messages: int) -> None:
        """Record that the broker had no room for this number of messages."""
        self._ceiling = max(1, min(self._most, messages) // 2)
        self.messages = 1


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
        self._size, self._sent = BatchSize(most), sent
        self._run = uuid.uuid4().hex
        # Messages of the transaction that has not ended, of the next batch, and of the batch that is sent.
        self._open, self._ready, self._sending = (WaitingMessages() for _ in range(3))
        self._thread = ThreadPoolExecutor(1, "trailgate-publish")
        self._running: Future[None] | None = None
        self._is_ended = False
        self._since = 0.0
        self._stored: str | None = None  # the state at the broker
        self._tried: str | None = None  # the state that was sent last, encoded
        self._last: PublishedState | None = None  # the state that was confirmed last
        self._next: PublishedState | None = None  # the state that was sent last

    @property
    def guarantee(self) -> str:
        """The delivery guarantee of the broker's sender."""
        return self._sender.guarantee

    @property
    def room(self) -> int:
        """The number of messages that the next batch still lacks, at least 1.

        The caller counts operations, so a batch of transactions as messages may take several
        commits.
        """
        return max(1, self._size.messages - self._ready.count)

    names: tuple[str, ...] = ()

    def begin(self, source: str, form: Mapping[str, str], after: str | None) -> PublishedState:
        """Connect to the broker, and return the stored state; see ``Sink``.

        Stores a state of this run at once, with which another run notices that it is not the only
        one.
        """
        where = Where(source=self.name)
        text = call_with_retries(self._sender.open, self._retries)
        known = PublishedState(source, form)
        if text is not None:
            stored = StoredState.decode(text, where)
            # As in a folder: a run that published nothing is continued, and one with other options
            # begins. For example, the first one named a topic that does not exist.
            if stored.state.operations:
                stored.state.check(source, form, where, GROUP_IS, OTHER_GROUP)
            if not stored.state.find_difference(source, form):
                known = replace(stored.state, source=source)
                self._sender.remember(stored.tables)
        self.published = known = known.starting_after(after)
        # Storing the state at once makes this the run that publishes: one that was fenced finds
        # a state that is not its own when it connects again.
        self._stored = text
        self._store(known)
        return known

    def append(self, part: OutgoingMessages) -> None:
        """Add messages to the next batch for the broker; see ``Sink``."""
        self._open.append(part)

    def commit(self, state: PublishedState) -> None:
        """Allow the messages added so far to be sent to the broker; see ``Sink``.

        They are sent when the batch is full or a second old. Raises BatchRefusedError if the broker
        had no room for the previous batch.
        """
        if not self._ready.count:
            self._since = time.monotonic()
        self._open.move_to(self._ready)
        self.published = state
        waited = time.monotonic() - self._since
        is_full = self._ready.count >= self._size.messages or self._ready.bytes >= BATCH_BYTES
        if is_full or waited > BATCH_SECONDS:
            self._wait()
            self._ready, self._sending = self._sending, self._ready
            self._running = self._thread.submit(self._store, state)

    def flush(self) -> None:
        """Send the committed messages to the broker, and store the state. Raises BatchRefusedError; see ``commit``."""
        self._wait()
        if self.published != self._last:
            self._ready, self._sending = self._sending, self._ready
            self._store(self.published)

    def _rewind(self) -> PublishedState:
        """Discard the messages that the broker did not accept, connect again, and return the state stored at the broker."""
        for messages in (self._open, self._ready, self._sending):
            messages.clear()
        text = call_with_retries(self._sender.open, self._retries)
        states = {self._stored: self._last, self._tried: self._next}
        state = states.get(text)
        if state is None:
            raise self._other_run()
        self._stored, self.published, self._last = text, state, state
        # No opening is without a transaction, as in ``begin``.
        call_with_retries(lambda: self._send(state), self._retries)
        return state

    def close(self) -> None:
        """Send the committed messages, and disconnect from the broker."""
        self.flush()
        self.discard()

    def discard(self) -> None:
        """Disconnect from the broker without sending more.

        If a batch is being sent, it is not retried.
        """
        self._is_ended = True
        with suppress(Exception):  # another error ends the run
            self._wait()
        self._thread.shutdown()
        for messages in (self._open, self._ready, self._sending):
            messages.clear()
        self._sender.close()

    def _wait(self) -> None:
        """Wait until the thread has sent its batch to the broker. Raises the error if it could not."""
        running, self._running = self._running, None
        if running is not None:
            running.result()

    def _store(self, state: PublishedState) -> None:
        """Send a batch with its state to the broker, with retries."""
        # The state of an earlier batch would be taken for that of this one if an attempt fails before it sends.
        self._tried, self._next = None, state
        call_with_retries(lambda: self._send(state), self._retries)
        if self._sending.count:
            self._size.note_taken()
        self._last = state
        self._sending.clear()
        self._sent(state)

    def _send(self, state: PublishedState) -> None:
        """Try once to send a batch with its state to the broker.

        After a failed attempt the stored state is read first, because the batch may have arrived.
        """
        if self._is_ended:
            raise BrokerRefusedError(ENDED, where=Where(source=self.name))
        if self._retries.is_out:
            found = self._sender.open()
            if found is not None and found == self._tried:
                self._stored = found
                return
            if found != self._stored:
                raise self._other_run()
            if found is not None:
                # A broker removes a restart message that was delivered ten times and not acknowledged.
                # There may be more attempts than that, so each of them replaces it.
                self._sender.send((), found)
        self._sender.check(self._sending)
        self._tried = StoredState(self._run, state, self._sender.tables).encode()
        try:
            self._sender.send(self._sending, self._tried)
        except BrokerFullError as error:
            self._divide(state, error)
            raise
        self._stored = self._tried

    def _divide(self, state: PublishedState, error: BrokerFullError) -> None:
        """Reduce the size of batches after the broker had no room for one.

        Raises BatchRefusedError if the batch has several transactions. A single transaction cannot
        be divided: the caller then raises ``error``.
        """
        self._size.note_refused(self._sending.count)
        if self._last is not None and state.transactions - self._last.transactions > 1:
            self._retries.faults[error.reason] += 1
            LOG.warning("%s; publishing in smaller batches", error)
            raise BatchRefusedError(self._rewind) from error

    def _other_run(self) -> BrokerRefusedError:
        problem = f"{OTHER_RUN}: the stored position is not that of this run"
        return BrokerRefusedError(problem, where=Where(source=self.name), hint=STOP_ONE)


def sender_for(address: BrokerAddress, group: str, options: PublishOptions, name: str) -> Sender:
    """Create the sender for a broker address and the message format ``name``. Raises OptionError.

    An empty ``name`` is allowed if only the state is read.
    """
    place, where = SENDERS.get(address.family), Where(source=str(address))
    if place is None:
        known = ", ".join(f"{one.value}://" for one in SENDERS)
        problem = f"messages cannot be sent to {address.protocol}://"
        raise OptionError(problem, hint=f"Supported protocols: {known}")
    # Without a name only the state is read.
    if name and name not in WITH_TOMBSTONES and "tombstones" in address.options:
        problem = f"the format {name} has no tombstones"
        raise OptionError(problem, where=where, hint="Omit the option tombstones of the address")
    if address.family is not ProtocolFamily.KAFKA and "${" in address.destination:
        problem = f"the destination {address.destination} has a field, but a queue has all tables"
        hint = "Only topics of Kafka may have ${schema} and ${table}. Publish tables one by one, with --tables and --group"
        raise OptionError(problem, where=where, hint=hint)
    module, _, kind = place.partition(":")
    made: Sender = getattr(import_module(f"trailgate.publish.senders.{module}"), kind)(
        address,
        group,
        is_whole=options.content == TRANSACTION,
        has_tombstones=name in WITH_TOMBSTONES,
    )
    return made


def broker_sink(
    address: BrokerAddress,
    group: str,
    options: PublishOptions,
    name: str,
    retries: Retries,
    sent: Callable[[PublishedState], None],
) -> BrokerSink:
    """Create the sink that publishes to a broker address."""
    return BrokerSink(sender_for(address, group, options, name), str(address), retries, sent=sent)
