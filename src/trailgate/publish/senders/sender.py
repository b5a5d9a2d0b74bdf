"""What all senders share: their protocol, the state of a publication, and batches of messages.

A sender stores the state together with the messages, both or neither if the broker has
transactions. Whoever reads the state back knows what is published.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple, Protocol

from trailgate.errors import StorageError, Where
from trailgate.messages.publishing import WrittenMessages
from trailgate.publish.origins import MessageOrigins
from trailgate.storage.writing.table_writing import Counts

VERSION: Final = 1
GROUP_HEADER: Final = "trailgate.group"
POSITION_HEADER: Final = "trailgate.position"
EVERY_OPERATION: Final = 1 << 62  # more than any trail has
EXACTLY_ONCE: Final = "exactly once"
AT_LEAST_ONCE: Final = "at least once"


@dataclass(frozen=True, slots=True)
class PublishedState:
    """What was published: from which source, with which options, up to which position.

    The counts are sums over all runs.
    """

    source: str
    form: Mapping[str, str] = field(default_factory=dict)
    position: str = ""
    messages: int = 0
    operations: int = 0
    transactions: int = 0
    counts: Counts = field(default_factory=dict)

    def check(
        self, source: str, form: Mapping[str, str], where: Where, what: str, hint: str
    ) -> None:
        """Raise StorageError if this was published from another source, or with other options."""
        expected, stored = {"trail": source, **form}, {"trail": self.source, **self.form}
        for name in sorted(expected.keys() | stored.keys()):
            wanted, before = expected.get(name), stored.get(name)
            if wanted != before:
                problem = f"{what} published with {name} {before}, not {wanted}"
                raise StorageError(problem, where=where, hint=hint)


class StoredState(NamedTuple):
    """A state as a broker stores it: the run that stored it, and the tables of topics.

    ``topics`` has the topics whose names are not those of their tables.
    """

    run: str
    state: PublishedState
    topics: Mapping[str, str]

    def encode(self) -> str:
        """Return the state as JSON."""
        known = asdict(self.state)
        # The counts by table would grow with the tables, and every commit stores the state.
        del known["counts"]
        return json.dumps({"version": VERSION, "run": self.run, **known, "topics": self.topics})

    @classmethod
    def decode(cls, text: str, where: Where) -> StoredState:
        """Parse a state. Raises StorageError."""
        try:
            fields = json.loads(text)
            version = fields.pop("version")
            if version != VERSION:
                problem = f"the state has version {version}, not {VERSION}"
                raise StorageError(problem, where=where)
            run, topics = fields.pop("run"), fields.pop("topics")
            return cls(str(run), PublishedState(**fields), dict(topics))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            problem = f"the stored state cannot be understood: {error!r}"
            raise StorageError(problem, where=where) from error


class OutgoingMessages(NamedTuple):
    """Messages, and the operations that they come from."""

    messages: WrittenMessages
    origins: MessageOrigins

    def slice(self, begin: int, stop: int) -> OutgoingMessages:
        """Return messages [begin, stop)."""
        return OutgoingMessages(self.messages.slice(begin, stop), self.origins.slice(begin, stop))


class Sink(Protocol):
    """Where a job publishes to: a folder or a broker."""

    @property
    def name(self) -> str:
        """The name in messages, without credentials."""
        ...

    @property
    def most(self) -> int:
        """The operations after which a commit is wanted."""
        ...

    @property
    def guarantee(self) -> str:
        """What is promised for each message."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of the files that were written."""
        ...

    def begin(self, source: str, form: Mapping[str, str], after: str | None) -> PublishedState:
        """Open it, and return what is published. ``after`` is where a new publication starts.

        Raises StorageError if it was published from a different source, or with different options.
        """
        ...

    def append(self, part: OutgoingMessages) -> None:
        """Add messages, whose transactions need not have ended."""
        ...

    def commit(self, state: PublishedState) -> None:
        """Mark all messages so far as those of ended transactions, up to ``state``."""
        ...

    def drop_open(self) -> None:
        """Forget what is not committed, at the end of the trail."""
        ...

    def flush(self) -> None:
        """Publish what is committed, if that should not wait for more."""
        ...

    def close(self) -> None:
        """Publish what is committed, and end."""
        ...

    def discard(self) -> None:
        """End after an error, without publishing more."""
        ...


class Sender(Protocol):
    """Sends messages to one broker."""

    @property
    def guarantee(self) -> str:
        """What is promised for each message."""
        ...

    @property
    def topics(self) -> dict[str, str]:
        """The tables of the topics whose names are not those of their tables."""
        ...

    def remember(self, topics: Mapping[str, str]) -> None:
        """Add the topics of earlier runs."""
        ...

    def check(self, parts: Iterable[OutgoingMessages]) -> None:
        """Do what must come before the messages: find their topics, and compare sizes with limits.

        Raises EncodeError for a message that is too large, OptionError, and BrokerError.
        """
        ...

    def open(self) -> str | None:
        """Connect, end what an earlier run left open, and return the stored state (None if there is none).

        An open connection is replaced. Raises BrokerError.
        """
        ...

    def read(self) -> str | None:
        """Return the stored state, and change nothing. Raises BrokerError."""
        ...

    def send(self, parts: Iterable[OutgoingMessages], state: str) -> None:
        """Send messages in order, and store the state with them: both or neither.

        Raises BrokerError; then it is not known which of the two; ``open`` returns it.
        """
        ...

    def close(self) -> None:
        """Disconnect."""
        ...
