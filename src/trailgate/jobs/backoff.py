"""Decide when to retry after a failure: the pauses grow, and patience is limited."""

from __future__ import annotations

import math
import random
import time
from typing import Final, Protocol

# Seconds. A broker needs a moment to put a lost consumer's messages back into its queue. A consumer
# that connects before that receives later messages first.
FIRST: Final = 1.0
# The longest pause, and the factor between two pauses: 1, 2, 4, 8, 16, 30, 30 seconds.
LONGEST: Final = 30.0
FACTOR: Final = 2.0
PATIENCE: Final = 30  # seconds within which a broker or a target has to answer at first


class RetriableError(Protocol):
    """The interface of errors that state whether a retry may help."""

    @property
    def retriable(self) -> bool:
        """Whether a retry may help."""
        ...


class Backoff:
    """Schedules retries: waits longer after each failure, with some randomness so that many clients do not retry at once.

    Before the first answer, retries end after ``patience`` seconds. After an answer they never end
    if ``lasting``; else they end ``patience`` seconds after the next failure. At least ``trials``
    attempts are made in any case.
    """

    def __init__(
        self,
        patience: float = PATIENCE,
        *,
        lasting: bool = True,
        first: float | None = None,
        longest: float = LONGEST,
        trials: int = 1,
    ) -> None:
        self._first = FIRST if first is None else first
        self._longest, self._trials = longest, trials
        self._seconds, self._due, self._failed = self._first, 0.0, 0
        self._patience, self._lasting = patience, lasting
        self._reached, self._end = False, time.monotonic() + patience
        self._chance = random.Random()  # noqa: S311  it spreads trials, nothing is secret

    def note_answer(self) -> None:
        """Record that the broker answered. From now on there is no time limit for retries."""
        self._reached, self._end = True, math.inf

    def reset(self) -> None:
        """Record that the connection works: the pauses start short again."""
        self._seconds, self._failed = self._first, 0

    def note_loss(self, owned: float) -> None:
        """Record a lost connection: do not retry before ``owned``, a time of ``time.monotonic``, nor before a first pause.

        Until then the broker may still hold the messages of the lost consumer.
        """
        self._due = max(self._due, owned, time.monotonic() + self._first)

    def note_failure(self, error: RetriableError) -> None:
        """Record a failed attempt, and schedule the next attempt.

        Raises the error if a retry cannot help or the time is over.
        """
        now = time.monotonic()
        self._failed += 1
        if self._reached and not self._lasting:
            self._end = min(self._end, now + self._patience)
        if not error.retriable or (now > self._end and self._failed >= self._trials):
            assert isinstance(error, Exception)
            raise error
        self._due = max(self._due, now + self._seconds * self._chance.uniform(1.0, 1.5))
        self._seconds = min(self._longest, self._seconds * FACTOR)

    @property
    def due(self) -> float:
        """The time of ``time.monotonic`` at which the next attempt is due."""
        return self._due

    def is_due(self, until: float) -> bool:
        """Wait until the next attempt is due, at most until ``until``, and return whether it is."""
        time.sleep(max(0.0, min(self._due, until) - time.monotonic()))
        return time.monotonic() >= self._due
