"""The sources of a live capture: feeds of consecutively numbered messages.

``JournalFeed`` receives from a queue or topic. It stores messages in the journal, then acknowledges
them, then returns them to be captured, so that none is lost. ``KafkaFeed`` receives from a
partition of a Kafka topic. It needs no journal, because the broker keeps the messages; the number
of a message is its offset. ``ROWS`` maps each protocol to its receiver.

``PrefetchingFeed`` wraps a feed and receives in a thread while earlier messages are captured.
``DuplicateFilter`` drops duplicates by message id (``jms.id``). When a capture starts, it reads the
known ids again from earlier messages.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from trailgate.arrays import Longs
from trailgate.errors import BrokerError, BrokerRefusedError, OptionError, Where
from trailgate.live.brokers.address import BrokerAddress, ProtocolFamily
from trailgate.live.brokers.kafka import KafkaReceiver
from trailgate.live.brokers.receiver import MessageWindow, Receiver
from trailgate.live.files.journal_writer import Journal, JournalOptions, StoredMessages
from trailgate.messages.message_batch import HeaderColumns, MessageBatch, batch_of_received
from trailgate.messages.message_ids import MessageIdRule, MessageIds
from trailgate.messages.problems import Problem

TIMESTAMP: Final = "JMSTimestamp"
AHEAD_BYTES: Final = 16 << 20  # receiving pauses while about this many bytes of bodies wait
JOINED_BYTES: Final = 4 << 20  # waiting parts are captured together up to this size
JOINED_MESSAGES: Final = 65_536  # and up to this many messages
TURN_SECONDS: Final = 0.2  # the longest wait for messages of one turn of the thread

# With a connection, wait this long for the thread's result, because a run that stops at an empty
# queue must know that it is empty.
ANSWER_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 5.0
NO_ID: Final = (
    "Artemis sends most JMS message ids only by AMQP: receive from amqp://HOST/QUEUE, or let jms.id name a header "
    "that the sender sets. The messages are still at the broker"
)
EARLIER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class FeedPart:
    """Consecutive messages of a feed with their numbers.

    ``problems`` are those of messages that could not be read; they refer to messages by their index
    in the part. ``end`` is the number after the last received message, even if that message was
    dropped as a duplicate. ``repeated`` is the number of redelivered messages, which were dropped.
    """

    messages: MessageBatch
    problems: Sequence[Problem]
    numbers: Longs
    end: int
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def size(self) -> int:
        """The number of bytes of the bodies of the part's messages."""
        return int(self.messages.ends[-1] - self.messages.starts[0]) if len(self) else 0

    @staticmethod
    def join(parts: Sequence[FeedPart]) -> FeedPart:
        """Join consecutive parts of a feed."""
        filled = [part for part in parts if len(part)]
        if len(parts) == 1 or not filled:
            return replace(parts[-1], repeated=sum(part.repeated for part in parts))
        problems: list[Problem] = []
        before = 0
        for part in filled:
            # problems refer to messages by their index in a part
            problems += [
                replace(problem, message=problem.message + before) for problem in part.problems
            ]
            before += len(part)
        return FeedPart(
            MessageBatch.join([part.messages for part in filled]),
            tuple(problems),
            np.concatenate([part.numbers for part in filled]),
            parts[-1].end,
            sum(part.repeated for part in parts),
        )

    @property
    def sent(self) -> int | None:
        """The time at which the last message was sent, in milliseconds since 1970 UTC, or None if unknown."""
        if not len(self):
            return None
        last = self.messages.slice(len(self) - 1, len(self)).header(TIMESTAMP)[0].as_py()
        return int(last) if last is not None and last.isdecimal() else None


class ConnectionState(NamedTuple):
    """The state of a feed's broker connection: whether it is connected, and how often it was made."""

    is_connected: bool
    made: int


