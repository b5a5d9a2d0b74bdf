"""Runs Spark's MERGE by another PySpark: a table and its changes, by hand and from a trail; prints the seconds of both as JSON."""

from __future__ import annotations

import json
import os
import sys
import time

from pyspark.sql import SparkSession

import trailgate.spark


def main(table: str, changes: str, warm: str, trail: str, target: str) -> None:
    """Merge the latest row of each key into a table: once into a small one to load code, then once; then apply the trail to another table."""
    builder = SparkSession.builder.master("local[2]")
    builder = builder.config("spark.jars", os.environ["SESSION_JARS"])
    builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", 8)
    builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    spark = builder.config("spark.sql.catalog.spark_catalog", catalog).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.conf.set("spark.databricks.delta.snapshotPartitions", 2)
    seconds = []
    for merged in (warm, table):
        start = time.perf_counter()
        frame = spark.read.parquet(changes)
        names = [name for name in frame.columns if name not in ("id", "position")]
        frame.createOrReplaceTempView("changes")
        spark.sql(
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY position DESC) AS n FROM changes) WHERE n = 1"
        ).createOrReplaceTempView("latest")
        values = ", ".join(f"t.{name} = s.{name}" for name in names)
        spark.sql(
            f"MERGE INTO delta.`{merged}` t USING latest s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {values}"
        ).collect()
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    trailgate.spark.apply(spark, trail, target, merge="session")
    applied = time.perf_counter() - start
    spark.stop()
    print(json.dumps([applied, seconds[1]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
