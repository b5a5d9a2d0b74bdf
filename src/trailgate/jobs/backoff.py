"""When to try again after a fault: longer pauses from trial to trial, up to a limit of patience."""

from __future__ import annotations

import math
import random
import time
from typing import Final, Protocol

# Seconds. A broker needs a moment until what a lost consumer had is in its queue again: somebody who comes earlier gets
# later messages first.
FIRST: Final = 1.0
LONGEST: Final = 30.0
FACTOR: Final = 2.0
PATIENCE: Final = 30  # seconds in which a broker or a target has to answer for the first time


class RetriableError(Protocol):
    """An error that states whether another trial may help."""

    @property
    def retriable(self) -> bool:
        """Return whether another trial may help."""
        ...


class Backoff:
    """Waits longer from trial to trial, with some chance in it so that many clients do not come at once.

    What answered once is tried again for ever if ``lasting``, else for ``patience`` seconds again, and at least ``trials`` times.
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
        """Note that the broker answered."""
        self._reached, self._end = True, math.inf

    def reset(self) -> None:
        """Note that the connection works."""
        self._seconds, self._failed = self._first, 0

    def note_loss(self, owned: float) -> None:
        """Note that the broker may keep what the lost consumer had until a moment of ``time.monotonic``."""
        self._due = max(self._due, owned)

    def note_failure(self, error: RetriableError) -> None:
        """Note that a trial failed; raises its error where another one is in vain, or the broker did not answer in time."""
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
        """Return the moment of ``time.monotonic`` from which another trial makes sense."""
        return self._due

    def is_due(self, until: float) -> bool:
        """Return whether it is time for another trial, waiting until a moment of ``time.monotonic`` at most."""
        time.sleep(max(0.0, min(self._due, until) - time.monotonic()))
        return time.monotonic() >= self._due
