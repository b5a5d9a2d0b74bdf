"""Data sources, sinks and jobs on Spark; the only room that imports pyspark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trailgate.spark.register import register
from trailgate.spark.session import session

if TYPE_CHECKING:
    from trailgate.spark.copybook_column import decode_copybook

__all__ = ["decode_copybook", "register", "session"]


def __getattr__(name: str) -> Any:
    # Every worker imports this room: copybooks are loaded by those who decode them.
    if name != "decode_copybook":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trailgate.spark.copybook_column import decode_copybook  # noqa: PLC0415

    return decode_copybook
