"""Collect the errors of a batch's operations that cannot be applied, and decide what happens to them.

REPERROR in a Replicat parameter file refers to errors by Oracle's numbers, such as 1403.
``NUMBERS`` lists for each of our errors the Oracle numbers that it may correspond to. Errors
without a number, such as a key that is not logged, get the default response.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from trailgate.errors import ApplyError, TrailgateError

STOP: Final = "stop"
DISCARD: Final = "discard"
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
# The row's key at the beginning of an error, such as "update of id=7: ".
OF_ROW: Final = re.compile(r"(?:insert|update|key update|delete) of .*: ")


class DiscardedBeforeError(ApplyError):
    """The error of an operation that an earlier run has written to the discard file.

    Such an operation is discarded, whatever the responses to errors are; with
    ``excludes_transaction`` its complete transaction is.
    """

    excludes_transaction = False


@dataclass(frozen=True, slots=True)
class ErrorResponses:
    """What to do with an operation that has an error: "stop", "discard" and so on (``--on-error``, REPERROR).

    ``by_number`` contains the response to each Oracle error number; other errors get ``default``.
    """

    default: str = STOP
    by_number: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))

    def response_to(self, error: TrailgateError) -> str:
        """Return the response to the error of an operation, for example to discard the operation."""
        if isinstance(error, DiscardedBeforeError):
            return DISCARD_TRANSACTION if error.excludes_transaction else DISCARD
        number = next(iter(error.numbers), None)
        return self.default if number is None else self.by_number.get(number, self.default)

    def stops(self, error: TrailgateError) -> bool:
        """Return whether the error of an operation stops the run."""
        return self.response_to(error) == STOP

    def excludes_transaction(self, error: TrailgateError) -> bool:
        """Return whether an operation with this error is excluded together with its complete transaction."""
        return self.response_to(error) == DISCARD_TRANSACTION

    @property
    def may_exclude_transactions(self) -> bool:
        """Whether the errors of some operations exclude complete transactions."""
        return DISCARD_TRANSACTION in {self.default, *self.by_number.values()}

    @property
    def always_exclude_transactions(self) -> bool:
        """Whether operations are discarded only together with their complete transactions."""
        answers = {self.default, *self.by_number.values()}
        return DISCARD_TRANSACTION in answers and DISCARD not in answers

    @property
    def always_stop(self) -> bool:
        """Whether every error of an operation stops the run."""
        return {self.default, *self.by_number.values()} == {STOP}


class OperationErrors:
    """Collects the errors of a batch's operations, by operation number.

    An error for which the function ``stops`` returns true is raised instead of collected. ``stop``
    states whether every error stops the run; without ``stops``, it decides for all errors.
    """

    def __init__(
        self, *, stop: bool = True, stops: Callable[[TrailgateError], bool] | None = None
    ) -> None:
        self.stop = stop
        self.stops = stops or (lambda _: stop)
        self.errors: dict[int, TrailgateError] = {}

    def add(self, number: int, error: TrailgateError) -> None:
        """Record the error of an operation. Only the first error of an operation is kept.

        Raises the error if it stops the run.
        """
        if self.stops(error):
            raise error
        self.errors.setdefault(number, error)


def extract_reason(error: TrailgateError) -> str:
    """Return the reason of an operation's error without the row's key and values, so that equal reasons can be counted.

    For example, "update of id=7: the row does not exist" becomes "the row does not exist".
    """
    key = OF_ROW.match(error.problem)
    return error.problem[key.end() :] if key else error.problem.partition(": ")[0]
