"""Convert errors of pyiceberg, and of the catalogs that it uses, to our errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyiceberg.exceptions
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    ValidationException,
)
from sqlalchemy.exc import SQLAlchemyError

from trailgate.apply.targets.faults import DISK, FaultSign, build_conflict_error, find_fault
from trailgate.apply.targets.iceberg_catalogs import LOCKED, LOCKED_HINT
from trailgate.errors import (
    ApplyError,
    StorageError,
    TargetConflictError,
    TargetLockedError,
    TargetUnavailableError,
    TrailgateError,
    Where,
    WriteError,
    mask_logins,
)

MOST_SIGNS: Final = 300  # characters of an error of the library
# The library's exceptions have no common class.
ICEBERG_ERRORS: Final = (
    *(
        one
        for one in vars(pyiceberg.exceptions).values()
        if isinstance(one, type) and issubclass(one, Exception)
    ),
    SQLAlchemyError,
    pa.ArrowException,
    OSError,
    ValueError,
    NotImplementedError,
)
SIGNS: Final = (
    *DISK,
    FaultSign(CommitStateUnknownException, "", TargetUnavailableError),
    FaultSign(CommitFailedException, "", TargetConflictError),
    FaultSign(ValidationException, "", TargetConflictError),
    FaultSign(TableAlreadyExistsError, "", TargetConflictError),
    # A writer has removed a file of the snapshot meanwhile.
    FaultSign(FileNotFoundError, "", TargetConflictError),
    FaultSign(SQLAlchemyError, "database is locked", TargetLockedError),
    FaultSign(SQLAlchemyError, "database or disk is full", WriteError),
    FaultSign(SQLAlchemyError, "readonly database", WriteError),
    # Two runs create the same catalog file.
    FaultSign(SQLAlchemyError, "already exists", TargetConflictError),
    FaultSign(ServiceUnavailableError, "", TargetUnavailableError),
    FaultSign(ServerError, "", TargetUnavailableError),
    FaultSign(TooManyRequestsError, "", TargetUnavailableError),
    *(
        FaultSign(Exception, text, TargetUnavailableError)
        for text in (
            "connection aborted",
            "connection refused",
            "connection reset",
            "connection to server",
            "could not connect",
            "max retries exceeded",
            "timed out",
        )
    ),
)


@contextmanager
def convert_iceberg_errors(table: str) -> Iterator[None]:
    """Context manager: convert errors of pyiceberg about a table or catalog to ours."""
    try:
        yield
    except TrailgateError:
        raise
    except Exception as error:
        if not isinstance(error, ICEBERG_ERRORS) and not _is_of_aws(error):
            raise
        raise build_iceberg_error(error, table) from None


def _is_of_aws(error: Exception) -> bool:
    """Return whether botocore raised an error, as a Glue catalog does. It may not be installed."""
    return type(error).__module__.startswith("botocore.")


def build_iceberg_error(error: Exception, table: str) -> TrailgateError:
    """Convert an error of pyiceberg about a table or catalog to ours: a fault to retry, or a refusal."""
    # SQLAlchemy adds the statement and a link in further lines.
    line = str(error).partition("\n")[0].strip() or type(error).__name__
    text, where = mask_logins(line)[:MOST_SIGNS], Where(source=table)
    fault = find_fault(error, SIGNS)
    if fault is TargetConflictError:
        return build_conflict_error(text, table)
    if fault is TargetLockedError:
        return TargetLockedError(f"{LOCKED}: {text}", where=where, hint=LOCKED_HINT)
    if fault is not None:
        return fault(f"the catalog or its storage fails: {text}", where=where)
    if isinstance(error, OSError | RESTError | SQLAlchemyError) or _is_of_aws(error):
        return StorageError(text, where=where)
    return ApplyError(f"pyiceberg refuses: {text}", where=where)
