"""A trail of updates into a Delta table, by one process and by a session of Spark that merges, beside the MERGE of Delta on Spark of the latest row of each key, on two cores.

Delta for Spark exists for Spark 4.2, so Spark is another PySpark than the installed one, fetched once, and by hand reads the same operations from Parquet. Its start is not counted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.apply import BLOCK, COLUMNS, TABLE, block_of_kind
from benchmarks.report import Figure, Target
from deltalake import write_deltalake

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from spark.other_spark import DELTA, environment_of
from trailgate import TrailAppender, apply_trail
from trailgate.model.changes import UPDATE, WHOLE, ChangeBatch
from trailgate.model.tables import Definitions

SCRIPT: Final = Path(__file__).with_name("spark_merge_process.py")
LEAST: Final = Target(5.0)


def run(*, quick: bool) -> list[Figure]:
    """Return operations a second of both."""
    blocks, rows = (2, 200_000) if quick else (10, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as name:
        folder = Path(name)
        _write_changes(folder, blocks)
        for table, count in (("ours", rows), ("session", rows), ("theirs", rows), ("warm", BLOCK)):
            _write_table(folder / table / "shop" / "orders", count)
        began = time.perf_counter()
        report = apply_trail(folder / "ot", f"delta:{folder}/ours")
        ours = time.perf_counter() - began
        session, theirs = _spark_seconds(folder)
    operations = report.operations / 1e3
    what = f"{report.operations / 1e6:g} M updates of {rows / 1e6:g} M rows"
    rate, beside = "k operations/s", ("Spark's MERGE", operations / theirs)
    return [
        Figure(what, operations / ours, rate, *beside, LEAST),
        Figure("the same, merge='session'", operations / session, rate, *beside),
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


def _spark_seconds(folder: Path) -> tuple[float, float]:
    """Return the seconds of apply by a session that merges, and of the MERGE by hand."""
    tables = [str(folder / name / "shop" / "orders") for name in ("theirs", "warm")]
    words = [
        tables[0],
        str(folder / "changes"),
        tables[1],
        str(folder / "ot"),
        f"delta:{folder}/session",
    ]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        env=environment_of(*DELTA),
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr)
        raise RuntimeError("Spark's MERGE did not run")
    session, by_hand = json.loads(done.stdout.splitlines()[-1])
    return session, by_hand
