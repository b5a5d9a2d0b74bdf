"""Errors of delta-rs, made ours: what a table refuses, and what helps."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from trailgate.apply.targets.faults import DISK, Sign, fault_of
from trailgate.errors import (
    ApplyError,
    StorageError,
    TargetConflictError,
    TargetUnavailableError,
    TrailgateError,
    Where,
    WriteError,
)

MOST_SIGNS: Final = 300  # of an error of the library
DELTA_ERRORS: Final = (DeltaError, pa.ArrowException, OSError, ValueError)
CONSTRAINTS: Final = "NOT NULL columns and CHECK constraints refuse rows: change the constraint, or leave the table out by --tables"
# Signs of errors that no other try cures, of delta-rs or of Delta on Spark: what they mean, and what to do. {} is the text of the library.
REFUSALS: Final = (
    (
        r"append-only|DELTA_CANNOT_MODIFY_APPEND_ONLY",
        "the table takes no updates and deletes: its property delta.appendOnly is true",
        "Apply to it with --mode append, or set the property to false",
    ),
    (
        r"DELTA_VIOLATE_CONSTRAINT|DELTA_NOT_NULL_CONSTRAINT",
        "the table's constraints refuse a row: {}",
        CONSTRAINTS,
    ),
    (
        r"Unsupported table features",
        "delta-rs does not write tables with this feature: {}",
        "Apply by a session of Spark that has Delta, trailgate.spark.apply(..., merge='session'), or drop the feature: ALTER TABLE t DROP FEATURE name",
    ),
    (
        r"Column mapping is not supported",
        "delta-rs does not do this to a table with mapped column names: {}",
        "Let Spark add the columns that the trail has more, ALTER TABLE t ADD COLUMNS (...), and apply again",
    ),
    (
        r"Duplicate field name",
        "Delta has no two columns whose names differ only in case: {}",
        "Give one of them another name, by COLMAP in a parameter file",
    ),
)
DRAWN: Final = re.compile(
    r"\x1b\[[\d;]*m|\u21b3"
)  # the arrow before each cause in an error of delta-rs, in colour
SIGNS: Final = (
    *DISK,
    Sign(CommitFailedError, "", TargetConflictError),
    # A snapshot names files that VACUUM has removed since.
    Sign(Exception, "object at location", TargetConflictError),
    Sign(Exception, "permission denied", WriteError),
    *(
        Sign(Exception, text, TargetUnavailableError)
        for text in (
            "error sending request",
            "connection refused",
            "connection reset",
            "connection closed",
            "timed out",
            "service unavailable",
            "slowdown",
            "dns error",
        )
    ),
)

Result = TypeVar("Result")


def refusing(path: str, act: Callable[[], Result]) -> Result:
    """Return what delta-rs returns; its errors become ours."""
    try:
        return act()
    except TrailgateError:
        raise
    except DELTA_ERRORS as error:
        raise refusal(error, path) from None
    except Exception as error:
        # delta-rs raises some errors of schemas as bare exceptions.
        if type(error) is not Exception:
            raise
        raise refusal(error, path) from None


def refusal(error: Exception, path: str) -> TrailgateError:
    """Return the error for one of delta-rs."""
    text, where = str(error), Where(source=path)
    known = known_refusal(text, path)
    if known is not None:
        return known
    fault = fault_of(error, SIGNS)
    if fault is TargetConflictError:
        problem = f"another writer changed the table meanwhile: {line_of(text)}"
        return TargetConflictError(problem, where=where, hint="Nothing is lost: apply again")
    if fault is not None:
        return fault(f"delta-rs refuses: {line_of(text)}", where=where)
    rows = [line.strip()[1:-1] for line in text.splitlines() if line.startswith("|")]
    if len(rows) > 1:
        names, values = ([cell.strip() for cell in row.split("|")] for row in rows[:2])
        row = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
        problem = f"the table's constraints refuse a row: {row[:MOST_SIGNS]}"
        return ApplyError(problem, where=where, hint=CONSTRAINTS)
    return ApplyError(f"delta-rs refuses: {line_of(text)}", where=where)


def opening(error: Exception, path: str) -> TrailgateError:
    """Return the error of a table or folder that cannot be opened."""
    kind = fault_of(error, SIGNS) or StorageError
    return kind(line_of(str(error)), where=Where(source=path))


def known_refusal(text: str, path: str) -> ApplyError | None:
    """Return the error for a text that has a sign of REFUSALS; None for another one."""
    for sign, problem, hint in REFUSALS:
        found = re.search(sign, text)
        if found is not None:
            said = text[found.start() :].partition("\n\tat")[0]  # without the calls of Java
            return ApplyError(problem.format(line_of(said)), where=Where(source=path), hint=hint)
    return None


def line_of(text: str) -> str:
    """Return a text of several lines as one."""
    whole = " ".join(DRAWN.sub("", text).split())
    return whole if len(whole) <= MOST_SIGNS else f"{whole[:MOST_SIGNS]} ..."