class MessageFeed(Protocol):
    """The interface of feeds: a source of numbered messages that can be read again from any number."""

    @property
    def name(self) -> str:
        """The name of the source whose messages are numbered, such as a journal or Kafka partition.

        The trail's commits record it, because a number means nothing in another source.
        """
        ...

    @property
    def source_id(self) -> str | None:
        """What distinguishes the source from a later one with the same name, or None if that is unknown."""
        ...

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield the last ``count`` messages before a number, or fewer if the feed has no more.

        Called before ``open``.
        """
        ...

    def open(self, number: int | None) -> None:
        """Start the feed at a message, or at its first message if ``number`` is None (nothing was captured before)."""
        ...

    def receive(self, seconds: float) -> FeedPart | None:
        """Wait up to ``seconds`` for messages, and return them as a part, or None if none arrived."""
        ...

    @property
    def is_replayed(self) -> bool:
        """Whether the feed has returned all messages that were received before this start."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether the feed is connected to its source.

        If it is not, an empty result of ``receive`` does not mean that no message is waiting.
        """
        ...

    @property
    def link(self) -> ConnectionState:
        """The last known state of the feed's connection. Any thread may read it."""
        ...

    def lag(self, number: int) -> int:
        """Return the number of messages, as far as known, that have this number or a higher one."""
        ...

    def mark_captured(self, number: int) -> None:
        """Record that the messages before a number are safely in the trail."""
        ...

    def close(self) -> None:
        """Disconnect from the feed's broker, with a proper end of the session if possible."""
        ...


class DuplicateFilter:
    """Drops messages of a feed with an id that has been seen before.

    ``rule`` states which header has the id. If it is None, no ids are compared.
    """

    def __init__(self, rule: MessageIdRule | None) -> None:
        self._rule = rule
        self._ids = None if rule is None else MessageIds(rule)
        # The numbers of recent messages, and the highest id up to each; see ``before``.
        self._recent: list[tuple[Longs, Sequence[str | None]]] = []
        self._last: str | None = None

    def begin(self, feed: MessageFeed, number: int | None, last: str | None) -> None:
        """Read the ids of earlier messages from the feed, so that duplicates of them are recognized.

        It reads the messages before ``number``, as many as the rule remembers and the feed still
        has. ``last`` is the highest id among them, as the last commit stored it.
        """
        if self._ids is None or self._rule is None or number is None:
            return
        for messages in feed.earlier(number, self._rule.remembered):
            self._ids.deduplicate(messages)
        self._ids.begin(last)
        self._last = last

    def deduplicate(self, part: FeedPart) -> tuple[FeedPart, int]:
        """Remove the messages with known ids from a part of the feed.

        Return the rest of the part and the number of duplicates. A message whose id is invalid
        becomes a problem of the part.
        """
        if self._ids is None or not len(part):
            return part, 0
        deduplicated = self._ids.deduplicate(part.messages)
        self._recent.append((part.numbers, deduplicated.last))
        messages, problems = deduplicated.apply(part.messages, part.problems)
        numbers = part.numbers if deduplicated.kept is None else part.numbers[deduplicated.kept]
        return replace(
            part, messages=messages, problems=problems, numbers=numbers
        ), deduplicated.duplicates

    def before(self, number: int) -> str | None:
        """Return the highest id among the messages before ``number``, or None if it is unknown.

        ``number`` is that of a received message, or of the next one. Ids of earlier parts are
        dropped, so ``number`` must not decrease from call to call.
        """
        # Drop the parts before ``number``, but remember their highest id.
        while self._recent:
            numbers, last = self._recent[0]
            # Example: numbers 5 6 8 and the number 8: two messages precede it, so the highest id is the one
            # up to message 6.
            at = int(np.searchsorted(numbers, number))
            if at:
                self._last = last[at - 1]
            if at < len(numbers):
                break
            self._recent.pop(0)
        return self._last


@dataclass(frozen=True, slots=True)
class _Turn:
    """The result of one ``receive`` by the prefetching thread, and the feed's state after it."""

    part: FeedPart | None
    is_replayed: bool = False
    is_connected: bool = False
    error: BaseException | None = None

    @property
    def size(self) -> int:
        return 0 if self.part is None else self.part.size


