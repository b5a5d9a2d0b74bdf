"""Convert errors of delta-rs, and of Delta on Spark, to our errors, with hints for the known ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeVar

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from trailgate.apply.targets.faults import DISK, FaultSign, build_conflict_error, find_fault
from trailgate.errors import (
    ApplyError,
    StorageError,
    TargetConflictError,
    TargetUnavailableError,
    TrailgateError,
    Where,
    WriteError,
)

MOST_SIGNS: Final = 300  # characters of an error of the library
DELTA_ERRORS: Final = (DeltaError, pa.ArrowException, OSError, ValueError)
CONSTRAINTS: Final = "Change the NOT NULL or CHECK constraint, or exclude the table with --tables"
CHANGES_REFUSED: Final = (
    "the table does not allow updates and deletes: its property delta.appendOnly is true"
)
APPEND_HINT: Final = "Apply to it with --mode append, or set the property to false"
# Permanent errors of delta-rs or of Delta on Spark: a pattern of the text, the problem, and a hint. {}
# is replaced by the library's text.
REFUSALS: Final = (
    (
        r"append-only|DELTA_CANNOT_MODIFY_APPEND_ONLY",
        CHANGES_REFUSED,
        APPEND_HINT,
    ),
    (
        r"DELTA_VIOLATE_CONSTRAINT|DELTA_NOT_NULL_CONSTRAINT",
        "the table's constraints refuse a row: {}",
        CONSTRAINTS,
    ),
    (
        r"Unsupported table features",
        "delta-rs cannot write tables with this feature: {}",
        "Apply with a Spark session that has Delta, trailgate.spark.apply(..., merge='session'), or drop the feature: ALTER TABLE t DROP FEATURE name",
    ),
    (
        r"Column mapping is not supported",
        "delta-rs cannot do this to a table with mapped column names: {}",
        "Add the trail's new columns with Spark, ALTER TABLE t ADD COLUMNS (...), and apply again",
    ),
    (
        r"Duplicate field name",
        "Delta does not allow columns whose names differ only in case: {}",
        "Rename one of them with COLMAP in a parameter file",
    ),
)
# delta-rs prints a coloured arrow before each cause of an error.
DRAWN: Final = re.compile(r"\x1b\[[\d;]*m|\u21b3")
# A store's answer, and the parts of it that describe an error.
XML: Final = re.compile(r"<\?xml.*</Error>", re.DOTALL)
# The texts in an answer of S3 or Azure: <Code>NoSuchKey</Code><Message>The key ...</Message>
XML_TEXTS: Final = re.compile(r"<(?:Code|Message)>([^<]*)")
# Errors of stores: a pattern, and what it means.
STORE: Final = re.compile(r"Generic (?:S3|MicrosoftAzure|GCS) error")
STORE_CAUSES: Final = (
    # The address at which a cloud gives its own machines a login.
    (r"169\.254\.169\.254", "no login for the store was found"),
    (r"NoSuchBucket|ContainerNotFound", "the bucket or container does not exist"),
    (
        r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|AuthenticationFailed|401 Unauthorized",
        "the store refuses the login",
    ),
    (r"AccessDenied|AuthorizationFailure|403 Forbidden", "the store denies access"),
    (r"[Cc]onnection refused", "nothing answers at the store's address"),
    (r"dns error", "the store's host is unknown"),
    (r"InvalidContentType", "the store does not use TLS at this address"),
    (r"certificate", "the certificate of the store is not trusted"),
    (r"SlowDown|503 Service Unavailable", "the store is overloaded"),
    (r"timed out", "the store takes too long to answer"),
    (
        r"[Cc]onnection (?:reset|closed)|error sending request",
        "the connection to the store was lost",
    ),
)
# The address that a request was sent to, without its path.
HOST: Final = re.compile(r"https?://[^/\s]+")
SIGNS: Final = (
    *DISK,
    FaultSign(CommitFailedError, "", TargetConflictError),
    # Two runs create the same table.
    FaultSign(Exception, "table already exists", TargetConflictError),
    # VACUUM has removed a file of the snapshot meanwhile.
    FaultSign(Exception, "object at location", TargetConflictError),
    FaultSign(Exception, "permission denied", WriteError),
    *(
        FaultSign(Exception, text, TargetUnavailableError)
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


def call_delta(path: str, act: Callable[[], Result]) -> Result:
    """Call ``act``, and convert delta-rs's errors about the table at ``path`` to ours."""
    try:
        return act()
    except TrailgateError:
        raise
    except DELTA_ERRORS as error:
        raise convert_delta_error(error, path) from None
    except Exception as error:
        # delta-rs raises some schema errors as plain ``Exception``.
        if type(error) is not Exception:
            raise
        raise convert_delta_error(error, path) from None


