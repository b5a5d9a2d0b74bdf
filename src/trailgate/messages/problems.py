"""The problems of messages in a batch, and what is known about the messages that follow it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trailgate.arrays import Mask
from trailgate.errors import TrailgateError


@dataclass(frozen=True, slots=True)
class Problem:
    """A message that cannot be captured. Message -1 is the unit that was open before the batch.

    `ids` are the transaction ids of its first and last operation, if they can be read nevertheless;
    empty if it certainly has no operation. `place` is the file and offset of a message of an
    earlier batch.
    """

    message: int
    error: TrailgateError
    ids: tuple[str, ...] | None = None
    place: tuple[int, int] | None = None


def add_problem(bad: dict[int, Problem], message: int, error: TrailgateError) -> None:
    """Add an error to a message, unless it already has one."""
    if message not in bad:
        bad[message] = Problem(message, error)


@dataclass(frozen=True, slots=True)
class Lookahead:
    """What is known about the messages after a batch.

    `following` is the id of the next operation. `awaiting` marks the messages of this batch to
    whose operations later messages may add parts; None if there are none.
    """

    following: str | None = None
    awaiting: Mask | None = None

    def of_first(self, count: int) -> Lookahead:
        """Return the same for the first `count` messages of the batch."""
        awaiting = None if self.awaiting is None else self.awaiting[:count]
        return Lookahead(self.following, awaiting)


NOTHING_LATER: Final = Lookahead()
