"""The format ``trail`` on two cores, beside Spark's own Parquet of the same rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from benchmarks.report import Figure, fastest
from benchmarks.trail_codec import DEFINITIONS, TABLE, sample
from pyspark.sql import DataFrame

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.spark import session
from trailgate.spark.trail import read_trail
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

ROWS_A_FILE: Final = 250_000
RUNS: Final = 3


def run(*, quick: bool) -> list[Figure]:
    """Return one row for every shape and target."""
    files = 2 if quick else 8
    rows = files * ROWS_A_FILE
    spark = session("local[2]", "trailgate-benchmarks")
    figures = []
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        prefix = str(Path(folder, "ot"))
        _write(prefix, files)
        for shape, options in (("operations", {}), ("typed", {"table": TABLE.name})):
            parquet = str(Path(folder, shape))
            reader = spark.read.format("trail").options(**options)
            reader.load(prefix).write.parquet(parquet)
            frames = (reader.load(prefix), spark.read.parquet(parquet))
            figures += _compared(shape, frames, (rows, folder))
            by_arrow = read_trail(spark, prefix, table=options.get("table"))
            figures.append(_beside("mapInArrow", shape, (by_arrow, frames[1]), rows))
            names = frames[0].columns[:3]
            few = reader.schema(frames[0].select(*names).schema).load(prefix)
            part = frames[1].select(*names)
            figures.append(_beside("three columns", shape, (few, part), rows))
            few = read_trail(spark, prefix, table=options.get("table"), columns=names)
            figures.append(_beside("three columns, mapInArrow", shape, (few, part), rows))
    spark.stop()
    return figures


def _write(prefix: str, files: int) -> None:
    body = encode(sample(ROWS_A_FILE)).body
    for number in range(files):
        header = encode_header(FileHeader(trail=TrailInfo(seqno=number)))
        with Path(f"{prefix}{number:09}").open("wb") as file:
            file.write(header)
            file.write(body)
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))


def _beside(what: str, shape: str, frames: tuple[DataFrame, DataFrame], rows: int) -> Figure:
    ours, parquet = (
        rows / fastest(frame.write.format("noop").mode("overwrite").save, RUNS) / 1e6
        for frame in frames
    )
    return Figure(f"trail -> noop, {shape}, {what}", ours, "M rows/s", "Parquet -> noop", parquet)


def _compared(
    shape: str, frames: tuple[DataFrame, DataFrame], work: tuple[int, str]
) -> list[Figure]:
    assert frames[0].count() == frames[1].count() == work[0]
    rows, folder = work

    def to_noop(frame: DataFrame) -> float:
        return rows / fastest(frame.write.format("noop").mode("overwrite").save, RUNS) / 1e6

    def to_parquet(frame: DataFrame) -> float:
        write = frame.write.mode("overwrite")
        return rows / fastest(lambda: write.parquet(str(Path(folder, "out"))), RUNS) / 1e6

    unit = "M rows/s"
    return [
        Figure(
            f"trail -> noop, {shape}",
            to_noop(frames[0]),
            unit,
            "Parquet -> noop",
            to_noop(frames[1]),
        ),
        Figure(
            f"trail -> Parquet, {shape}",
            to_parquet(frames[0]),
            unit,
            "Parquet -> Parquet",
            to_parquet(frames[1]),
        ),
    ]
