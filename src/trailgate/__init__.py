"""Database changes from text messages to GoldenGate trails and back, in columns.

The names here are loaded when they are asked for.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trailgate.errors import TrailgateError

if TYPE_CHECKING:
    from trailgate.jobs.capture.loading import load_capture, messages_from
    from trailgate.jobs.record_files.reading import read_records
    from trailgate.jobs.record_files.writing import write_records
    from trailgate.messages.capture import Capture, MessageBatch, Parsed
    from trailgate.storage.live.appender import TrailAppender
    from trailgate.storage.reading.options import ReadOptions
    from trailgate.storage.reading.trails import find_trail, read_trail

__all__ = [
    "Capture",
    "MessageBatch",
    "Parsed",
    "ReadOptions",
    "TrailAppender",
    "TrailgateError",
    "find_trail",
    "load_capture",
    "messages_from",
    "read_records",
    "read_trail",
    "write_records",
]

_ROOMS = MappingProxyType(
    {
        "Capture": "trailgate.messages.capture",
        "MessageBatch": "trailgate.messages.capture",
        "Parsed": "trailgate.messages.capture",
        "ReadOptions": "trailgate.storage.reading.options",
        "find_trail": "trailgate.storage.reading.trails",
        "TrailAppender": "trailgate.storage.live.appender",
        "load_capture": "trailgate.jobs.capture.loading",
        "messages_from": "trailgate.jobs.capture.loading",
        "read_records": "trailgate.jobs.record_files.reading",
        "write_records": "trailgate.jobs.record_files.writing",
        "read_trail": "trailgate.storage.reading.trails",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ROOMS[name]), name)
