"""Trailgate on Spark: trails, messages and copybook files as DataFrames, and captures run by Spark.

The names here are public. Each is imported when it is first used. Importing this module raises
MissingDependencyError if PySpark is not installed.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trailgate.errors import MissingDependencyError

if TYPE_CHECKING:
    from trailgate.apply.spark.trail import apply
    from trailgate.mainframe.spark.frames import decode_copybook, read_records, record_counts
    from trailgate.mainframe.spark.jobs import verify_records
    from trailgate.publish.spark.frames import publish
    from trailgate.spark.jobs import capture_runner
    from trailgate.spark.message_files import read_messages
    from trailgate.spark.message_frames import capture
    from trailgate.spark.sessions import register, session
    from trailgate.spark.trail import read_trail

__all__ = [
    "apply",
    "capture",
    "capture_runner",
    "decode_copybook",
    "publish",
    "read_messages",
    "read_records",
    "read_trail",
    "record_counts",
    "register",
    "session",
    "verify_records",
]

_MODULES = MappingProxyType(
    {
        "apply": "trailgate.apply.spark.trail",
        "capture": "trailgate.spark.message_frames",
        "capture_runner": "trailgate.spark.jobs",
        "decode_copybook": "trailgate.mainframe.spark.frames",
        "publish": "trailgate.publish.spark.frames",
        "read_messages": "trailgate.spark.message_files",
        "read_records": "trailgate.mainframe.spark.frames",
        "read_trail": "trailgate.spark.trail",
        "record_counts": "trailgate.mainframe.spark.frames",
        "register": "trailgate.spark.sessions",
        "session": "trailgate.spark.sessions",
        "verify_records": "trailgate.mainframe.spark.jobs",
    }
)


if importlib.util.find_spec("pyspark") is None:
    raise MissingDependencyError.of_extra("PySpark is not installed", "spark")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
