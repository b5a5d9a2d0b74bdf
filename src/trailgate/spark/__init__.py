"""Trailgate on Spark: formats for sessions, messages of a DataFrame as operations, captures run by Spark.

Each name is loaded when it is first used; MissingDependencyError says so where PySpark is not installed.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trailgate.errors import MissingDependencyError

if TYPE_CHECKING:
    from trailgate.spark.capture_job import capture_runner
    from trailgate.spark.captured_frame import capture
    from trailgate.spark.copybook_column import decode_copybook
    from trailgate.spark.local_session import session
    from trailgate.spark.registration import register

__all__ = ["capture", "capture_runner", "decode_copybook", "register", "session"]

_MODULES = MappingProxyType(
    {
        "capture": "trailgate.spark.captured_frame",
        "capture_runner": "trailgate.spark.capture_job",
        "decode_copybook": "trailgate.spark.copybook_column",
        "register": "trailgate.spark.registration",
        "session": "trailgate.spark.local_session",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "pyspark":
            raise
        problem, hint = "PySpark is not installed", "pip install 'trailgate[spark]'"
        raise MissingDependencyError(problem, hint=hint) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
