"""How fast values are converted, each beside something measured in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from benchmarks.report import Figure, figure_of

from trailgate.columnar.maps import columns_to_maps, maps_to_columns
from trailgate.columnar.numbers import format_integers, parse_integers
from trailgate.columnar.temporal import DEFAULT_FORMAT, parse_datetimes, parse_timestamps
from trailgate.model.positions import format_positions

ROWS = 16_384
Row = dict[str, object]


def rate(work: Callable[[], object], runs: int = 15) -> float:
    """Return millions of rows a second, the best of some runs."""
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return ROWS / best / 1e6


def compared(
    name: str, work: Callable[[], object], yardstick: str, beside: Callable[[], object]
) -> Row:
    figure, other = rate(work), rate(beside)
    return {
        "name": name,
        "figure": round(figure, 1),
        "unit": "M rows/s",
        "yardstick": yardstick,
        "yardstick_figure": round(other, 1),
        "ratio": round(figure / other, 2),
    }


def numbers(draw: np.random.Generator) -> list[Row]:
    units = draw.integers(-(10**9), 10**9, ROWS)
    integers = pa.array(units).cast(pa.string())
    decimals = pa.array([f"{unit / 100:.2f}" for unit in units])
    money = pa.decimal128(19, 2)
    parsed = pc.cast(decimals, money)
    return [
        compared(
            "integers from text",
            lambda: parse_integers(integers, 0, 8, signed=True),
            "pc.cast to int64",
            lambda: pc.cast(integers, pa.int64()),
        ),
        compared(
            "decimals from text",
            lambda: parse_integers(decimals, 2, 8, signed=True),
            "pc.cast to decimal128",
            lambda: pc.cast(decimals, money),
        ),
        compared(
            "decimals to text",
            lambda: format_integers(parsed),
            "pc.cast to string",
            lambda: pc.cast(parsed, pa.string()),
        ),
    ]


def times(draw: np.random.Generator) -> list[Row]:
    moments = pa.array(draw.integers(0, 2 * 10**15, ROWS)).cast(pa.timestamp("us"))
    long = moments.cast(pa.string())
    short = pc.utf8_slice_codeunits(long, 0, 19)

    def strptime() -> object:
        return pc.strptime(short, "%Y-%m-%d %H:%M:%S", "us")

    return [
        compared(
            "datetimes to ISO text, 26 characters",
            lambda: parse_datetimes(long, DEFAULT_FORMAT, 26),
            "pc.strptime, 19 characters",
            strptime,
        ),
        compared(
            "commit times, 19 characters",
            lambda: parse_timestamps(short, DEFAULT_FORMAT),
            "pc.strptime, 19 characters",
            strptime,
        ),
    ]


def maps(draw: np.random.Generator) -> list[Row]:
    names = ["ID", "NAME", "AMOUNT", "CITY"]
    columns = [pa.array(draw.integers(0, 10**9, ROWS)).cast(pa.string()) for _ in names]
    gone = draw.random(ROWS) < 0.2
    partly = [*columns[:3], pc.if_else(pa.array(gone), None, columns[3])]
    memory = np.concatenate([np.frombuffer(c.buffers()[2], np.uint8) for c in columns])
    whole = columns_to_maps(names, columns, [None] * 4, ROWS)

    def copy() -> object:
        return memory.copy()

    works: list[tuple[str, Callable[[], object]]] = [
        ("maps, 4 columns", lambda: columns_to_maps(names, columns, [None] * 4, ROWS)),
        (
            "maps, 4 columns, some missing",
            lambda: columns_to_maps(names, partly, [None, None, None, gone], ROWS),
        ),
        ("columns from maps", lambda: maps_to_columns(whole, names)),
        ("positions", lambda: format_positions(3, np.arange(ROWS))),
    ]
    return [compared(name, work, "copying the values' bytes", copy) for name, work in works]


def run(*, quick: bool) -> list[Figure]:
    """Return the figures; it takes seconds, quick or not."""
    del quick
    return [figure_of(row) for row in rows()]


def rows() -> list[Row]:
    """Return one row a figure."""
    draw = np.random.default_rng(1)
    return [*numbers(draw), *times(draw), *maps(draw)]
