"""Spark's way from a Kafka topic to Parquet, in a process of its own: its arguments are jars, port, topic and count."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Final

ROUNDS: Final = 3


def _spark_seconds(jars: str, port: str, topic: str, count: int) -> float:
    """Return the seconds that Spark takes to write a topic's messages as Parquet, once it is warm."""
    from trailgate.spark import session  # noqa: PLC0415  an extra

    spark = session("local[2]", "trailgate-benchmarks", **{"spark.jars": jars})
    reader = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", f"127.0.0.1:{port}")
        .option("subscribe", topic)
    )
    taken: list[float] = []
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        for turn in range(ROUNDS + 1):
            frame = reader.load().selectExpr(
                "CAST(value AS STRING) body", "timestamp", "partition", "offset"
            )
            started = time.perf_counter()
            frame.write.parquet(f"{folder}/{turn}")
            taken.append(time.perf_counter() - started)
        assert spark.read.parquet(f"{folder}/0").count() == count
    spark.stop()
    return min(taken[1:])


def main(arguments: Sequence[str]) -> None:
    """Print the seconds."""
    jars, port, topic, count = arguments
    print(_spark_seconds(jars, port, topic, int(count)))


if __name__ == "__main__":
    main(sys.argv[1:])
