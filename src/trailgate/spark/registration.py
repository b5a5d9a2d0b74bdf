"""Make the data sources known to a Spark session, where discovery by name does not reach."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Register the formats ``trail``, ``message_capture``, ``copybook`` and ``jms`` with a session.

    Relative paths are from this process's working folder then, wherever Spark plans: over Spark Connect that is a folder of
    Spark's own. Also needed where some broken ``pyspark_*`` package on the path keeps Spark from finding ours.
    """
    from trailgate.spark.copybook.source import CopybookSource  # noqa: PLC0415
    from trailgate.spark.messages.source import MessageCaptureSource  # noqa: PLC0415
    from trailgate.spark.trail.source import TrailSource  # noqa: PLC0415

    sources = [TrailSource, MessageCaptureSource, CopybookSource]
    with suppress(ImportError):  # before PySpark 4.2 there is no admission control
        from trailgate.spark.jms.source import JmsSource  # noqa: PLC0415

        sources.append(JmsSource)
    for source in sources:
        # A class that no module has is sent by value, with its folder.
        spark.dataSource.register(type(source.__name__, (source,), {"folder": str(Path.cwd())}))
