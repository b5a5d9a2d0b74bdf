"""The limits of reading trails: large ones, one long transaction, very many files; in one process each."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from benchmarks.memory import peak
from benchmarks.report import Figure, Target
from benchmarks.trail_codec import DEFINITIONS, sample

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.model.changes import BEGIN, END, MIDDLE, ChangeBatch
from trailgate.trail.format.file_header import FileHeader, TrailInfo, encode_header
from trailgate.trail.writing.writer import encode

BLOCK: Final = 50_000  # operations laid out once and written again and again
FILE_BYTES: Final = 500_000_000  # GoldenGate's default size
FLAT: Final = Target(1.2, at_most=True)
SLOWER: Final = Target(0.5)


class Run(NamedTuple):
    """What a process took to read a trail: megabytes at most, seconds, operations."""

    megabytes: float
    seconds: float
    operations: int

    @property
    def rate(self) -> float:
        return self.operations / self.seconds / 1e6


def run(*, quick: bool) -> list[Figure]:
    """Return one row a limit."""
    small, large = (50, 400) if quick else (100, 2000)
    operations, files = (1_000_000, 1_000) if quick else (10_000_000, 10_000)
    runs = [_read(partial(_sized, megabytes=size)) for size in (small, large)]
    long = _read(partial(_one_transaction, operations=operations))
    many = _read(partial(_many_files, files=files))
    few = _read(partial(_many_files, files=4, times=files // 4))
    millions = operations // 1_000_000
    return [
        Figure(name=f"reading {large} MB", figure=runs[1].megabytes, unit="MB peak", yardstick=f"{small} MB", yardstick_figure=runs[0].megabytes, target=FLAT),
        Figure(f"reading {large} MB", runs[1].rate, "M rows/s", f"{small} MB", runs[0].rate),
        Figure(
            name=f"a transaction of {millions} M operations",
            figure=long.megabytes,
            unit="MB peak",
            yardstick=f"{small} MB of small ones",
            yardstick_figure=runs[0].megabytes,
            target=FLAT,
        ),
        Figure(
            name=f"a transaction of {millions} M operations",
            figure=long.rate,
            unit="M rows/s",
            yardstick=f"{small} MB of small ones",
            yardstick_figure=runs[0].rate,
            target=SLOWER,
        ),
        Figure(f"{files} files", many.seconds, "s", "4 files with the same", few.seconds),
    ]  # fmt: skip


def _read(write: Callable[[str], None]) -> Run:
    """Return what a fresh process takes to read what is written."""
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        write(folder)
        command = [sys.executable, "-m", "benchmarks.trail_limits", str(Path(folder, "ot"))]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    megabytes, seconds, operations = done.stdout.split()
    return Run(float(megabytes), float(seconds), int(operations))


def _sized(folder: str, megabytes: int) -> None:
    body = bytes(encode(sample(BLOCK)).body)
    left, number = megabytes * 1_000_000 // len(body), 0
    while left > 0:
        blocks = min(left, FILE_BYTES // len(body))
        _write(folder, number, [body] * blocks)
        left, number = left - blocks, number + 1


def _one_transaction(folder: str, operations: int) -> None:
    """Write one transaction over as many files as it takes."""
    blocks = operations // BLOCK
    first, middle, last = (bytes(encode(_part(place)).body) for place in (BEGIN, MIDDLE, END))
    bodies = iter([first, *[middle] * (blocks - 2), last])
    for number in range(blocks):
        part = list(islice(bodies, FILE_BYTES // len(middle)))
        if not part:
            return
        _write(folder, number, part)


def _part(place: int) -> ChangeBatch:
    """Return operations from the begin, the middle or the end of a transaction."""
    batch = sample(BLOCK)
    indicator = np.full(BLOCK, MIDDLE, np.uint8)
    if place != MIDDLE:
        indicator[0 if place == BEGIN else -1] = place
    return ChangeBatch([replace(batch.blocks[0], tx_ind=indicator)], BLOCK)


def _many_files(folder: str, files: int, times: int = 1) -> None:
    body = bytes(encode(sample(100)).body)
    for number in range(files):
        _write(folder, number, [body] * times)


def _write(folder: str, number: int, bodies: list[bytes]) -> None:
    Path(folder, "ot.def").write_bytes(write_sourcedefs(DEFINITIONS))
    with Path(folder, f"ot{number:09}").open("wb") as file:
        file.write(encode_header(FileHeader(trail=TrailInfo(seqno=number))))
        file.writelines(bodies)


def main(prefix: str) -> None:
    """Read in this process, in splits as tasks do, and print what it took."""
    from trailgate.storage.files.trail_files import find_trail  # noqa: PLC0415
    from trailgate.storage.reading.splits import plan_splits  # noqa: PLC0415
    from trailgate.storage.reading.trails import read_split  # noqa: PLC0415

    begin = time.perf_counter()
    trail = find_trail(prefix)
    operations = 0
    for split in plan_splits(trail):
        for batch in read_split(trail, split):
            operations += batch.num_rows
    print(peak(), time.perf_counter() - begin, operations)


if __name__ == "__main__":
    main(*sys.argv[1:])
