"""What messages are received from, as a live capture sees it: parts of numbered messages.

Messages of a queue or topic are stored in the journal, then acknowledged, then captured (``JournalFeed``). Those of a partition of a Kafka topic need no journal:
offsets are their numbers, and the broker keeps them (``KafkaFeed``). Which protocol has which is a row of ``ROWS``.

``ReceivingAhead`` receives messages in a thread of its own while those before them are captured. Ids are compared as ``jms.id`` has it; what is known of them is
found again at a start (``ComparedIds``).
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
from trailgate.live.brokers.address import BrokerAddress, Family
from trailgate.live.brokers.kafka import KafkaReceiver
from trailgate.live.brokers.receiver import Receiver, Window
from trailgate.live.files.journal import Journal, JournalOptions, Stored
from trailgate.messages.bounds import Problem
from trailgate.messages.messages import HeaderColumns, MessageBatch, as_messages
from trailgate.messages.metadata import MessageIdRule, MessageIds

TIMESTAMP: Final = "JMSTimestamp"


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive messages: ``numbers`` are theirs, ``end`` the one after them. ``repeated`` were given again and left out."""

    messages: MessageBatch
    problems: tuple[Problem, ...]
    numbers: Longs
    end: int
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def size(self) -> int:
        """Return the bytes of the bodies."""
        return int(self.messages.ends[-1] - self.messages.starts[0]) if len(self) else 0

    @staticmethod
    def join(parts: Sequence[Part]) -> Part:
        """Return parts that follow one another as one."""
        filled = [part for part in parts if len(part)]
        if len(parts) == 1 or not filled:
            return replace(parts[-1], repeated=sum(part.repeated for part in parts))
        problems: list[Problem] = []
        before = 0
        for part in filled:
            problems += [
                replace(problem, message=problem.message + before) for problem in part.problems
            ]
            before += len(part)
        return Part(
            MessageBatch.join([part.messages for part in filled]),
            tuple(problems),
            np.concatenate([part.numbers for part in filled]),
            parts[-1].end,
            sum(part.repeated for part in parts),
        )

    @property
    def sent(self) -> int | None:
        """Return when the last message was sent, in milliseconds since 1970 UTC, None where that is not known."""
        if not len(self):
            return None
        last = self.messages.slice(len(self) - 1, len(self)).header(TIMESTAMP)[0].as_py()
        return int(last) if last is not None and last.isdecimal() else None


class Link(NamedTuple):
    """Whether there is a connection to a broker, and how many were made."""

    is_made: bool
    made: int


