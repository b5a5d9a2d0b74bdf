"""How long to wait before a broker is tried again."""

from __future__ import annotations

import math
import random
import time
from typing import Final

from trailgate.errors import BrokerError

# Seconds. A broker needs a moment until what a lost consumer had is in its queue again: somebody who comes earlier gets
# later messages first.
FIRST: Final = 1.0
LONGEST: Final = 30.0
FACTOR: Final = 2.0
PATIENCE: Final = 30  # seconds in which a broker has to answer for the first time


class Backoff:
    """Waits longer from trial to trial, with some chance in it so that many clients do not come at once.

    A broker that was reached is tried again for ever if the receiver is ``lasting``, else for ``patience`` seconds again.
    """

    def __init__(self, patience: float = PATIENCE, *, lasting: bool = True) -> None:
        self._seconds, self._due = FIRST, 0.0
        self._patience, self._lasting = patience, lasting
        self._reached, self._end = False, time.monotonic() + patience
        self._chance = random.Random()  # noqa: S311  it spreads trials, nothing is secret

    def reached(self) -> None:
        """Note that the broker answered."""
        self._reached, self._end = True, math.inf

    def reset(self) -> None:
        """Note that the connection works."""
        self._seconds = FIRST

    def lost(self, owned: float) -> None:
        """Note that the broker may keep what the lost consumer had until a moment of ``time.monotonic``."""
        self._due = max(self._due, owned)

    def failed(self, error: BrokerError) -> None:
        """Note that a trial failed; raises its error where another one is in vain, or the broker did not answer in time."""
        now = time.monotonic()
        if self._reached and not self._lasting:
            self._end = min(self._end, now + self._patience)
        if not error.retriable or now > self._end:
            raise error
        self._due = max(self._due, now + self._seconds * self._chance.uniform(1.0, 1.5))
        self._seconds = min(LONGEST, self._seconds * FACTOR)

    def is_due(self, until: float) -> bool:
        """Return whether it is time for another trial, waiting until a moment of ``time.monotonic`` at most."""
        time.sleep(max(0.0, min(self._due, until) - time.monotonic()))
        return time.monotonic() >= self._due
