"""Data sources, sinks and jobs on Spark; the only room that imports pyspark."""

from trailgate.spark.copybook_column import decode_copybook
from trailgate.spark.register import register
from trailgate.spark.session import session

__all__ = ["decode_copybook", "register", "session"]
