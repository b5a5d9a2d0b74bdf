"""Reading trails in one process: one thread and two, beside two processes; and small files, where fixed costs count."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from benchmarks.report import Figure, Target, fastest
from benchmarks.trail_codec import DEFINITIONS, TABLE, sample

import trailgate
from trailgate.definitions.defgen import write_sourcedefs
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

ROWS_A_FILE: Final = 250_000
SMALL_ROWS: Final = 100
SMALL_FILES: Final = 200
RUNS: Final = 7
SHAPES: Final = (("operations", None), ("typed", TABLE.name))


def run(*, quick: bool) -> list[Figure]:
    """Return the rates of one thread, what two give, and the milliseconds of a small file."""
    files = 2 if quick else 4
    figures = []
    with (
        tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder,
        ProcessPoolExecutor(2, get_context("spawn")) as processes,
    ):
        large, small, many = (str(Path(folder, name)) for name in ("large", "small", "many"))
        write(large, files, ROWS_A_FILE)
        write(small, 1, SMALL_ROWS)
        write(many, SMALL_FILES, SMALL_ROWS)
        for shape, table in SHAPES:
            reading = partial(read, large, table)
            # In turn, so that whatever else the machine does falls on all.
            acts: tuple[Callable[[], object], ...] = (
                partial(reading, 1),
                partial(reading, 2),
                lambda: list(processes.map(reading, (1, 1))),  # noqa: B023  called here
            )
            taken = [[fastest(act, 1) for act in acts] for _ in range(RUNS)]
            one, two, both = (min(each) for each in zip(*taken, strict=True))
            rows = files * ROWS_A_FILE / 1e6
            figures += [
                Figure(name=f"two threads, {shape}", figure=rows / two, unit="M rows/s", yardstick="one thread", yardstick_figure=rows / one, target=Target(1.9)),
                Figure(f"two processes, {shape}", 2 * rows / both, "M rows/s", "one thread", rows / one),
            ]  # fmt: skip
            for name, path, each in (("a small file", small, 1), ("many small files", many, SMALL_FILES)):  # fmt: skip
                times = 50 * RUNS if each == 1 else RUNS
                spent = fastest(partial(read, path, table, 1), times) / each
                goal = Target(0.6, of="figure", at_most=True)
                figures.append(Figure(name=f"{name}, {shape}", figure=spent * 1e3, unit="ms each", yardstick="records", yardstick_figure=SMALL_ROWS, target=goal))  # fmt: skip
    return figures


def read(prefix: str, table: str | None, threads: int) -> int:
    """Return how many rows a trail has, all of them read."""
    return sum(
        batch.num_rows for batch in trailgate.read_trail(prefix, table=table, threads=threads)
    )


def write(prefix: str, files: int, rows: int) -> None:
    """Write a trail of files that are alike."""
    body = encode(sample(rows)).body
    for number in range(files):
        with Path(f"{prefix}{number:09}").open("wb") as file:
            file.write(encode_header(FileHeader(trail=TrailInfo(seqno=number))))
            file.write(body)
    Path(f"{prefix}.def").write_bytes(write_sourcedefs(DEFINITIONS))
