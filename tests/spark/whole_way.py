"""Run as a program: the whole way with relative paths on one kind of session; prints what came out, as JSON.

``python whole_way.py local-cluster|connect``, in a folder that ``capture_place.Place`` has filled.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

import trailgate
from laws import WHOLE, chance
from trailgate.spark import (
    apply,
    capture_runner,
    read_messages,
    read_records,
    read_trail,
    register,
    verify_records,
)
from trailgate.spark.sessions import session, spark_java_home


def on_cluster() -> SparkSession:
    """Return a session whose two workers are processes of their own."""
    conf = {"spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"]}
    return session("local-cluster[2,1,1024]", **conf)


def over_connect() -> SparkSession:
    """Return a session over Spark Connect: this process has no JVM."""
    os.environ["JAVA_HOME"] = str(spark_java_home())
    builder: Any = SparkSession.builder
    made: SparkSession = builder.remote("local[2]").getOrCreate()
    return made


KINDS: Final = ("local-cluster", "connect")
FOLDERS, STORE = "folders", "store"  # where the paths are
PLACES: Final = chance("ways elsewhere").sample((FOLDERS, STORE), 2)
WAYS: Final = list(product(PLACES, KINDS) if WHOLE else zip(PLACES, KINDS, strict=True))
SESSIONS: dict[str, Callable[[], SparkSession]] = {
    "local-cluster": on_cluster,
    "connect": over_connect,
}


def error_of(action: Callable[[], Any]) -> str:
    """Return the text of the error that an action raises."""
    try:
        action()
    except Exception as error:  # noqa: BLE001  each kind of session has kinds of its own
        return str(error)
    return ""


def streamed(spark: SparkSession, folder: str) -> int:
    """Return how many operations a stream of the trail has."""
    query = (
        spark.readStream.format("trail")
        .load("ob")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/streamed")
    )
    query.awaitTermination()
    count: int = spark.read.parquet(f"{folder}/streamed").count()
    return count


def published(spark: SparkSession, folder: str) -> bool:
    """Return whether batch and stream have the messages that files have, in one of the formats."""
    name = chance("published").choice(("debezium", "json", "delimited", "xml"))
    trailgate.publish_trail("ob", "published", name)
    lines = Path("published/messages-000000001.jsonl").read_text().splitlines()
    query = (
        spark.readStream.format("trail")
        .option("messages", name)
        .load("ob")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/publishing")
        .trigger(availableNow=True)
        .start(f"{folder}/messages-as-rows")
    )
    query.awaitTermination()
    batch = spark.read.format("trail").option("messages", name).load("ob")
    stream = spark.read.parquet(f"{folder}/messages-as-rows")
    bodies = [
        [bytes(row.value).decode() for row in rows.orderBy("position", "number").collect()]
        for rows in (batch, stream)
    ]
    return bodies == [[json.loads(line)["body"] for line in lines]] * 2


def streamed_into_a_trail(spark: SparkSession, folder: str) -> int:
    """Return how many operations a stream of messages writes into a trail."""
    frame = spark.readStream.format("message_capture").option("properties", "p.properties")
    query = (
        frame.load("messages")
        .writeStream.format("trail")
        .option("definitions", "orders.def")
        .option("checkpointLocation", f"{folder}/state")
        .trigger(availableNow=True)
        .start("od")
    )
    query.awaitTermination()
    return sum(batch.num_rows for batch in trailgate.read_trail("od"))


def streamed_into_tables(spark: SparkSession, folder: str) -> int:
    """Return how many operations of a trail remain to be applied after a stream has applied it."""
    query = (
        spark.readStream.format("trail")
        .load("ob")
        .writeStream.format("trailgate_apply")
        .options(to="delta:lake/", trail="ob", checkpointLocation=f"{folder}/applied")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return trailgate.apply_trail("ob", "delta:lake/").operations


def whole_way(spark: SparkSession) -> dict[str, Any]:
    """Return what captures, reads, streams and writes give."""
    folder = str(Path.cwd())
    found: dict[str, Any] = {}
    message_capture = spark.read.format("message_capture")
    found["unregistered"] = error_of(lambda: spark.read.format("trail").load("oa").count())
    found["unregistered properties"] = error_of(
        lambda: message_capture.option("properties", "p.properties").load("messages").count()
    )
    based = spark.read.format("trail").option("base", folder)
    found["based"] = error_of(lambda: based.load("oa").count())
    register(spark)
    done = trailgate.capture_files("messages", "ob", "p.properties", runner=capture_runner(spark))
    found["captured"] = done.operations
    found["trail"] = spark.read.format("trail").load("o[ab]").count()
    found["frame"] = read_trail(spark, "ob").count()
    found["streamed"] = streamed(spark, folder)
    found["published"] = published(spark, folder)
    found["streamed into a trail"] = streamed_into_a_trail(spark, folder)
    found["applied"] = apply(spark, "ob", "duckdb:ob.duckdb").operations
    found["applied as a stream"] = streamed_into_tables(spark, folder)
    properties = message_capture.option("properties", "p.properties")
    found["messages"] = properties.load("messages").count()
    found["message frame"] = read_messages(spark, "messages", "p.properties").count()
    records = spark.read.format("copybook").option("copybook", "r.cpy")
    found["records"] = records.load("one.dat").count()
    found["record frame"] = read_records(spark, "one.dat", "r.cpy").count()
    found["verified"] = verify_records(spark, "one.dat", "r.cpy").records
    operations = spark.read.format("trail").load("ob").coalesce(1)
    written = operations.drop("position", "seq_id").write.format("trail").mode("append")
    written.option("definitions", "orders.def").save("oc")
    found["written"] = sum(batch.num_rows for batch in trailgate.read_trail("oc"))
    return found


if __name__ == "__main__":
    running = SESSIONS[sys.argv[1]]()
    sys.stdout.write(json.dumps(whole_way(running)) + "\n")
    running.stop()
