"""Fixed records to Parquet on two cores, beside Cobrix, the copybook reader of the JVM.

A DataFrame of them is written by Spark, so it is measured beside the same rows read from Parquet and written by Spark too: no source of rows is faster than what Spark does with them.
Cobrix runs on the Spark it supports, so in an environment of its own (``benchmarks/.cobrix``, made the
first time) and as a process of its own, which is told the same file and copybook. Spark's start is not counted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.fixed import LAYOUTS, SAMPLE_ROWS, sample
from benchmarks.report import Figure, Target, fastest
from pyspark.sql import SparkSession

from trailgate.cobol.copybook.reader import read_copybook
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.parquet import prepare_parquet
from trailgate.mainframe.spark.jobs import run_parquet
from trailgate.spark import read_records, session

ENVIRONMENT: Final = Path(__file__).parent / ".cobrix"
SPARK: Final = "pyspark==3.5.3"
COBRIX: Final = "za.co.absa.cobrix:spark-cobol_2.12:2.6.9"
SCRIPT: Final = Path(__file__).with_name("cobrix_process.py")
JOB: Final = Target(15)
FRAME: Final = Target(0.5)  # of Spark's own reading of Parquet
MEGABYTES: Final = 200
RUNS: Final = 2
SPLITS: Final = 4  # Cobrix splits files of this size alike


def run(*, quick: bool) -> list[Figure]:
    """Return MB/s of records for each layout."""
    spark = session("local[2]", "trailgate-benchmarks")
    python = cobrix_python()
    figures = []
    for name, copybook in LAYOUTS:
        with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
            text = fixed_format(copybook())
            job = Job(Path(folder), text, 20 if quick else MEGABYTES)
            figures += _measured(spark, python, name, job)
    spark.stop()
    return figures


def fixed_format(text: str) -> str:
    """Return a copybook with its text from column 8 on, which Cobrix needs."""
    return "\n".join(" " * 7 + line.lstrip() for line in text.strip().splitlines()) + "\n"


class Job:
    """A file of records and its copybook in a folder."""

    def __init__(self, folder: Path, text: str, megabytes: int) -> None:
        self.data, self.copybook, self.target = (
            folder / "records.dat",
            folder / "records.cpy",
            folder / "parquet",
        )
        self.copybook.write_text(text)
        (layout,) = read_copybook(text)
        block = sample(layout, SAMPLE_ROWS).data
        repeated = np.tile(block, max(1, megabytes * 1_000_000 // len(block)))
        self.data.write_bytes(repeated.tobytes())
        self.bytes = len(repeated)


def _measured(spark: SparkSession, python: Path, name: str, job: Job) -> list[Figure]:
    def by_job() -> None:
        shutil.rmtree(job.target, ignore_errors=True)
        options = CopybookOptions.of(
            {"copybook": str(job.copybook), "split_bytes": str(-(-job.bytes // SPLITS))}
        )
        run_parquet(spark, prepare_parquet(str(job.data), str(job.target), options))

    def by_frame() -> None:
        paths = (str(job.data), str(job.copybook))
        frame = read_records(spark, *paths, split_bytes=-(-job.bytes // SPLITS))
        frame.write.mode("overwrite").parquet(str(job.target))

    def by_parquet() -> None:
        spark.read.parquet(str(rows)).write.mode("overwrite").parquet(str(job.target))

    rows = job.target.with_name("rows")
    size = job.bytes / 1e6
    rates = []
    for way in (by_job, by_frame, by_parquet):
        way()
        rates.append(size / fastest(way, RUNS))
        if way is by_job:
            job.target.rename(rows)
    shutil.rmtree(job.target)
    own, frame, parquet = rates
    beside = size / min(cobrix_seconds(python, job))
    what = f"by a DataFrame, {name}"
    return [
        Figure(
            name=f"records -> Parquet, {name}",
            figure=own,
            unit="MB/s",
            yardstick="Cobrix",
            yardstick_figure=beside,
            target=JOB,
        ),
        Figure(what, frame, "MB/s", "Cobrix", beside),
        Figure(
            name=what,
            figure=frame,
            unit="MB/s",
            yardstick="Spark's own Parquet",
            yardstick_figure=parquet,
            target=FRAME,
        ),
    ]


def cobrix_python() -> Path:
    """Return the Python of the environment, made if it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "ready").exists():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", SPARK], check=True)
        (ENVIRONMENT / "ready").touch()
    return python


def cobrix_seconds(python: Path, job: Job) -> list[float]:
    """Return the seconds that Cobrix takes for the job, each of some runs."""
    own = ("SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    paths = [str(job.data), str(job.copybook), str(job.target)]
    done = subprocess.run(
        [python, SCRIPT, COBRIX, *paths, str(RUNS)],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        raise RuntimeError("Cobrix did not run")
    times: list[float] = json.loads(done.stdout.splitlines()[-1])
    return times