class PrefetchingFeed:
    """Receives the parts of another feed in a thread, ahead of the capture; see ``MessageFeed``.

    The thread pauses while parts of ``ahead`` bytes are waiting. ``receive`` joins the waiting
    parts.

    Between ``open`` and ``close`` only the thread uses the other feed, except for its name,
    ``link`` and ``lag``. An error in the thread is raised by ``receive`` after the parts before it,
    or else by ``close``.
    """

    def __init__(self, feed: MessageFeed, ahead: int = AHEAD_BYTES) -> None:
        self._feed, self._ahead = feed, ahead
        self.is_replayed = self.is_connected = False
        self._changed = threading.Condition()
        # The condition must be held to change these.
        self._turns: deque[_Turn] = deque()
        self._captured: int | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the prefetched feed."""
        return self._feed.name

    @property
    def source_id(self) -> str | None:
        """The id of the prefetched feed's source; see ``MessageFeed``."""
        return self._feed.source_id

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield messages before a number from the prefetched feed; see ``MessageFeed``."""
        return self._feed.earlier(number, count)

    def open(self, number: int | None) -> None:
        """Start the prefetching thread at a message; see ``MessageFeed``."""
        self._feed.open(number)
        self._thread = threading.Thread(target=self._run, name="receiving", daemon=True)
        self._thread.start()

    def receive(self, seconds: float) -> FeedPart | None:
        """Return prefetched messages, or wait for some; see ``MessageFeed``.

        While the feed is connected, waits up to ANSWER_SECONDS for the thread's result. If there is
        still none, ``is_connected`` becomes False.
        """
        seconds = max(seconds, ANSWER_SECONDS) if self.is_connected else seconds
        with self._changed:
            if not self._changed.wait_for(lambda: self._turns, seconds):
                # Unknown: the thread may be connecting, or waiting for a slow disk.
                self.is_connected = False
                return None
            first = self._turns.popleft()
            parts = self._take_joinable(first)
            self._changed.notify_all()
        if first.error is not None:
            raise first.error
        self.is_replayed, self.is_connected = first.is_replayed, first.is_connected
        return FeedPart.join(parts) if parts else None

    @property
    def link(self) -> ConnectionState:
        """The state of the prefetched feed's connection; see ``MessageFeed``."""
        return self._feed.link

    def lag(self, number: int) -> int:
        """Return the prefetched feed's number of waiting messages; see ``MessageFeed``."""
        return self._feed.lag(number)

    def mark_captured(self, number: int) -> None:
        """Record that messages are in the trail. The thread passes this to the prefetched feed."""
        with self._changed:
            self._captured = number

    def close(self) -> None:
        """End the prefetching thread and close the feed.

        Raises an error of the thread that was not raised yet.
        """
        with self._changed:
            # The thread may wait for room or for a turn. It must see the flag when it wakes up, so
            # set the flag before the notification, and join only after the lock is free.
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        error = next((turn.error for turn in self._turns if turn.error is not None), None)
        try:
            if error is None:
                self._note_captured()
        finally:
            self._feed.close()
        if error is not None:
            raise error

    def _take_joinable(self, first: _Turn) -> list[FeedPart]:
        """Remove the waiting parts that can be captured together with ``first``. Returns all their parts."""
        if first.part is None:
            return []
        parts, size, count = [first.part], first.size, len(first.part)
        while self._turns and (part := self._turns[0].part) is not None:
            size, count = size + part.size, count + len(part)
            # the caller must see where the replay ends, so do not join across that
            alike = self._turns[0].is_replayed == first.is_replayed
            if not alike or size > JOINED_BYTES or count > JOINED_MESSAGES:
                break
            parts.append(part)
            self._turns.popleft()
        return parts

    def _run(self) -> None:
        """Receive from the prefetched feed in the thread, until it is closed or raises an error."""
        try:
            while self._has_room():
                self._note_captured()
                part = self._feed.receive(TURN_SECONDS)
                # For Kafka, is_connected asks the broker. It is only needed if nothing came.
                connected = part is not None or self._feed.is_connected
                self._put(_Turn(part, self._feed.is_replayed, connected))
        except BaseException as error:  # noqa: BLE001  whoever receives gets it
            self._put(_Turn(None, error=error))

    def _has_room(self) -> bool:
        """Wait, in the prefetching thread, until fewer than ``ahead`` bytes are waiting.

        Returns False if the feed was closed.
        """

        def is_due() -> bool:
            return self._closing or sum(turn.size for turn in self._turns) < self._ahead

        with self._changed:
            self._changed.wait_for(is_due)
            return not self._closing

    def _put(self, turn: _Turn) -> None:
        with self._changed:
            if self._turns and self._turns[-1].part is None:
                self._turns.pop()  # an earlier empty result is out of date
            self._turns.append(turn)
            self._changed.notify_all()

    def _note_captured(self) -> None:
        with self._changed:
            number, self._captured = self._captured, None
        if number is not None:
            self._feed.mark_captured(number)


