"""The operations of a batch that cannot be applied, each with its reason, and what is done about them.

REPERROR of a Replicat parameter file names errors by the numbers that Oracle gives them. ``NUMBERS`` are those that are distinguished here, each group what one error of ours may be;
any other error, as a key that is not logged, has the response of all errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from trailgate.errors import TrailgateError

STOP: Final = "stop"
DISCARD_TRANSACTION: Final = "discard-transaction"
IGNORE: Final = "ignore"

# ORA-00001 and ORA-01403 as in Replicat's own examples, the others are those of Oracle's error messages.
DUPLICATE: Final = (1,)  # unique constraint violated
MISSING: Final = (1403,)  # no data found
NULL: Final = (1400, 1407)  # cannot insert NULL, cannot update to NULL
TOO_LARGE: Final = (1438,)  # value larger than specified precision
CHECK: Final = (2290,)  # check constraint violated
FOREIGN_KEY: Final = (2291, 2292)  # parent key not found, child record found
TOO_LONG: Final = (12899,)  # value too large for column
NUMBERS: Final = (DUPLICATE, MISSING, NULL, TOO_LARGE, CHECK, FOREIGN_KEY, TOO_LONG)


@dataclass(frozen=True, slots=True)
class ErrorResponses:
    """What is done about an operation that cannot be applied, by the numbers of its error, else ``default``."""

    default: str = STOP
    by_number: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))

    def to(self, error: TrailgateError) -> str:
        """Return what is done about an operation with an error."""
        number = next(iter(error.numbers), None)
        return self.default if number is None else self.by_number.get(number, self.default)

    def stops(self, error: TrailgateError) -> bool:
        """Return whether an operation with an error stops the run."""
        return self.to(error) == STOP

    def takes_transaction(self, error: TrailgateError) -> bool:
        """Return whether the transaction of an operation with an error is not applied."""
        return self.to(error) == DISCARD_TRANSACTION

    @property
    def may_take_transactions(self) -> bool:
        """Return whether there are errors of which the whole transaction is not applied."""
        return DISCARD_TRANSACTION in {self.default, *self.by_number.values()}

    @property
    def always_stop(self) -> bool:
        """Return whether every error stops the run."""
        return {self.default, *self.by_number.values()} == {STOP}


class OperationErrors:
    """The errors of operations by their numbers in the batch; one that stops the run is raised at once.

    ``stop``: every error stops the run; else those that ``stops`` names do.
    """

    def __init__(
        self, *, stop: bool = True, stops: Callable[[TrailgateError], bool] | None = None
    ) -> None:
        self.stop = stop
        self.stops = stops or (lambda _: stop)
        self.errors: dict[int, TrailgateError] = {}

    def add(self, number: int, error: TrailgateError) -> None:
        """Note an operation's error, of several the first; raises it where that stops the run."""
        if self.stops(error):
            raise error
        self.errors.setdefault(number, error)
