"""Retry after faults of an apply target or a broker.

``Backoff`` schedules the attempts: the pauses between them grow, and after some time it gives up.
``Retries`` waits for the attempts, and counts and logs the faults.

A fault is a ``TargetUnavailableError`` or a ``BrokerError``. The run then connects again and
continues at the position stored there. So even if the connection broke during a commit, the batch
is written exactly once, whether or not the other side had committed it.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol, Self, TypeVar

from trailgate.errors import BrokerError, TargetUnavailableError

PATIENCE: Final = 30  # seconds within which a broker or a target has to answer at first
# Seconds before the first retry. A broker needs a moment to put a lost consumer's messages back
# into its queue. A consumer that connects before that receives later messages first.
BROKER_PAUSE: Final = 1.0
TARGET_PAUSE: Final = 0.1  # a deadlock is usually over by then
# The longest pause of a broker connection, and the factor between two pauses: 1, 2, 4, 8, 16, 30,
# 30 seconds.
LONGEST_BROKER_PAUSE: Final = 30.0
FACTOR: Final = 2.0
# The longest pause between retries of a target. Not longer, because another process that uses a
# DuckDB file may close it for a few seconds only.
LONGEST_TARGET_PAUSE: Final = 5.0
# Attempts that are always made after a conflict, which can be reported after a MERGE that alone
# took longer than ``patience``.
TRIALS: Final = 5
LOOK: Final = 0.2  # seconds between two checks whether to stop
Result = TypeVar("Result")
LOG: Final = logging.getLogger("trailgate.apply")
Fault = TargetUnavailableError | BrokerError


class RetriableError(Protocol):
    """The interface of errors that state whether a retry may help."""

    @property
    def retriable(self) -> bool:
        """Whether a retry after this error may help."""
        ...


class Backoff:
    """Schedules retries: waits longer after each failure, with some randomness so that many clients do not retry at once.

    Before the first answer, retries end after ``patience`` seconds. After an answer they never end
    if ``lasting`` is set; otherwise they end ``patience`` seconds after the next failure. At least
    ``trials`` attempts are made, even if that takes longer.
    """

    def __init__(
        self,
        patience: float = PATIENCE,
        *,
        lasting: bool = True,
        first: float | None = None,
        longest: float = LONGEST_BROKER_PAUSE,
        trials: int = 1,
    ) -> None:
        self._first = BROKER_PAUSE if first is None else first
        self._longest, self._trials = longest, trials
        self._seconds, self._due, self._failed = self._first, 0.0, 0
        self._patience, self._lasting = patience, lasting
        self._reached, self._end = False, time.monotonic() + patience
        self._chance = random.Random()  # noqa: S311  it spreads trials, nothing is secret

    def record_answer(self) -> None:
        """Record that the broker answered. The time limit for the first answer no longer applies."""
        self._reached, self._end = True, math.inf

    def reset(self) -> None:
        """Record that the connection works: the next pause is short again."""
        self._seconds, self._failed = self._first, 0

    def record_loss(self, owned: float) -> None:
        """Record a lost connection to a broker, and schedule the next attempt after a first pause.

        The attempt is not due before ``owned``, a time of ``time.monotonic``: until then the broker
        may still hold the messages of the lost consumer.
        """
        self._due = max(self._due, owned, time.monotonic() + self._first)

    def record_failure(self, error: RetriableError) -> None:
        """Record a failed attempt to reach a target or broker, and schedule the next attempt.

        Raises the error if a retry cannot help or the time for retries is over.
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
        """Wait until the next attempt is due, but at most until the time ``until``.

        Returns whether the attempt is due. Times are those of ``time.monotonic``.
        """
        time.sleep(max(0.0, min(self._due, until) - time.monotonic()))
        return time.monotonic() >= self._due


class Retries:
    """Waits between retries of an apply target or a broker, and counts and logs its faults.

    ``what`` is the name of the target or broker in the log. At the start the target must answer
    within ``patience`` seconds. After it has answered once, each outage may last ``patience``
    seconds, or any time if ``lasting`` is set (but not for faults such as conflicts, which never
    last long). A wait ends early if ``stopped`` returns True.
    """

    def __init__(
        self,
        patience: float = PATIENCE,
        *,
        lasting: bool = False,
        stopped: Callable[[], bool] = lambda: False,
        what: str = "the target",
        log: logging.Logger = LOG,
    ) -> None:
        self.faults: Counter[str] = Counter()  # by reason
        self.outages = 0
        self._stopped, self._since, self._tried = stopped, 0.0, 0
        self._what, self._log = what, log
        # A fault such as a conflict never lasts long. If it does, the run ends even if ``lasting``,
        # so the two sorts of faults have separate limits.
        self._backoffs = {
            kind: Backoff(
                patience,
                lasting=lasting and kind,
                first=TARGET_PAUSE,
                longest=LONGEST_TARGET_PAUSE,
                trials=1 if kind or patience <= 0 else TRIALS,
            )
            for kind in (True, False)
        }

    @classmethod
    def none(cls) -> Self:
        """Return retries that stop at the first fault, for callers that retry themselves."""
        return cls(-1)

    @property
    def is_out(self) -> bool:
        """Whether the last attempt to reach the target or broker failed: an outage lasts."""
        return self._tried > 0

    @property
    def due(self) -> float:
        """The ``time.monotonic`` time of the next attempt."""
        return max(one.due for one in self._backoffs.values())

    def record_success(self) -> None:
        """Record that the target or broker works, and log the end of an outage."""
        for one in self._backoffs.values():
            one.record_answer()
            one.reset()
        if self.is_out:
            times = "once" if self._tried == 1 else f"{self._tried:,} times"
            seconds = time.monotonic() - self._since
            self._log.warning("%s works again after %.1f s; tried %s", self._what, seconds, times)
        self._tried = 0

    def record_fault(self, error: Fault) -> None:
        """Count a fault of the target or broker, and log the first fault of an outage.

        Raises the fault if a retry is not allowed.
        """
        self.faults[error.reason] += 1
        if not self.is_out:
            self.outages += 1
            self._since = time.monotonic()
        self._backoffs[error.lasting].record_failure(error)
        if not self.is_out:
            self._log.warning("%s; trying again", type(error)(error.problem, where=error.where))
        self._tried += 1

    def wait(self) -> bool:
        """Wait until the next attempt is due. Returns False if ``stopped`` ended the wait."""
        while not self._stopped():
            left = self.due - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, LOOK))
        return False


def call_with_retries(act: Callable[[], Result], retries: Retries) -> Result:
    """Call ``act`` with retries after faults of a target or broker, and return its result.

    Raises the last fault if a retry is not allowed, or if the run should stop.
    """
    while True:
        try:
            result = act()
        except (TargetUnavailableError, BrokerError) as error:
            retries.record_fault(error)
            if not retries.wait():
                raise
        else:
            retries.record_success()
            return result
