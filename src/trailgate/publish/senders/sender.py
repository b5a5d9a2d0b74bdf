"""The interfaces of publishing (``Sink`` and ``Sender``), the state of a publication, and outgoing messages.

A sender stores the state in the same transaction as the messages, so the stored state always
describes exactly what is published. Only RabbitMQ has no such transaction: there the state is
stored after the messages (``confirmed.py``).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow.compute as pc

from trailgate.errors import StorageError, Where
from trailgate.messages.publishing import WrittenMessages
from trailgate.model.operation_counts import Counts
from trailgate.publish.message_origins import MessageOrigins
from trailgate.storage.files.addresses import absolute
from trailgate.storage.live.checkpoint import OTHER_VERSION

VERSION: Final = 2
GROUP_HEADER: Final = "trailgate.group"
POSITION_HEADER: Final = "trailgate.position"
EVERY_OPERATION: Final = 1 << 62  # more than any trail has
FIRST: Final = frozenset({"trail", "to", "format"})
# Before the values of these options in an error: published to TOPIC, from TRAIL.
PREPOSITIONS: Final[Mapping[str, str]] = MappingProxyType({"to": "to", "trail": "from"})
EXACTLY_ONCE: Final = "exactly once"
AT_LEAST_ONCE: Final = "at least once"
# The hint if two runs publish for one group.
STOP_ONE: Final = "Stop one of the two, or give one a group of its own: --group NAME"
HELD: Final = (
    "another run, or the lost connection of one that was killed, holds the position of the group {}"
)
QUIET_SECONDS: Final = 1.0  # a longer wait is logged
FULL: Final = "The queue or the broker may be full: let consumers take messages, or raise its limits (docs/publications.md)"
DROPS: Final = "the address %s loses messages when it is full, and confirms them: set its address-full-policy to BLOCK, FAIL or PAGE instead of DROP (%s)"
LOG: Final = logging.getLogger("trailgate.brokers")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The state of a publication: its source and options, and the position of its last operation.

    ``form`` are the options that determine how messages are written. The counts are sums over all
    runs. ``csn`` and ``digest`` belong to the operation at ``position``, and ``reached`` is the
    position at which the next run begins to read; they are "" if they are not known
    (``StoredPosition``).
    """

    source: str
    form: Mapping[str, str] = field(default_factory=dict)
    position: str = ""
    messages: int = 0
    operations: int = 0
    transactions: int = 0
    counts: Counts = field(default_factory=dict)
    csn: str = ""
    digest: str = ""
    reached: str = ""

    def starting_after(self, after: str | None) -> Self:
        """Return the state with the position ``after`` as its start, unless it is None or something was published already."""
        if after is None or self.operations:
            return self
        return replace(self, position=after, csn="", digest="", reached="")

    def check(
        self, source: str, form: Mapping[str, str], where: Where, what: str, hint: str
    ) -> None:
        """Raise StorageError if the publication's state belongs to another source, or to other options.

        The error begins with ``what``, such as "the group's messages were".
        """
        difference = self.find_difference(source, form)
        if difference:
            raise StorageError(f"{what} published {difference}", where=where, hint=hint)

    def find_difference(self, source: str, form: Mapping[str, str]) -> str:
        """Return how the publication's source or options differ from these, such as "with format json, not debezium", or ""."""
        # Earlier versions stored the trail as it was named, often relative to the working folder.
        expected = {"trail": absolute(source), **form}
        stored = {"trail": absolute(self.source), **self.form}
        # Another format has other options, so it is named before them.
        for name in sorted(
            expected.keys() | stored.keys(), key=lambda name: (name not in FIRST, name)
        ):
            wanted, before = expected.get(name) or "", stored.get(name) or ""
            if wanted == before:
                continue
            if before and wanted and name in PREPOSITIONS:
                to = PREPOSITIONS[name]
                difference = f"{to} {before}, not {to} {wanted}"
            elif before and wanted:
                difference = f"with {name} {before}, not {wanted}"
            elif before:
                difference = f"with {name} {before}, not without"
            else:
                difference = f"without {name}, not with {wanted}"
            return difference
        return ""


_STORED: Final = tuple(one.name for one in fields(PublishedState) if one.name != "counts")


class StoredState(NamedTuple):
    """A publication's state as a broker stores it, with a random id of the run that stored it.

    ``tables`` are the tables to which the sender has assigned a topic (``Sender.tables``).
    """

    run: str
    state: PublishedState
    tables: Sequence[str]

    def encode(self) -> str:
        """Encode the publication's state for the broker as JSON, without the counts by table."""
        # The counts by table would grow with the tables, and every commit stores the state.
        known = {name: getattr(self.state, name) for name in _STORED}
        return json.dumps({"version": VERSION, "run": self.run, **known, "tables": self.tables})

    @classmethod
    def decode(cls, text: str, where: Where) -> StoredState:
        """Parse the publication's state that a broker stores. Raises StorageError."""
        try:
            fields = json.loads(text)
            version = fields.pop("version")
            if version != VERSION:
                problem = f"the state has version {version}, not {VERSION}"
                raise StorageError(problem, where=where, hint=OTHER_VERSION)
            run, tables = fields.pop("run"), fields.pop("tables")
            state, empty = PublishedState(**fields), PublishedState("")
            wrong = [one for one in fields if type(fields[one]) is not type(getattr(empty, one))]
            found = cls(str(run), state, tuple(map(str, tables)))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            problem = f"the stored state cannot be understood: {error!r}"
            raise StorageError(problem, where=where) from error
        if wrong:
            problem = f"the stored state cannot be understood: {wrong[0]} is {fields[wrong[0]]!r}"
            raise StorageError(problem, where=where)
        return found


