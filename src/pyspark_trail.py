"""Lets Spark find the format ``trail`` by its name alone (Spark imports every ``pyspark_*``)."""

from trailgate.spark.trail import TrailSource as DefaultSource

__all__ = ["DefaultSource"]
