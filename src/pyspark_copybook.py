"""Lets Spark find the format ``copybook`` by its name alone (Spark imports every ``pyspark_*``)."""

from trailgate.mainframe.spark.reader import CopybookSource as DefaultSource

__all__ = ["DefaultSource"]