class JournalFeed:
    """The feed of a queue or topic: stores its messages in the journal, acknowledges them, then returns them.

    ``needed`` is a header that every message must have, or None. A message without it is not
    acknowledged, so it stays with the broker, and BrokerRefusedError is raised.
    """

    name = "journal"
    source_id = None

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
        self._stored: Iterator[StoredMessages] = iter(())
        self.is_replayed = False

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield messages before a number that the journal still has; see ``MessageFeed``."""
        begin = max(self._journal.first, number - count)
        if begin < number:
            for stored in self._journal.read(begin):
                if stored.number >= number:
                    return
                part = self._part(stored, 0)
                yield part.messages.slice(0, min(len(part), number - stored.number))

    def open(self, number: int | None) -> None:
        """Start with the journal's messages from a number on; see ``MessageFeed``."""
        self._stored = self._journal.read(number or 0)

    @property
    def is_connected(self) -> bool:
        """Whether the queue's broker is connected."""
        return self._receiver.is_connected

    def receive(self, seconds: float) -> FeedPart | None:
        """Return first the messages of the journal, then new ones that arrive; see ``MessageFeed``."""
        if not self.is_replayed:
            stored = next(self._stored, None)
            if stored is not None:
                return self._part(stored, 0)
            self.is_replayed = True
        window = self._receiver.receive(seconds)
        if window is None:
            return None
        self._check(window)
        # Store first, then acknowledge. A crash in between leads to a redelivery, which the journal
        # recognises and drops.
        try:
            stored = self._journal.append(window.messages)
        except BrokerError as error:
            raise error.with_place(source=self._address) from error
        self._receiver.acknowledge(window)
        return self._part(stored, len(window.messages) - len(stored.messages))

    @property
    def link(self) -> ConnectionState:
        """The state of the queue's broker connection; see ``MessageFeed``."""
        return ConnectionState(self._receiver.is_connected, self._receiver.connections)

    def lag(self, number: int) -> int:
        """Return the number of the journal's messages that are not in the trail; see ``MessageFeed``."""
        return self._journal.next - number

    def mark_captured(self, number: int) -> None:
        """Delete the journal's segments whose messages are all in the trail; see ``MessageFeed``."""
        self._journal.release(number)

    def close(self) -> None:
        """Wait until acknowledgements are confirmed, and disconnect; see ``MessageFeed``."""
        try:
            if self._receiver.is_connected:
                self._receiver.settle(SETTLE_SECONDS)
            self._receiver.close()
        finally:
            self._journal.close()

    def _check(self, window: MessageWindow) -> None:
        """Raise BrokerRefusedError if a received message does not have the needed header."""
        if self._needed is None:
            return
        if HeaderColumns.of(window.messages["headers"]).values(self._needed).null_count:
            problem = f"messages come without {self._needed}, which jms.id or $jmsid needs"
            raise BrokerRefusedError(problem, where=Where(source=self._address), hint=NO_ID)

    def _part(self, stored: StoredMessages, repeated: int) -> FeedPart:
        numbers = np.arange(stored.number, stored.end)
        offsets = stored.offsets if len(stored.messages) else numbers
        messages, problems = batch_of_received(
            stored.messages, (stored.segment, offsets), self._address
        )
        return FeedPart(messages, problems, numbers, stored.end, repeated)


