"""Run as a program: a broker's queue through the formats ``jms`` and ``trail`` into a trail, until a file ``stop`` is there.

``python jms_to_trail.py FOLDER URL``: the folder is that of ``brokers.live_place.LivePlace``. A query that fails, since a process of it was
killed, is started again.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from trailgate.spark.sessions import session

BUSY = {"spark.python.authenticate.socketTimeout": "300s"}  # a machine that does other things too
NO_MESSAGES_SECONDS = 0.2


def started(spark: SparkSession, folder: Path, url: str, *, to_the_end: bool) -> StreamingQuery:
    """Start the query; its batches are small."""
    reader = spark.readStream.format("jms").option("url", url)
    reader = reader.option("properties", str(folder / "p.properties"))
    frame = reader.option("maxMessagesPerTrigger", "500").load(str(folder / "ot.journal"))
    writer = frame.writeStream.format("trail").option("definitions", str(folder / "orders.def"))
    writer = writer.option("checkpointLocation", str(folder / "state"))
    writer = writer.trigger(availableNow=True) if to_the_end else writer
    return writer.start(str(folder / "ot"))


def main(folder: Path, url: str) -> None:
    spark = session("local[2]", "jms-to-trail", **BUSY)
    while not (folder / "stop").exists():
        query = started(spark, folder, url, to_the_end=False)
        sys.stdout.write("started\n")
        sys.stdout.flush()
        try:
            while query.isActive and not (folder / "stop").exists():
                time.sleep(NO_MESSAGES_SECONDS)
            if query.isActive:
                query.stop()
            query.awaitTermination()
        except PySparkException as error:
            sys.stdout.write(f"failed: {str(error)[:2000]}\n")
    query = started(spark, folder, url, to_the_end=True)
    query.awaitTermination()
    sys.stdout.write("done\n")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
