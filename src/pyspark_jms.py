"""Lets Spark find the format ``jms`` by its name alone (Spark imports every ``pyspark_*``), from PySpark 4.2 on."""

try:
    from trailgate.spark.jms import JmsSource as DefaultSource
except (
    ImportError
):  # before 4.2 there is no admission control; the other formats are found all the same
    __all__ = []
else:
    __all__ = ["DefaultSource"]
