"""Classify errors of a target's library: temporary faults, after which apply retries, and full disks.

A temporary fault becomes a TargetUnavailableError or a subclass, and a file that cannot be written
a WriteError, which ends the run. PostgreSQL errors are classified by SQLSTATE, errors of the other
targets by exception type and a part of the text. An error without a row in these tables is neither.

The targets find out themselves that another writer or another run has committed, and build the same
errors for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final, NamedTuple

from trailgate.errors import (
    TargetConflictError,
    TargetLockedError,
    TargetUnavailableError,
    TrailgateError,
    Where,
    WriteError,
)

_LOST, _LOCKED, _CONFLICT = TargetUnavailableError, TargetLockedError, TargetConflictError
# PostgreSQL, Appendix A: error codes. A code of two characters stands for its class.
SQLSTATES: Final = MappingProxyType(
    {
        "08": _LOST,  # connection exception
        "25006": _LOST,  # read_only_sql_transaction: the server became a standby
        "25P03": _LOST,  # idle_in_transaction_session_timeout
        "25P04": _LOCKED,  # transaction_timeout
        "40001": _CONFLICT,  # serialization_failure
        "40003": _LOST,  # statement_completion_unknown
        "40P01": _CONFLICT,  # deadlock_detected
        "53100": WriteError,  # disk_full
        "53300": _LOST,  # too_many_connections
        "55006": _LOCKED,  # object_in_use
        "55P03": _LOCKED,  # lock_not_available: lock_timeout
        "57014": _LOCKED,  # query_canceled: statement_timeout, or pg_cancel_backend
        "57P01": _LOST,  # admin_shutdown: also pg_terminate_backend
        "57P02": _LOST,  # crash_shutdown
        "57P03": _LOST,  # cannot_connect_now
        "57P05": _LOST,  # idle_session_timeout
        "58030": WriteError,  # io_error
    }
)


class FaultSign(NamedTuple):
    """How to recognize a fault of a target: by the exception's type and a part of its text in lower case.

    ``fault`` is the class of our error for it.
    """

    of: type[Exception]
    text: str
    fault: type[TrailgateError]


def find_fault(error: Exception, signs: Iterable[FaultSign]) -> type[TrailgateError] | None:
    """Return the class of our error for the first ``FaultSign`` that matches an exception of a target, or None if none does."""
    text = str(error).casefold()
    return next(
        (one.fault for one in signs if isinstance(error, one.of) and one.text in text), None
    )


# Errors of the operating system about files, through whichever library they come.
DISK: Final = tuple(
    FaultSign(Exception, text, WriteError)
    for text in (
        "no space left on device",
        "quota exceeded",
        "file too large",
        "read-only file system",
    )
)


def find_sqlstate_fault(state: str) -> type[TrailgateError] | None:
    """Return the class of our error for a SQLSTATE of PostgreSQL, or None if it is not a fault of the server."""
    return SQLSTATES.get(state) or SQLSTATES.get(state[:2])


def build_concurrent_run_error(group: str, source: str) -> TargetConflictError:
    """Build the error for the fault that another run has advanced the position of the same group."""
    return TargetConflictError(
        f"another run is applying group {group} to this target",
        where=Where(source=source),
        hint="Stop one of them, or give it a group of its own: --group NAME",
    )


def build_conflict_error(cause: str, source: str) -> TargetConflictError:
    """Build the error for the fault that a commit to a target failed because another writer committed first."""
    problem = f"another writer changed the table meanwhile: {cause}"
    return TargetConflictError(
        problem, where=Where(source=source), hint="Nothing is lost: apply again"
    )
