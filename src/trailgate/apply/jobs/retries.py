"""What a run does when its target fails: which faults it tries again, how long, and what it counts.

A fault is a ``TargetUnavailableError`` (apply/targets/faults.py). The run opens its target again then, and continues at the position that it finds there. So a batch whose commit was under way
when the connection broke is applied once, whether it was committed or not.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Self, TypeVar

from trailgate.errors import TargetUnavailableError
from trailgate.jobs.backoff import PATIENCE, Backoff

FIRST: Final = 0.1  # seconds until the second trial: a deadlock is over by then
LONGEST: Final = 5.0  # between two trials: whoever locks a DuckDB file may open it again soon
TRIALS: Final = 5  # at least, since one MERGE of a large table may take longer than all patience
LOOK: Final = 0.2  # seconds between looks at whether to stop
Result = TypeVar("Result")
LOG: Final = logging.getLogger("trailgate.apply")


class Retries:
    """Waits after a fault of the target, and counts faults.

    A target has to answer within ``patience`` seconds at the start. One that has answered is tried for as long again, or without end if ``lasting``. ``stopped`` ends a wait early.
    """

    def __init__(
        self,
        patience: float = PATIENCE,
        *,
        lasting: bool = False,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.faults: Counter[str] = Counter()  # by their reasons
        self.outages = 0
        self._stopped, self._since, self._tried = stopped, 0.0, 0
        # Faults that are not lasting end the run although others would not.
        self._backoffs = {
            kind: Backoff(
                patience,
                lasting=lasting and kind,
                first=FIRST,
                longest=LONGEST,
                trials=TRIALS if patience > 0 else 1,
            )
            for kind in (True, False)
        }

    @classmethod
    def none(cls) -> Self:
        """Return what lets the first fault end the run: its caller tries again."""
        return cls(-1)

    @property
    def is_out(self) -> bool:
        """Return whether the last trial failed."""
        return self._tried > 0

    @property
    def due(self) -> float:
        """Return the moment of ``time.monotonic`` from which another trial makes sense."""
        return max(one.due for one in self._backoffs.values())

    def answered(self) -> None:
        """Note that the target did what was asked."""
        for one in self._backoffs.values():
            one.note_answer()
            one.reset()
        if self.is_out:
            times = "once" if self._tried == 1 else f"{self._tried:,} times"
            seconds = time.monotonic() - self._since
            LOG.warning("the target works again after %.1f s; tried %s", seconds, times)
        self._tried = 0

    def failed(self, error: TargetUnavailableError) -> None:
        """Count a fault; raises its error if no other trial is to be made. The first one of an outage is logged."""
        self.faults[error.reason] += 1
        if not self.is_out:
            self.outages += 1
            self._since = time.monotonic()
        self._backoffs[error.lasting].note_failure(error)
        if not self.is_out:
            LOG.warning("%s; trying again", type(error)(error.problem, where=error.where))
        self._tried += 1

    def wait(self) -> bool:
        """Return whether to try again, when it is time to."""
        while not self._stopped():
            left = self.due - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(left, LOOK))
        return False


def retried(act: Callable[[], Result], retries: Retries) -> Result:
    """Return what ``act`` returns. It is called again after a fault of the target; raises the fault if there is to be no other trial."""
    while True:
        try:
            found = act()
        except TargetUnavailableError as error:
            retries.failed(error)
            if not retries.wait():
                raise
        else:
            retries.answered()
            return found
