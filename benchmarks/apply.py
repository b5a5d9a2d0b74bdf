"""Apply: the net effect of a batch beside its replay row by row, a trail into a Delta table by one process and by Spark, and the memory of a long transaction."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.memory import peak
from benchmarks.report import Figure, Target, fastest

from trailgate import TrailAppender, apply_trail
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.nets import compute_net_changes
from trailgate.apply.effects.operations import TargetOperations, convert_blocks
from trailgate.apply.effects.replay import OperationReplay
from trailgate.apply.effects.tables import make_target_table
from trailgate.model.changes import (
    ABSENT,
    INSERT,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
    Image,
    StateColumn,
)
from trailgate.model.positions import format_positions
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.transactions import transaction_indicators
from trailgate.spark import apply, session

COLUMNS: Final = 8
BLOCK: Final = 100_000  # operations of one block, on as many keys
REPLAYED: Final = 20_000
LEAST: Final = Target(10.0)
FLAT: Final = Target(1.2, at_most=True)
TABLE: Final = Table(
    "SHOP.ORDERS",
    (Column("ID", 134, 8, key=True), *(Column(f"C{at}", 64, 40) for at in range(1, COLUMNS))),
)
TARGET: Final = make_target_table(TABLE)
EMPTY: Final = TARGET.schema.empty_table()


def run(*, quick: bool) -> list[Figure]:
    """Return a row of net effects, rows of a trail applied by one process and by Spark, and one of the memory of a long transaction."""
    figures = [_net_effects(100_000 if quick else 1_000_000)]
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        figures += _trail_to_tables(Path(folder), 1 if quick else 10)
    return figures


def block_of_kind(kind: int, keys: npt.NDArray[np.int64], begin: int) -> ChangeBlock:
    """Return inserts with all columns, or updates that log every other one."""
    rows = len(keys)
    text = pa.array([f"value {number}" for number in range(rows)], pa.string())
    after: Image = (
        StateColumn(pa.array(keys)),
        *(StateColumn(text) if kind == INSERT or at % 2 else ABSENT for at in range(1, COLUMNS)),
    )
    before = (after[0], *after[1:1], *((ABSENT,) * (COLUMNS - 1)))
    return ChangeBlock(
        table=TABLE,
        order=np.arange(rows),
        op_type=np.full(rows, kind, np.uint8),
        op_ts=np.zeros(rows, np.int64),
        tx_ind=np.zeros(rows, np.uint8),
        tx_id=text,
        csn=text,
        seq_id=None,
        position=format_positions(0, np.arange(begin, begin + rows)),
        before=(ABSENT,) * COLUMNS if kind == INSERT else before,
        after=after,
    )


def _operations(kind: int, keys: npt.NDArray[np.int64], begin: int = 0) -> TargetOperations:
    return convert_blocks(TARGET, [block_of_kind(kind, keys, begin)], [np.arange(len(keys))])


def _net_effects(rows: int) -> Figure:
    drawn = np.random.default_rng(1)
    operations = _operations(UPDATE, drawn.integers(0, rows // 4, rows))
    own = fastest(lambda: compute_net_changes(operations), 3)
    some = operations.take(np.arange(REPLAYED))
    there = pa.table({name: pa.nulls(rows // 4, kind) for name, kind in _types()})
    there = there.set_column(0, "id", pa.array(np.arange(rows // 4)))

    beside = min(
        _seconds_of(partial(OperationReplay(TARGET, there, CollisionPolicy.STOP).run, some))
        for _ in range(2)
    )
    return Figure(
        name=f"net effects, {COLUMNS} columns",
        figure=rows / own / 1e6,
        unit="M operations/s",
        yardstick="row by row",
        yardstick_figure=REPLAYED / beside / 1e6,
        target=LEAST,
    )


def _types() -> Iterator[tuple[str, pa.DataType]]:
    return ((column.name, column.type) for column in TARGET.columns)


def _write_trail(prefix: Path, blocks: int, *, whole: bool) -> None:
    """Write inserts and then updates of the same keys: transactions of 10 operations, or ``whole`` one of all."""
    begins, ends = (np.arange(BLOCK) % 10 == at for at in (0, 9))
    with TrailAppender(str(prefix), Definitions((TABLE,))) as trail:
        for number in range(blocks):
            block = block_of_kind(
                INSERT if number == 0 else UPDATE, np.arange(BLOCK), number * BLOCK
            )
            if whole:
                begins, ends = np.zeros(BLOCK, bool), np.zeros(BLOCK, bool)
                begins[0], ends[-1] = number == 0, number == blocks - 1
            ids = np.zeros(BLOCK, np.int64) if whole else np.arange(BLOCK) // 10 + number * BLOCK
            text = pa.array(ids).cast(pa.string())
            block = replace(
                block, tx_ind=transaction_indicators(begins, ends), tx_id=text, csn=text
            )
            trail.append(ChangeBatch([block], BLOCK))
            if not whole or ends[-1]:
                trail.commit(str(number))


def _trail_to_tables(folder: Path, blocks: int) -> Iterator[Figure]:
    """Yield how fast a trail lands in a Delta table, and what memory one transaction of millions of operations takes."""
    _write_trail(folder / "ot", blocks, whole=False)
    operations = blocks * BLOCK
    alone = _seconds_of(lambda: apply_trail(folder / "ot", f"delta:{folder}/alone"))
    spark = session("local[2]", "trailgate-benchmarks")
    apply(spark, folder / "ot", f"delta:{folder}/warm")
    tasks = _seconds_of(lambda: apply(spark, folder / "ot", f"delta:{folder}/spark"))
    spark.stop()
    unit = "k operations/s"
    own, by_spark = (operations / taken / 1e3 for taken in (alone, tasks))
    yield Figure("trail -> Delta, Spark local[2]", by_spark, unit, "one process", own)
    peaks = []
    for name, size in (("short", blocks), ("long", 10 * blocks)):
        _write_trail(folder / name, size, whole=True)
        command = [sys.executable, "-m", "benchmarks.apply", str(folder / name)]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
        peaks.append(float(done.stdout))
    what = f"{operations / 1e5:g} M operations in one transaction"
    yield Figure(
        name=what,
        figure=peaks[1],
        unit="MB peak",
        yardstick=f"{operations / 1e6:g} M",
        yardstick_figure=peaks[0],
        target=FLAT,
    )


def _seconds_of(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    apply_trail(sys.argv[1], f"delta:{sys.argv[1]}-lake")
    print(peak())