def convert_delta_error(error: Exception, path: str) -> TrailgateError:
    """Convert an error of delta-rs about the table at ``path`` to ours: a fault to retry, or a refusal with its cause."""
    text, where = str(error), Where(source=path)
    known = match_known_refusal(text, path)
    if known is not None:
        return known
    fault = find_fault(error, SIGNS)
    if fault is TargetConflictError:
        return build_conflict_error(join_error_lines(text), path)
    of_store = describe_store_error(text)
    if fault is not None or of_store is not None:
        problem = of_store or f"delta-rs refuses: {join_error_lines(text)}"
        return (fault or StorageError)(problem, where=where)
    # A violated constraint is printed as a table, with the columns' names and the refused row:
    #   +----+-----+
    #   | id | qty |
    #   +----+-----+
    #   | 7  | -1  |
    #   +----+-----+
    rows = [line.strip()[1:-1] for line in text.splitlines() if line.startswith("|")]
    if len(rows) > 1:
        names, values = ([cell.strip() for cell in row.split("|")] for row in rows[:2])
        row = ", ".join(f"{name}={value}" for name, value in zip(names, values, strict=False))
        problem = f"the table's constraints refuse a row: {row[:MOST_SIGNS]}"
        return ApplyError(problem, where=where, hint=CONSTRAINTS)
    return ApplyError(f"delta-rs refuses: {join_error_lines(text)}", where=where)


def convert_open_error(error: Exception, path: str) -> TrailgateError:
    """Convert an error from opening a Delta table, or a folder of them, to ours."""
    kind = find_fault(error, SIGNS) or StorageError
    problem = describe_store_error(str(error)) or join_error_lines(str(error))
    return kind(problem, where=Where(source=path))


def describe_store_error(text: str) -> str | None:
    """Describe an error that delta-rs got from an object store: first the cause, then the store's own words.

    Returns None for other errors.

    delta-rs begins with ``Kernel error``, ``Generic S3 error`` and the request, and ends with the
    cause.
    """
    if STORE.search(text) is None:
        return None
    meaning = next((words for sign, words in STORE_CAUSES if re.search(sign, text)), None)
    answer, host = XML.search(text), HOST.search(text)
    lines = [line.strip(" :") for line in DRAWN.sub("", text).splitlines()]
    own = _describe_answer(answer) if answer else next(filter(None, reversed(lines)), "")
    asked = "" if host is None else f", at {host[0]}"
    return f"{meaning or 'the store refuses'}: {own[:MOST_SIGNS]}{asked}"


def match_known_refusal(text: str, path: str) -> ApplyError | None:
    """Build the error for a text of delta-rs or Spark that matches a row of ``REFUSALS``, or return None."""
    for sign, problem, hint in REFUSALS:
        match = re.search(sign, text)
        if match is not None:
            said = text[match.start() :].partition("\n\tat")[0]  # without Java's stack trace
            return ApplyError(
                problem.format(join_error_lines(said)), where=Where(source=path), hint=hint
            )
    return None


def join_error_lines(text: str) -> str:
    """Join the lines of a Delta error and shorten it to about 300 characters.

    delta-rs begins with the failed step and ends with the cause, so both ends are kept. Of a
    store's answer in XML only the code and the message are kept.
    """
    text = XML.sub(_describe_answer, DRAWN.sub("", text))
    whole = " ".join(text.split())
    if len(whole) <= MOST_SIGNS:
        return whole
    half = MOST_SIGNS // 2
    return f"{whole[:half].rpartition(' ')[0]} ... {whole[-half:].partition(' ')[2]}"


def _describe_answer(answer: re.Match[str]) -> str:
    return ": ".join(found[1] for found in XML_TEXTS.finditer(answer[0]))
