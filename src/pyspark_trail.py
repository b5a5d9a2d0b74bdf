"""Lets Spark find the format ``trail`` by its name alone (Spark imports every ``pyspark_*``)."""

from trailgate.publish.spark.source import PublishingTrailSource as DefaultSource

__all__ = ["DefaultSource"]
