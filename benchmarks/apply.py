"""Apply: the net effect of a batch beside its replay row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from benchmarks.report import Figure, Target, fastest

from trailgate.apply.collisions import Collisions
from trailgate.apply.nets import net_effects
from trailgate.apply.operations import Operations, operations_on
from trailgate.apply.replay import Replay
from trailgate.apply.tables import target_table
from trailgate.columnar.digits import format_positions
from trailgate.model.changes import ABSENT, INSERT, UPDATE, ChangeBlock, Image, StateColumn
from trailgate.model.tables import Column, Table

COLUMNS: Final = 8
REPLAYED: Final = 20_000
LEAST: Final = Target(10.0)
TABLE: Final = Table(
    "SHOP.ORDERS",
    (Column("ID", 134, 8, key=True), *(Column(f"C{at}", 64, 40) for at in range(1, COLUMNS))),
)
TARGET: Final = target_table(TABLE)
EMPTY: Final = TARGET.schema.empty_table()


def run(*, quick: bool) -> list[Figure]:
    """Return a row of net effects, and rows of a trail applied by one process and by Spark."""
    return [_net_effects(100_000 if quick else 1_000_000)]


def _block(kind: int, keys: npt.NDArray[np.int64], begin: int) -> ChangeBlock:
    """Return inserts with all columns, or updates that log every other one."""
    rows = len(keys)
    text = pa.array([f"value {number}" for number in range(rows)], pa.string())
    after: Image = (
        StateColumn(pa.array(keys)),
        *(StateColumn(text) if kind == INSERT or at % 2 else ABSENT for at in range(1, COLUMNS)),
    )
    before = (after[0], *after[1:1], *((ABSENT,) * (COLUMNS - 1)))
    return ChangeBlock(
        TABLE,
        np.arange(rows),
        np.full(rows, kind, np.uint8),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.uint8),
        text,
        text,
        None,
        format_positions(0, np.arange(begin, begin + rows)),
        (ABSENT,) * COLUMNS if kind == INSERT else before,
        after,
    )


def _operations(kind: int, keys: npt.NDArray[np.int64], begin: int = 0) -> Operations:
    return operations_on(TARGET, [_block(kind, keys, begin)], [np.arange(len(keys))])


def _net_effects(rows: int) -> Figure:
    drawn = np.random.default_rng(1)
    operations = _operations(UPDATE, drawn.integers(0, rows // 4, rows))
    own = fastest(lambda: net_effects(operations), 3)
    some = operations.take(np.arange(REPLAYED))
    there = pa.table({name: pa.nulls(rows // 4, kind) for name, kind in _types()})
    there = there.set_column(0, "id", pa.array(np.arange(rows // 4)))

    def replay() -> None:
        Replay(TARGET, there, Collisions.STOP).run(some)

    loaded = fastest(lambda: Replay(TARGET, there, Collisions.STOP), 2)
    beside = max(fastest(replay, 2) - loaded, 1e-6)
    return Figure(
        f"net effects, {COLUMNS} columns",
        rows / own / 1e6,
        "M operations/s",
        "row by row",
        REPLAYED / beside / 1e6,
        LEAST,
    )


def _types() -> Iterator[tuple[str, pa.DataType]]:
    return ((column.name, column.type) for column in TARGET.columns)
