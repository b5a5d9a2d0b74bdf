"""How long to wait before a broker is tried again."""

from __future__ import annotations

import random
import time
from typing import Final

from trailgate.errors import BrokerError

# Seconds. A broker needs a moment until what a lost consumer had is in its queue again: somebody who comes earlier gets
# later messages first.
FIRST: Final = 1.0
LONGEST: Final = 30.0
FACTOR: Final = 2.0
PATIENCE: Final = 30.0  # seconds in which a broker has to answer for the first time


class Backoff:
    """Waits longer from trial to trial, with some chance in it so that many clients do not come at once."""

    def __init__(self) -> None:
        self._seconds, self._due = FIRST, 0.0
        self._patience: float | None = time.monotonic() + PATIENCE
        self._chance = random.Random()  # noqa: S311  it spreads trials, nothing is secret

    def reached(self) -> None:
        """Note that the broker answered: from now on it is tried again for ever."""
        self._patience = None

    def reset(self) -> None:
        """Note that the connection works."""
        self._seconds = FIRST

    def lost(self, owned: float) -> None:
        """Note that the broker may keep what the lost consumer had until a moment of ``time.monotonic``."""
        self._due = max(self._due, owned)

    def failed(self, error: BrokerError) -> None:
        """Note that a trial failed; raises its error where another one is in vain, or the broker did not answer at first."""
        now = time.monotonic()
        if not error.retriable or (self._patience is not None and now > self._patience):
            raise error
        self._due = max(self._due, now + self._seconds * self._chance.uniform(1.0, 1.5))
        self._seconds = min(LONGEST, self._seconds * FACTOR)

    def is_due(self, until: float) -> bool:
        """Return whether it is time for another trial, waiting until a moment of ``time.monotonic`` at most."""
        time.sleep(max(0.0, min(self._due, until) - time.monotonic()))
        return time.monotonic() >= self._due
