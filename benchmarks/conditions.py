"""How fast a FILTER is decided over a large block, beside the same comparison by pyarrow.compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.report import Figure, figure_of

from trailgate.columnar.numbers import parse_integers
from trailgate.expressions.evaluation import evaluate_condition, make_empty_block
from trailgate.expressions.parser import parse_condition
from trailgate.model.changes import INSERT, ChangeBlock, StateColumn
from trailgate.model.tables import Column, Table

ROWS: Final = 1 << 20
TABLE: Final = Table(
    "SALES.ORDERS",
    (
        Column("ID", 134, 8, key=True),
        Column("STATE", 64, 10),
        Column("AMOUNT", 134, 18, scale=2),
        Column("AT", 192, 19),
    ),
)


def block() -> ChangeBlock:
    """Return inserts of a million orders."""
    draw = np.random.default_rng(1)
    ids = pa.array(np.arange(ROWS, dtype=np.int64))
    state = pa.array(["DRAFT", "OPEN", "PAID"]).take(pa.array(draw.integers(0, 3, ROWS)))
    amount = parse_integers(
        pa.array(draw.integers(0, 10**5, ROWS)).cast(pa.string()), 2, 8, signed=True
    )
    seconds = pa.array(draw.integers(1_700_000_000, 1_760_000_000, ROWS))
    at = pc.strftime(seconds.cast(pa.timestamp("s")), format="%Y-%m-%d %H:%M:%S")
    columns = tuple(StateColumn(values) for values in (ids, state, amount, at))
    return replace(
        make_empty_block(TABLE),
        order=np.arange(ROWS),
        op_type=np.full(ROWS, INSERT, np.uint8),
        after=columns,
    )


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def run(*, quick: bool) -> list[Figure]:
    """Return the figures; it takes seconds, quick or not."""
    del quick
    return [figure_of(row) for row in rows()]


def rows() -> list[dict[str, Any]]:
    """Return a row for each condition: millions of rows a second, and the ratio to pyarrow.compute."""
    orders = block()
    ids, state, amount, at = (column.values for column in orders.after)
    price = pa.scalar(Decimal(50_000), pa.decimal128(19, 2))
    conditions: dict[str, Callable[[], object]] = {
        "ID > 500000": lambda: pc.greater(ids, pa.scalar(500_000)),
        "AMOUNT >= 50000": lambda: pc.greater_equal(amount, price),
        "STATE = 'PAID'": lambda: pc.equal(state, "PAID"),
        "AT < '2024-06-01'": lambda: pc.less(at, "2024-06-01 00:00:00"),
        "STATE <> 'DRAFT' AND AMOUNT >= 50000 OR ID < 10": lambda: pc.or_kleene(
            pc.and_kleene(pc.not_equal(state, "DRAFT"), pc.greater_equal(amount, price)),
            pc.less(ids, pa.scalar(10)),
        ),
        "@STRFIND (STATE, 'AI') > 0": lambda: pc.greater(pc.find_substring(state, "AI"), -1),
    }
    rows = []
    for text, beside in conditions.items():
        condition = parse_condition(text)
        assert (
            evaluate_condition(condition, orders).selected.tolist()
            == pc.fill_null(beside(), False).to_pylist()
        )
        own, other = _seconds(lambda c=condition: evaluate_condition(c, orders)), _seconds(beside)  # type: ignore[misc]
        rows.append(
            {
                "name": f"FILTER ({text})",
                "figure": round(ROWS / own / 1e6, 1),
                "unit": "M rows/s",
                "yardstick": "pyarrow.compute",
                "yardstick_figure": round(ROWS / other / 1e6, 1),
                "ratio": round(other / own, 2),
            }
        )
    return rows
