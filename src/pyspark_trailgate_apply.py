"""Lets Spark find the format ``trailgate_apply`` by its name alone (Spark imports every ``pyspark_*``)."""

from trailgate.spark.apply_sink import ApplySink as DefaultSource

__all__ = ["DefaultSource"]