class Feed(Protocol):
    """A source of numbered messages that can be asked again from a number on."""

    @property
    def name(self) -> str:
        """Return what numbers belong to, as the trail's commit has it."""
        ...

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield messages before a number that are still there, ``count`` at most; called before ``open``."""
        ...

    def open(self, number: int | None) -> None:
        """Begin at a message; None where nothing was captured before."""
        ...

    def receive(self, seconds: float) -> Part | None:
        """Return the next messages, after waiting so long at most; None where nothing came."""
        ...

    @property
    def is_replayed(self) -> bool:
        """Return whether all that was received before this start was given."""
        ...

    @property
    def is_connected(self) -> bool:
        """Return whether nothing coming means that there is nothing."""
        ...

    @property
    def link(self) -> Link:
        """Return how the connection is, as far as is known without asking; any thread may ask."""
        ...

    def lag(self, number: int) -> int:
        """Return how many messages are known to wait from a number on."""
        ...

    def mark_captured(self, number: int) -> None:
        """Note that the messages before a number are in the trail for good."""
        ...

    def close(self) -> None:
        """Let go of the broker, in order where that is possible."""
        ...


class ComparedIds:
    """Leaves out the messages of parts that came before. Without a rule nothing is compared."""

    def __init__(self, rule: MessageIdRule | None) -> None:
        self._rule = rule
        self._ids = None if rule is None else MessageIds(rule)
        self._recent: list[
            tuple[Longs, Sequence[str | None]]
        ] = []  # what ``before`` may be asked for
        self._last: str | None = None

    def begin(self, feed: Feed, number: int | None, last: str | None) -> None:
        """Look through the messages before the first one, as far as they are there; ``last`` is their highest id."""
        if self._ids is None or self._rule is None or number is None:
            return
        for messages in feed.earlier(number, self._rule.remembered):
            self._ids.screen(messages)
        self._ids.begin(last)
        self._last = last

    def deduplicate(self, part: Part) -> tuple[Part, int]:
        """Return a part without the messages that came before, and how many these are."""
        if self._ids is None or not len(part):
            return part, 0
        found = self._ids.screen(part.messages)
        self._recent.append((part.numbers, found.last))
        messages, problems = found.apply(part.messages, part.problems)
        numbers = part.numbers if found.kept is None else part.numbers[found.kept]
        return replace(
            part, messages=messages, problems=problems, numbers=numbers
        ), found.duplicates

    def before(self, number: int) -> str | None:
        """Return the highest id before a message that was received, or the one after the last; what was before that is forgotten."""
        while self._recent:
            numbers, last = self._recent[0]
            at = int(np.searchsorted(numbers, number))
            if at:
                self._last = last[at - 1]
            if at < len(numbers):
                break
            self._recent.pop(0)
        return self._last


AHEAD_BYTES: Final = 16 << 20  # bodies that wait, about: no more is received meanwhile
JOINED_BYTES: Final = 4 << 20  # waiting parts are captured together up to so many bytes of bodies
JOINED_MESSAGES: Final = 16_384  # and so many messages
TURN_SECONDS: Final = 0.2  # how long a broker that gives nothing is waited for
# How long an answer is waited for where there is a connection: whoever wants to stop where nothing comes must know it.
ANSWER_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Turn:
    """What receiving once gave, and what the feed stated after it."""

    part: Part | None
    is_replayed: bool = False
    is_connected: bool = False
    error: BaseException | None = None

    @property
    def size(self) -> int:
        return 0 if self.part is None else self.part.size


class ReceivingAhead:
    """Gives the parts of another feed, which a thread receives; see ``Feed``. Parts that wait are joined.

    From ``open`` to ``close`` that thread alone uses the other feed, but for its name, ``link`` and ``lag``. What it raises is raised by ``receive``,
    after the parts that came before, or else by ``close``.
    """

    def __init__(self, feed: Feed, ahead: int = AHEAD_BYTES) -> None:
        self._feed, self._ahead = feed, ahead
        self.is_replayed = self.is_connected = False
        self._changed = threading.Condition()
        # All of these are changed with the condition held.
        self._turns: deque[_Turn] = deque()
        self._captured: int | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """Return the name of the other feed."""
        return self._feed.name

    def earlier(self, number: int, count: int) -> Iterator[MessageBatch]:
        """Yield messages before a number; see ``Feed``."""
        return self._feed.earlier(number, count)

    def open(self, number: int | None) -> None:
        """Begin at a message; see ``Feed``."""
        self._feed.open(number)
        self._thread = threading.Thread(target=self._run, name="receiving", daemon=True)
        self._thread.start()

    def receive(self, seconds: float) -> Part | None:
        """Return what waits, or comes in that time; see ``Feed``."""
        seconds = max(seconds, ANSWER_SECONDS) if self.is_connected else seconds
        with self._changed:
            if not self._changed.wait_for(lambda: self._turns, seconds):
                self.is_connected = (
                    False  # nobody knows: a connection may be made, or a disk be slow
                )
                return None
            first = self._turns.popleft()
            parts = self._following(first)
            self._changed.notify_all()
        if first.error is not None:
            raise first.error
        self.is_replayed, self.is_connected = first.is_replayed, first.is_connected
        return Part.join(parts) if parts else None

    @property
    def link(self) -> Link:
        """Return how the connection is; see ``Feed``."""
        return self._feed.link

    def lag(self, number: int) -> int:
        """Return how many messages are known to wait; see ``Feed``."""
        return self._feed.lag(number)

    def mark_captured(self, number: int) -> None:
        """Note that messages are in the trail; the thread hands it on."""
        with self._changed:
            self._captured = number

    def close(self) -> None:
        """End the thread and close the other feed; raises what the thread raised and nobody has got."""
        with self._changed:
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

    def _following(self, first: _Turn) -> list[Part]:
        """Return a part, and those waiting after it that are captured with it."""
        if first.part is None:
            return []
        parts, size, count = [first.part], first.size, len(first.part)
        while self._turns and (part := self._turns[0].part) is not None:
            size, count = size + part.size, count + len(part)
            alike = self._turns[0].is_replayed == first.is_replayed
            if not alike or size > JOINED_BYTES or count > JOINED_MESSAGES:
                break
            parts.append(part)
            self._turns.popleft()
        return parts

    def _run(self) -> None:
        """Receive until the feed is closed, or raises."""
        try:
            while self._has_room():
                self._note_captured()
                part = self._feed.receive(TURN_SECONDS)
                # Kafka is asked whether there is more, which only matters where nothing came.
                connected = part is not None or self._feed.is_connected
                self._put(_Turn(part, self._feed.is_replayed, connected))
        except BaseException as error:  # noqa: BLE001  whoever receives gets it
            self._put(_Turn(None, error=error))

    def _has_room(self) -> bool:
        """Wait until there is room for another part; return False where the feed is closed."""

        def is_due() -> bool:
            return self._closing or sum(turn.size for turn in self._turns) < self._ahead

        with self._changed:
            self._changed.wait_for(is_due)
            return not self._closing

    def _put(self, turn: _Turn) -> None:
        with self._changed:
            if self._turns and self._turns[-1].part is None:
                self._turns.pop()  # that nothing came then means nothing any more
            self._turns.append(turn)
            self._changed.notify_all()

    def _note_captured(self) -> None:
        with self._changed:
            number, self._captured = self._captured, None
        if number is not None:
            self._feed.mark_captured(number)


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
        Family.STOMP: Row("trailgate.live.brokers.stomp.receiver", "StompReceiver"),
        Family.AMQP: Row("trailgate.live.brokers.amqp.receiver", "AmqpReceiver"),
        Family.KAFKA: Row("trailgate.live.brokers.kafka", "KafkaReceiver", keeps_messages=True),
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
