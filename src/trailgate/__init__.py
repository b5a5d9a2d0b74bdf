"""Database changes from text messages to GoldenGate trails and back, in columns.

The names here, and those of ``trailgate.spark``, are public; everything else may move. Importing this loads neither pyarrow nor
numpy: each name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trailgate.errors import (
    BrokerError,
    BrokerRefusedError,
    DecodeError,
    DefinitionError,
    EncodeError,
    MissingDependencyError,
    OptionError,
    StorageError,
    TrailgateError,
    TransactionError,
    TruncatedError,
    Where,
    WriteError,
)

if TYPE_CHECKING:
    from trailgate.jobs.capture.files import capture_files
    from trailgate.jobs.capture.loading import load_capture, messages_from
    from trailgate.jobs.capture.options import CaptureSummary
    from trailgate.jobs.publishing.job import publish_trail
    from trailgate.jobs.publishing.options import PublishSummary
    from trailgate.jobs.querying.sql import query
    from trailgate.jobs.record_files.reading import read_records
    from trailgate.jobs.record_files.writing import write_records
    from trailgate.messages.capture import Capture, MessageBatch, Parsed, Problem, TransactionState
    from trailgate.messages.extract.rules import CaptureRules
    from trailgate.model.changes import ChangeBatch
    from trailgate.model.tables import Column, Definitions, Table
    from trailgate.storage.files.trail_files import TrailFiles, find_trail
    from trailgate.storage.live.appender import AppendOptions, Recovered, Recovery, TrailAppender
    from trailgate.storage.reading.trail.trails import read_trail
    from trailgate.trail.format.byte_order import ByteOrder
    from trailgate.trail.writing.trail_format import TrailFormat, UpdateFormat

__version__ = "0.1.0"

__all__ = [
    "AppendOptions",
    "BrokerError",
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
    "Recovered",
    "Recovery",
    "StorageError",
    "Table",
    "TrailAppender",
    "TrailFiles",
    "TrailFormat",
    "TrailgateError",
    "TransactionError",
    "TransactionState",
    "TruncatedError",
    "UpdateFormat",
    "Where",
    "WriteError",
    "__version__",
    "capture_files",
    "find_trail",
    "load_capture",
    "messages_from",
    "publish_trail",
    "query",
    "read_records",
    "read_trail",
    "write_records",
]

_MODULES = MappingProxyType(
    {
        "AppendOptions": "trailgate.storage.live.appender",
        "ByteOrder": "trailgate.trail.format.byte_order",
        "Capture": "trailgate.messages.capture",
        "CaptureRules": "trailgate.messages.extract.rules",
        "CaptureSummary": "trailgate.jobs.capture.options",
        "ChangeBatch": "trailgate.model.changes",
        "Column": "trailgate.model.tables",
        "Definitions": "trailgate.model.tables",
        "MessageBatch": "trailgate.messages.capture",
        "Parsed": "trailgate.messages.capture",
        "Problem": "trailgate.messages.capture",
        "PublishSummary": "trailgate.jobs.publishing.options",
        "Recovered": "trailgate.storage.live.appender",
        "Recovery": "trailgate.storage.live.appender",
        "Table": "trailgate.model.tables",
        "TrailAppender": "trailgate.storage.live.appender",
        "TrailFiles": "trailgate.storage.files.trail_files",
        "TrailFormat": "trailgate.trail.writing.trail_format",
        "TransactionState": "trailgate.messages.capture",
        "UpdateFormat": "trailgate.trail.writing.trail_format",
        "capture_files": "trailgate.jobs.capture.files",
        "find_trail": "trailgate.storage.files.trail_files",
        "load_capture": "trailgate.jobs.capture.loading",
        "messages_from": "trailgate.jobs.capture.loading",
        "publish_trail": "trailgate.jobs.publishing.job",
        "query": "trailgate.jobs.querying.sql",
        "read_records": "trailgate.jobs.record_files.reading",
        "write_records": "trailgate.jobs.record_files.writing",
        "read_trail": "trailgate.storage.reading.trail.trails",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
