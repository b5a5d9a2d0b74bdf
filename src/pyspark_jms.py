"""Lets Spark find the format ``jms`` by its name alone (Spark imports every ``pyspark_*``), from PySpark 4.2 on."""

from trailgate.spark.sources import HAS_LIMITS

if HAS_LIMITS:
    from trailgate.live.spark import JmsSource as DefaultSource

    __all__ = ["DefaultSource"]
else:
    __all__ = []  # the other formats are found all the same