class KafkaFeed:
    """The feed of a Kafka partition; see ``MessageFeed``.

    The number of a message is its offset, and the generated message ids contain it.
    """

    def __init__(self, address: BrokerAddress, receiver: KafkaReceiver) -> None:
        self._address, self._receiver = address, receiver
        self._silent: float | None = None  # the time since which the broker has not answered
        self._high = self._end = 0
        self.is_replayed = False

    @property
    def name(self) -> str:
        """The Kafka topic and the partition."""
        return f"kafka topic {self._address.destination}, partition {self._receiver.partition}"

    @property
    def source_id(self) -> str | None:
        """The broker's id of the Kafka topic: a topic that is created again has another one."""
        return self._receiver.topic_id

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield messages before an offset, as far as the Kafka broker still has them; see ``MessageFeed``."""
        begin = max(self._receiver.bounds()[0], number - count)
        if begin >= number:
            return
        self._receiver.open(begin)
        while self._receiver.next < number:
            part = self.receive(EARLIER_SECONDS)
            if part is None:  # the remaining offsets have no messages, such as control records
                return
            yield part.messages.slice(0, int(np.searchsorted(part.numbers, number)))

    def open(self, number: int | None) -> None:
        """Start reading the Kafka partition at an offset; see ``MessageFeed``."""
        self._high = self._end = self._receiver.open(number)
        self.is_replayed = False

    @property
    def is_connected(self) -> bool:
        """Whether the Kafka broker answers and has no more messages.

        Raises BrokerError after too long a silence.
        """
        try:
            has_more = self._receiver.next < self._receiver.bounds()[1]
        except BrokerError as error:
            # When the silence began. One failed question is not an error yet.
            self._silent = self._silent or time.monotonic()
            if time.monotonic() - self._silent > self._receiver.silence:
                raise error.with_place(source=str(self._address)) from error
            return False
        self._silent = None
        return not has_more

    def receive(self, seconds: float) -> FeedPart | None:
        """Return the next messages of the Kafka partition; see ``MessageFeed``."""
        # the replay ends at the end offset of the start
        self.is_replayed = self.is_replayed or self._receiver.next >= self._high
        window = self._receiver.receive(seconds)
        if window is None:
            return None
        self._end = self._receiver.known_end()
        numbers = window.token
        zeros = np.zeros(len(numbers), np.int64)
        place, source = (numbers, zeros), str(self._address)
        messages, problems = batch_of_received(window.messages, place, source, window.headers)
        return FeedPart(messages, problems, numbers, int(numbers[-1]) + 1)

    @property
    def link(self) -> ConnectionState:
        """The state of the connection to Kafka; see ``MessageFeed``."""
        return ConnectionState(self._receiver.is_reached, self._receiver.connections)

    def lag(self, number: int) -> int:
        """Return the number of messages in the Kafka partition from an offset on, by the last known end; see ``MessageFeed``."""
        return max(0, self._end - number)

    def mark_captured(self, number: int) -> None:
        """Do nothing, because Kafka keeps its messages."""

    def close(self) -> None:
        """Disconnect from Kafka."""
        self._receiver.close()


class ReceiverClass(NamedTuple):
    """The receiver of a protocol: its module and class, and whether the broker keeps messages after they are read.

    A broker that keeps messages needs no journal.
    """

    module: str
    receiver: str
    keeps_messages: bool = False


# Imported by name when it is used, since each module loads the library of its protocol.
ROWS: Final[Mapping[ProtocolFamily, ReceiverClass]] = MappingProxyType(
    {
        ProtocolFamily.STOMP: ReceiverClass(
            "trailgate.live.brokers.stomp.receiver", "StompReceiver"
        ),
        ProtocolFamily.AMQP: ReceiverClass("trailgate.live.brokers.amqp.receiver", "AmqpReceiver"),
        ProtocolFamily.KAFKA: ReceiverClass(
            "trailgate.live.brokers.kafka", "KafkaReceiver", keeps_messages=True
        ),
    }
)


def check_journalled(address: BrokerAddress) -> None:
    """Raise OptionError for a broker whose feed has no journal, because the broker itself keeps its messages (Kafka)."""
    if ROWS[address.family].keeps_messages:
        problem = f"{address} keeps its messages, so they are not received into a journal"
        hint = 'Stream it by Spark\'s own format "kafka" through trailgate.spark.capture, or capture it by trailgate capture'
        raise OptionError(problem, hint=hint)


def make_receiver(address: BrokerAddress, *, lasting: bool = True) -> Any:
    """Create the receiver for a broker address. It connects on first use.

    After the first connection, a ``lasting`` receiver reconnects for as long as it is used. Any
    other gives up if the broker does not answer for the seconds of the address's option patience.
    Raises MissingDependencyError if an extra is not installed.
    """
    row = ROWS[address.family]
    return getattr(importlib.import_module(row.module), row.receiver)(address, lasting=lasting)


def make_feed(
    address: BrokerAddress,
    folder: Path,
    options: JournalOptions,
    needed: str | None = None,
    *,
    lasting: bool = True,
) -> MessageFeed:
    """Create the feed of a live capture for a broker address.

    ``folder`` is the journal's folder, if one is needed. For ``needed`` see ``JournalFeed``, for
    ``lasting`` see ``make_receiver``.
    """
    receiver = make_receiver(address, lasting=lasting)
    if ROWS[address.family].keeps_messages:
        receiver.connect()
        return KafkaFeed(address, receiver)
    return JournalFeed(address, receiver, folder, options, needed)
