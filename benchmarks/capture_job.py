"""Messages to a trail on two cores, beside Spark's CSV to Parquet of the same file, and the job that one would write in PySpark."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.delimited import (
    DEFINITIONS,
    DEFINITIONS_NAME,
    KINDS,
    ROWS,
    Kind,
)
from benchmarks.report import Figure, Target, fastest
from pyspark.sql import SparkSession, functions

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.capture.job import plan_capture
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.spark import session
from trailgate.spark.jobs import run_capture

TARGET: Final = Target(3)
RUNS: Final = 3


def write_messages(folder: Path, kind: Kind, megabytes: int) -> tuple[Path, Path]:
    """Write line messages of about that size, properties and definitions.

    Return the paths of messages and properties.
    """
    (folder / DEFINITIONS_NAME).write_bytes(write_sourcedefs(DEFINITIONS))
    properties = folder / "bench.properties"
    text = kind.properties.replace(DEFINITIONS_NAME, str(folder / DEFINITIONS_NAME))
    properties.write_text(text)
    messages = folder / "messages.txt"
    block = kind.lines(ROWS)
    with messages.open("wb") as file:
        for _ in range(max(1, megabytes * 1_000_000 // len(block))):
            file.write(block)
    return messages, properties


def capture_job_of(messages: Path, properties: Path) -> CaptureJob:
    """Return the job that captures line messages into a trail beside them."""
    target = messages.parent / "trail" / "ot"
    options = CaptureOptions(message_per_line=True)
    return plan_capture(load_capture(properties), messages, target, options)


def run(*, quick: bool) -> list[Figure]:
    """Return MB/s of messages for both kinds."""
    spark = session("local[2]", "trailgate-benchmarks")
    figures = []
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
            figures += _measured(spark, kind, Path(folder), 100 if quick else 1000)
    spark.stop()
    return figures


def _measured(spark: SparkSession, kind: Kind, folder: Path, megabytes: int) -> list[Figure]:
    messages, properties = write_messages(folder, kind, megabytes)
    size = messages.stat().st_size / 1e6
    schema = ", ".join(f"c{i} string" for i in range(kind.columns))

    def capture() -> None:
        shutil.rmtree(folder / "trail", ignore_errors=True)
        run_capture(spark, capture_job_of(messages, properties))

    def rewrite() -> None:
        # The quote as escape makes Spark read doubled quotes as ours are.
        frame = spark.read.csv(str(messages), schema=schema, quote='"', escape='"')
        frame.write.mode("overwrite").parquet(str(folder / "parquet"))

    def by_hand() -> None:
        """Split lines, cast the columns, write them: no transactions, no order, no errors with places."""
        frame = spark.read.text(str(messages)).select(
            functions.from_csv("value", schema, {"quote": '"', "escape": '"'}).alias("row")
        )
        columns = [functions.col(f"row.c{i}") for i in range(kind.columns)]
        # As many columns are numbers and times as the tables have.
        cast = [columns[0].try_cast("timestamp"), columns[1].try_cast("bigint"), *columns[2:]]
        frame.select(*cast).write.mode("overwrite").parquet(str(folder / "parquet"))

    # The first runs load code. After that in turn, so that a slow minute slows all.
    acts = (capture, rewrite)
    for act in acts:
        act()
    times = [[fastest(act, 1) for act in acts] for _ in range(RUNS)]
    own, csv = (size / min(column) for column in zip(*times, strict=True))
    hand = size / fastest(by_hand, 1)  # takes ten times as long as ours
    name = f"messages -> trail, {kind.name}"
    return [
        Figure(
            name=name,
            figure=own,
            unit="MB/s",
            yardstick="Spark CSV -> Parquet",
            yardstick_figure=csv,
            target=TARGET,
        ),
        Figure(name, own, "MB/s", "read.text, from_csv, cast, write", hand),
    ]
