"""Runs Cobrix on its own Spark: package, data, copybook, target and runs; prints seconds as JSON."""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession


def main(package: str, data: str, copybook: str, target: str, runs: int) -> None:
    """Read the records and write them as Parquet: once to load code, then some times."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", package)
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with open(copybook) as file:  # noqa: PTH123  runs on any Python
        text = file.read()
    seconds = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        frame = spark.read.format("cobol").option("copybook_contents", text).load(data)
        frame.write.mode("overwrite").parquet(target)
        seconds.append(time.perf_counter() - start)
    spark.stop()
    print(json.dumps(seconds[1:]))


if __name__ == "__main__":
    package, data, copybook, target, runs = sys.argv[1:]
    main(package, data, copybook, target, int(runs))
