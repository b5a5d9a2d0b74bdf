"""Retry after faults of a target or a broker: which faults, for how long, and what is counted.

A fault is a ``TargetUnavailableError`` or a ``BrokerError``. The run then connects again and continues at
the position stored there. So if the connection broke during a commit, the batch is there exactly
once, whether or not the other side had committed it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Self, TypeVar

from trailgate.errors import BrokerError, TargetUnavailableError
from trailgate.jobs.backoff import PATIENCE, Backoff

FIRST: Final = 0.1  # seconds before the first retry: a deadlock is usually over by then
# Seconds between retries. Not longer, because another process that uses a DuckDB file may close it
# for a few seconds only.
LONGEST: Final = 5.0
# Attempts that are always made after a conflict, which can be reported after a MERGE that alone
# took longer than ``patience``.
TRIALS: Final = 5
LOOK: Final = 0.2  # seconds between two checks whether to stop
Result = TypeVar("Result")
LOG: Final = logging.getLogger("trailgate.apply")
Fault = TargetUnavailableError | BrokerError


class Retries:
    """Waits between retries of a target or broker, and counts faults.

    ``what`` is named in the log. At the start it has to answer within ``patience`` seconds. After it has answered, each
    outage may last as long again, or without limit if ``lasting``. A wait ends early if ``stopped``
    returns True.
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
                first=FIRST,
                longest=LONGEST,
                trials=1 if kind or patience <= 0 else TRIALS,
            )
            for kind in (True, False)
        }

    @classmethod
    def none(cls) -> Self:
        """Return retries that give up at the first fault, for callers that retry themselves."""
        return cls(-1)

    @property
    def is_out(self) -> bool:
        """Whether the last attempt failed."""
        return self._tried > 0

    @property
    def due(self) -> float:
        """The ``time.monotonic`` time of the next attempt."""
        return max(one.due for one in self._backoffs.values())

    def record_success(self) -> None:
        """Record that the target or broker works, and log the end of an outage."""
        for one in self._backoffs.values():
            one.note_answer()
            one.reset()
        if self.is_out:
            times = "once" if self._tried == 1 else f"{self._tried:,} times"
            seconds = time.monotonic() - self._since
            self._log.warning("%s works again after %.1f s; tried %s", self._what, seconds, times)
        self._tried = 0

    def record_fault(self, error: Fault) -> None:
        """Count a fault of the target or broker, and log the first fault of an outage.

        Raises the fault if it must not be retried.
        """
        self.faults[error.reason] += 1
        if not self.is_out:
            self.outages += 1
            self._since = time.monotonic()
        self._backoffs[error.lasting].note_failure(error)
        if not self.is_out:
            self._log.warning("%s; trying again", type(error)(error.problem, where=error.where))
        self._tried += 1

    def wait(self) -> bool:
        """Wait until the next attempt is due. Returns False if the run should stop instead."""
        while not self._stopped():
            left = self.due - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, LOOK))
        return False


def call_with_retries(act: Callable[[], Result], retries: Retries) -> Result:
    """Call ``act`` until it succeeds, and return its result. Raises the last fault if it must not be retried."""
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
