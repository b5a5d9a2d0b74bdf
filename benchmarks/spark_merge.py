"""A trail of updates into a Delta table, by one process, beside the MERGE of Delta on Spark of the latest row of each key, on two cores.

Delta for Spark exists for Spark 4.2, so Spark runs in an environment of its own (``benchmarks/.spark42``, made the first time), and reads the same operations from Parquet. Its start is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.apply import BLOCK, COLUMNS, TABLE, block_of_kind
from benchmarks.report import Figure, Target
from deltalake import write_deltalake

from trailgate import TrailAppender, apply_trail
from trailgate.model.changes import UPDATE, WHOLE, ChangeBatch
from trailgate.model.tables import Definitions

ENVIRONMENT: Final = Path(__file__).parent / ".spark42"
SPARK: Final = "pyspark==4.2.0"
DELTA: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
SCRIPT: Final = Path(__file__).with_name("spark_merge_process.py")
LEAST: Final = Target(5.0)


def run(*, quick: bool) -> list[Figure]:
    """Return operations a second of both."""
    blocks, rows = (2, 200_000) if quick else (10, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as name:
        folder = Path(name)
        _write_changes(folder, blocks)
        for table, count in (("ours", rows), ("theirs", rows), ("warm", BLOCK)):
            _write_table(folder / table / "shop" / "orders", count)
        began = time.perf_counter()
        report = apply_trail(folder / "ot", f"delta:{folder}/ours")
        ours = time.perf_counter() - began
        theirs = _spark_seconds(folder)
    operations = report.operations / 1e3
    what = f"{report.operations / 1e6:g} M updates of {rows / 1e6:g} M rows"
    return [
        Figure(
            what, operations / ours, "k operations/s", "Spark's MERGE", operations / theirs, LEAST
        )
    ]


def _write_changes(folder: Path, blocks: int) -> None:
    """Write updates to a trail, and as Parquet with the columns that they log."""
    (folder / "changes").mkdir()
    with TrailAppender(str(folder / "ot"), Definitions((TABLE,))) as trail:
        for number in range(blocks):
            block = block_of_kind(UPDATE, np.arange(BLOCK), number * BLOCK)
            block.tx_ind[:] = WHOLE
            trail.append(ChangeBatch([block], BLOCK))
            trail.commit(str(number))
            logged = {
                f"c{at}": one.values
                for at, one in enumerate(block.after)
                if at and one.values is not None
            }
            rows = {"id": np.arange(BLOCK), "position": block.position, **logged}
            pq.write_table(pa.table(rows), folder / "changes" / f"{number}.parquet")


def _write_table(path: Path, rows: int) -> None:
    text = pa.array([f"value {number}" for number in range(rows)])
    columns = {"id": np.arange(rows), **{f"c{at}": text for at in range(1, COLUMNS)}}
    write_deltalake(path, pa.table(columns))


def _python() -> Path:
    """Return the Python of the environment, made if it is not there."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "ready").exists():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", SPARK], check=True)
        (ENVIRONMENT / "ready").touch()
    return python


def _spark_seconds(folder: Path) -> float:
    own = ("SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    tables = [str(folder / name / "shop" / "orders") for name in ("theirs", "warm")]
    words = [DELTA, tables[0], str(folder / "changes"), tables[1]]
    command = [str(_python()), str(SCRIPT), *words]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        raise RuntimeError("Spark's MERGE did not run")
    seconds: float = json.loads(done.stdout.splitlines()[-1])
    return seconds
