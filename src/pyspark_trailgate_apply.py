"""Lets Spark find the format ``trailgate_apply`` by its name alone (Spark imports every ``pyspark_*``)."""

from trailgate.apply.spark.writer import ApplySink as DefaultSource

__all__ = ["DefaultSource"]
