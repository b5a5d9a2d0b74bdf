"""What messages are received from, as a live capture sees it: parts of numbered messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

import numpy as np

from trailgate.arrays import Longs
from trailgate.messages.capture import MessageBatch, Problem

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
    def joined(parts: Sequence[Part]) -> Part:
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
            MessageBatch.joined([part.messages for part in filled]),
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

    def captured(self, number: int) -> None:
        """Note that the messages before a number are in the trail for good."""
        ...

    def close(self) -> None:
        """Let go of the broker, in order where that is possible."""
        ...
