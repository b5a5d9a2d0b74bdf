"""Capture database changes from text messages into GoldenGate trails, read trails, and apply them.

The names here and in ``trailgate.spark`` are public; everything else may move. Importing this
module loads neither pyarrow nor numpy, because each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trailgate.errors import (
    ApplyError,
    BrokerError,
    BrokerFullError,
    BrokerRefusedError,
    DecodeError,
    DefinitionError,
    EncodeError,
    MissingDependencyError,
    OptionError,
    StorageError,
    TargetConflictError,
    TargetLockedError,
    TargetUnavailableError,
    TrailgateError,
    TransactionError,
    TruncatedError,
    Where,
    WriteError,
)

if TYPE_CHECKING:
    from trailgate.apply.jobs.apply import apply_trail
    from trailgate.apply.jobs.repaired import apply_repaired
    from trailgate.apply.jobs.reports import ApplyReport
    from trailgate.apply.jobs.verify import VerifyReport, verify_tables
    from trailgate.capture.capture import Capture, Parsed
    from trailgate.expressions.capture_rules import CaptureRules
    from trailgate.jobs.capture.job import capture_files
    from trailgate.jobs.capture.loading import load_capture
    from trailgate.jobs.capture.summary import CaptureSummary
    from trailgate.jobs.redacting import RedactSummary, redact_trail
    from trailgate.mainframe.jobs.reading import read_records
    from trailgate.mainframe.jobs.verifying import RecordsReport, verify_records
    from trailgate.mainframe.jobs.writing import write_records
    from trailgate.messages.message_batch import MessageBatch, messages_from
    from trailgate.messages.problems import Problem
    from trailgate.messages.units import TransactionState
    from trailgate.model.changes import ChangeBatch
    from trailgate.model.tables import Column, Definitions, Table
    from trailgate.publish.job import PublishSummary, publish_trail
    from trailgate.sql.job import query
    from trailgate.storage.files.trail_files import TrailFiles, find_trail
    from trailgate.storage.live.appender import TrailAppender
    from trailgate.storage.live.live_trail import AppendOptions, Recovery
    from trailgate.storage.live.recovery import Recovered
    from trailgate.storage.reading.trails import read_trail
    from trailgate.trail.format.tokens import ByteOrder
    from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat

__version__ = "0.1.0"

__all__ = [
    "AppendOptions",
    "ApplyError",
    "ApplyReport",
    "BrokerError",
    "BrokerFullError",
    "BrokerRefusedError",
    "ByteOrder",
    "Capture",
    "CaptureRules",
    "CaptureSummary",
    "ChangeBatch",
    "Column",
    "DecodeError",
    "DefinitionError",
    "Definitions",
    "EncodeError",
    "MessageBatch",
    "MissingDependencyError",
    "OptionError",
    "Parsed",
    "Problem",
    "PublishSummary",
    "RecordsReport",
    "Recovered",
    "Recovery",
    "RedactSummary",
    "StorageError",
    "Table",
    "TargetConflictError",
    "TargetLockedError",
    "TargetUnavailableError",
    "TrailAppender",
    "TrailFiles",
    "TrailFormat",
    "TrailgateError",
    "TransactionError",
    "TransactionState",
    "TruncatedError",
    "UpdateFormat",
    "VerifyReport",
    "Where",
    "WriteError",
    "__version__",
    "apply_repaired",
    "apply_trail",
    "capture_files",
    "find_trail",
    "load_capture",
    "messages_from",
    "publish_trail",
    "query",
    "read_records",
    "read_trail",
    "redact_trail",
    "verify_records",
    "verify_tables",
    "write_records",
]

_MODULES = MappingProxyType(
    {
        "AppendOptions": "trailgate.storage.live.appender",
        "ApplyReport": "trailgate.apply.jobs.reports",
        "apply_repaired": "trailgate.apply.jobs.repaired",
        "apply_trail": "trailgate.apply.jobs.apply",
        "VerifyReport": "trailgate.apply.jobs.verify",
        "verify_tables": "trailgate.apply.jobs.verify",
        "ByteOrder": "trailgate.trail.format.tokens",
        "Capture": "trailgate.capture.capture",
        "CaptureRules": "trailgate.expressions.capture_rules",
        "CaptureSummary": "trailgate.jobs.capture.summary",
        "ChangeBatch": "trailgate.model.changes",
        "Column": "trailgate.model.tables",
        "Definitions": "trailgate.model.tables",
        "MessageBatch": "trailgate.capture.capture",
        "Parsed": "trailgate.capture.capture",
        "Problem": "trailgate.capture.capture",
        "PublishSummary": "trailgate.publish.job",
        "Recovered": "trailgate.storage.live.appender",
        "Recovery": "trailgate.storage.live.appender",
        "Table": "trailgate.model.tables",
        "TrailAppender": "trailgate.storage.live.appender",
        "TrailFiles": "trailgate.storage.files.trail_files",
        "TrailFormat": "trailgate.trail.writing.trail_format",
        "TransactionState": "trailgate.capture.capture",
        "UpdateFormat": "trailgate.trail.writing.trail_format",
        "capture_files": "trailgate.jobs.capture.job",
        "find_trail": "trailgate.storage.files.trail_files",
        "load_capture": "trailgate.jobs.capture.loading",
        "messages_from": "trailgate.messages.message_batch",
        "publish_trail": "trailgate.publish.job",
        "RedactSummary": "trailgate.jobs.redacting",
        "redact_trail": "trailgate.jobs.redacting",
        "query": "trailgate.sql.job",
        "read_records": "trailgate.mainframe.jobs.reading",
        "RecordsReport": "trailgate.mainframe.jobs.verifying",
        "verify_records": "trailgate.mainframe.jobs.verifying",
        "write_records": "trailgate.mainframe.jobs.writing",
        "read_trail": "trailgate.storage.reading.trails",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
