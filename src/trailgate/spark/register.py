"""Make the data sources known to a Spark session, where discovery by name does not reach."""

from __future__ import annotations

from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the formats ``trail`` and ``message_capture`` with a session.

    Needed where some broken ``pyspark_*`` package on the path keeps Spark from finding ours.
    """
    from trailgate.spark.message_source import MessageCaptureSource  # noqa: PLC0415
    from trailgate.spark.trail_source import TrailSource  # noqa: PLC0415

    for source in (TrailSource, MessageCaptureSource):
        spark.dataSource.register(source)
