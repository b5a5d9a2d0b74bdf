"""Run as a program: the whole way with the trail and all else in a bucket, on one kind of session; prints what came out, as JSON.

``python whole_way_stored.py local-cluster|connect s3://BUCKET``, in a folder for checkpoints. The bucket has messages, properties and definitions.
The login is in ``S3_LOGIN``, as JSON of environment variables.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import trailgate
from spark.whole_way import over_connect
from trailgate.cli.main import run
from trailgate.spark import capture_runner, read_messages, register
from trailgate.spark.sessions import session

LOGIN: dict[str, str] = json.loads(os.environ.pop("S3_LOGIN"))


def on_cluster() -> SparkSession:
    """Return a session whose JVM has no login: its Python processes have that of spark.executorEnv."""
    names = {**LOGIN, "PYTHONPATH": os.environ["PYTHONPATH"]}
    conf = {f"spark.executorEnv.{name}": value for name, value in names.items()}
    made = session("local-cluster[2,1,1024]", **conf)
    os.environ.update(LOGIN)
    return made


def connected() -> SparkSession:
    """Return a session over Spark Connect whose server has the login in its environment."""
    os.environ.update(LOGIN)
    return over_connect()


SESSIONS: dict[str, Callable[[], SparkSession]] = {
    "local-cluster": on_cluster,
    "connect": connected,
}


class Steps:
    """What is done on a session, one after the other; all paths are from the bucket."""

    def __init__(self, spark: SparkSession, base: str) -> None:
        self.spark, self.base, self.folder = spark, base, Path.cwd()

    def read(self, kind: str, path: str, *, stream: bool = False) -> DataFrame:
        reader = self.spark.readStream if stream else self.spark.read
        made = reader.format(kind).option("base", self.base)
        if kind == "message_capture":
            made = made.option("properties", "dirprm/p.properties")
        return made.load(path)

    def streamed(self, frame: DataFrame, kind: str, target: str) -> None:
        writer = frame.writeStream.format(kind).trigger(availableNow=True)
        if kind == "trail":
            writer = writer.option("base", self.base).option("definitions", "dirdef/orders.def")
        name = target.rpartition("/")[2]
        writer.option("checkpointLocation", f"{self.folder}/{name}-state").start(
            target
        ).awaitTermination()

    def count(self, path: str) -> int:
        return sum(batch.num_rows for batch in trailgate.read_trail(f"{self.base}/{path}"))

    def capture(self) -> int:
        done = trailgate.capture_files(
            "in",
            "dirdat/ot",
            "dirprm/p.properties",
            base=self.base,
            runner=capture_runner(self.spark),
        )
        return done.operations

    def show(self) -> int:
        with redirect_stdout(StringIO()) as shown:
            assert run(["show", f"{self.base}/dirdat/ot", "--format", "json"]) == 0
            assert run(["check", f"{self.base}/dirdat/ot"]) == 0
        return shown.getvalue().count('"name ')

    def batch(self) -> list[int]:
        messages = read_messages(self.spark, "in", "dirprm/p.properties", base=self.base)
        return [self.read("trail", "dirdat/ot").count(), messages.count()]

    def stream(self) -> int:
        rows = f"{self.folder}/rows"
        self.streamed(self.read("trail", "dirdat/ot", stream=True), "parquet", rows)
        return int(self.spark.read.parquet(rows).count())

    def stream_into_a_trail(self) -> int:
        frame = self.read("message_capture", "in", stream=True)
        self.streamed(frame, "trail", "dirdat/os")
        return self.count("dirdat/os")

    def write(self) -> int:
        """Add the operations of one trail to the other one."""
        frame = self.read("trail", "dirdat/ot").drop("position", "seq_id").coalesce(1)
        frame.write.format("trail").mode("append").option("base", self.base).save("dirdat/os")
        return self.count("dirdat/os")


def whole_way(spark: SparkSession, base: str) -> dict[str, Any]:
    """Return what captures, reads, streams and writes give."""
    register(spark)
    steps = Steps(spark, base)
    made = (steps.capture, steps.show, steps.batch, steps.stream, steps.stream_into_a_trail)
    return {step.__name__: step() for step in (*made, steps.write)}


if __name__ == "__main__":
    running = SESSIONS[sys.argv[1]]()
    sys.stdout.write(json.dumps(whole_way(running, sys.argv[2])) + "\n")
    running.stop()
