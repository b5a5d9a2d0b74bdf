"""Database changes from text messages to GoldenGate trails and back, in columns.

The names here are loaded when they are asked for.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trailgate.errors import TrailgateError

if TYPE_CHECKING:
    from trailgate.messages.capture import Capture, MessageBatch, Parsed
    from trailgate.storage.appending import TrailAppender
    from trailgate.storage.copybook_files import read_records
    from trailgate.storage.loading import load_capture, messages_from
    from trailgate.storage.trail_options import ReadOptions
    from trailgate.storage.trails import find_trail, read_trail

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
]

_ROOMS = MappingProxyType(
    {
        "Capture": "trailgate.messages.capture",
        "MessageBatch": "trailgate.messages.capture",
        "Parsed": "trailgate.messages.capture",
        "ReadOptions": "trailgate.storage.trail_options",
        "find_trail": "trailgate.storage.trails",
        "TrailAppender": "trailgate.storage.appending",
        "load_capture": "trailgate.storage.loading",
        "messages_from": "trailgate.storage.loading",
        "read_records": "trailgate.storage.copybook_files",
        "read_trail": "trailgate.storage.trails",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ROOMS[name]), name)