class OutgoingMessages(NamedTuple):
    """Messages to publish, and the first operation of each."""

    messages: WrittenMessages
    origins: MessageOrigins

    def slice(self, begin: int, stop: int) -> OutgoingMessages:
        """Return the outgoing messages [begin, stop)."""
        return OutgoingMessages(self.messages.slice(begin, stop), self.origins.slice(begin, stop))


def wait_for_broker(
    wait: Callable[[float], Result],
    seconds: float,
    what: str,
    where: Where,
    *,
    quiet: float = QUIET_SECONDS,
) -> Result:
    """Wait for a sender's broker, and log a longer wait: call ``wait(seconds)``, which waits for at most this time, and return its result.

    It is first called for ``quiet`` seconds. If the result is false, the reason ``what`` and the
    end of the remaining time are logged, and ``wait`` is called for this time.
    """
    quiet = min(quiet, seconds)
    found, left = wait(quiet), seconds - quiet
    if found or left <= 0:
        return found
    until = time.strftime("%H:%M:%S", time.localtime(time.time() + left))
    LOG.warning("%s; waiting until %s at most, for %.0f s (%s)", what, until, left, where)
    return wait(left)


class LargestMessage(NamedTuple):
    """The largest of some messages: the size of its body in bytes, the position of its first operation, and its table or ""."""

    size: int
    position: str
    table: str

    @classmethod
    def of(cls, parts: Iterable[OutgoingMessages]) -> LargestMessage:
        """Find the largest of the messages to publish."""
        found = cls(0, "", "")
        for part in parts:
            sizes = pc.binary_length(part.messages.bodies).to_numpy()
            at = int(np.argmax(sizes))
            if int(sizes[at]) >= found.size:
                table, position = (
                    part.origins.tables[at].as_py(),
                    part.origins.positions[at].as_py(),
                )
                found = cls(int(sizes[at]), position, table or "")
        return found


class Sink(Protocol):
    """The interface of a publication's target: a folder or a broker.

    Call ``begin`` first, then ``append`` and ``commit`` repeatedly, and at last ``close`` or ``discard``.
    """

    @property
    def name(self) -> str:
        """The sink's folder or address for errors and summaries, without credentials."""
        ...

    @property
    def room(self) -> int:
        """The number of operations after which the caller should commit next, at least 1.

        The caller commits at the first end of a transaction after them.
        """
        ...

    @property
    def guarantee(self) -> str:
        """The delivery guarantee of the sink, such as "exactly once"."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of the files that this run has written into a folder; empty for a broker."""
        ...

    def begin(self, source: str, form: Mapping[str, str], after: str | None) -> PublishedState:
        """Open the sink, and return its stored state.

        A new publication starts after the position ``after``. ``form`` are the options that
        determine how messages are written. Raises StorageError if the sink's messages were
        published from a different source, or with different options.
        """
        ...

    def append(self, part: OutgoingMessages) -> None:
        """Add messages to the sink. They are published only after a ``commit``."""
        ...

    def commit(self, state: PublishedState) -> None:
        """Record that the transactions of all messages added so far have ended.

        ``state`` is the state of the publication with these messages.
        """
        ...

    def flush(self) -> None:
        """Publish the committed messages now, unless the sink waits until a file is full."""
        ...

    def close(self) -> None:
        """Publish the committed messages, and close the sink."""
        ...

    def discard(self) -> None:
        """Close the sink after an error, without publishing more."""
        ...


class Sender(Protocol):
    """The interface of senders: each publishes messages to one broker, and stores the state there."""

    @property
    def guarantee(self) -> str:
        """The delivery guarantee of the sender, such as "exactly once"."""
        ...

    @property
    def tables(self) -> Sequence[str]:
        """The tables to which the sender has assigned a separate topic so far."""
        ...

    def remember(self, tables: Iterable[str]) -> None:
        """Add the tables to which earlier runs have assigned topics.

        Raises OptionError if two tables would have the same topic.
        """
        ...

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        """Check messages before they are sent: their topics must exist, and their sizes must be allowed.

        Raises EncodeError for a message that is too large, OptionError, and BrokerError.
        """
        ...

    def open(self) -> str | None:
        """Connect to the broker, lock the group for this run, and return the stored state, or None.

        An open transaction of an earlier run is aborted, and an open connection is replaced. Raises
        BrokerError.
        """
        ...

    def read(self) -> str | None:
        """Return the stored state of the publication without locking it for this run.

        Raises BrokerError.
        """
        ...

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        """Send messages in order, and store the state with them: both or neither.

        RabbitMQ is the exception: the messages may have been stored without the state. After a
        BrokerError it is unknown whether they were stored; ``open`` then returns the stored state.
        A BrokerFullError means that the broker has no room, or did not accept the messages in time.
        Raises EncodeError if the broker rejects a message because of its size.
        """
        ...

    def close(self) -> None:
        """Disconnect from the broker."""
        ...
