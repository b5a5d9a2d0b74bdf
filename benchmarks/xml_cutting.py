"""A file that is one XML message, captured in memory that does not grow with it: 1 GB beside 200 MB."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.memory import TARGET, peak
from benchmarks.report import Figure, Target
from benchmarks.xml_messages import DEFINITIONS, DYNAMIC_RULES, dynamic

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.capture.job import plan_capture, run_local
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureOptions

SIZES: Final = (200, 1000)  # MB
QUICK: Final = (20, 100)
OPERATIONS: Final = 100  # of a transaction
DIFFERENT: Final = 50  # transactions, then they are repeated


def run(*, quick: bool) -> list[Figure]:
    """Return the peak at the larger size beside the smaller, and MB/s of the larger one with its file read."""
    small, large = QUICK if quick else SIZES
    runs = [_run_of(megabytes) for megabytes in (small, large)]
    name = f"capture of one XML message of {large} MB"
    speeds = [
        megabytes / seconds for megabytes, (_, seconds) in zip((small, large), runs, strict=True)
    ]
    return [
        Figure(
            name=name,
            figure=runs[1][0],
            unit="MB peak",
            yardstick=f"{small} MB",
            yardstick_figure=runs[0][0],
            target=TARGET,
        ),
        Figure(
            name=name,
            figure=speeds[1],
            unit="MB/s",
            yardstick=f"{small} MB",
            yardstick_figure=speeds[0],
            target=Target(0.8),
        ),
    ]


def _run_of(megabytes: int) -> tuple[float, float]:
    """Return the MB and the seconds that a process needs for a message of that size."""
    command = [sys.executable, "-m", "benchmarks.xml_cutting", str(megabytes)]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    found, seconds = map(float, done.stdout.split())
    return found, seconds


def _write(path: Path, megabytes: int) -> int:
    """Write one message of about that size; return how many operations it has."""
    draw = random.Random(7)
    base = [
        dynamic(draw, OPERATIONS).partition(b"?>\n")[2] or dynamic(draw, OPERATIONS)
        for _ in range(DIFFERENT)
    ]
    base = [body for body in base if body.startswith(b"<transaction")]
    times = max(1, megabytes * 1_000_000 // sum(map(len, base)))
    with path.open("wb") as file:
        file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n<feed>\n')
        for _ in range(times):
            file.writelines(base)
        file.write(b"</feed>\n")
    return times * len(base) * OPERATIONS


def _captured(megabytes: int) -> None:
    """Print the peak in MB and the CPU seconds of a capture."""
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        place = Path(folder)
        operations = _write(place / "feed.xml", megabytes)
        (place / "a.def").write_bytes(write_sourcedefs(DEFINITIONS))
        rules = DYNAMIC_RULES.replace("/transaction", "/feed/transaction")
        (place / "p.properties").write_text(f"{rules}xml.sourcedefs={place}/a.def\n")
        capture = load_capture(place / "p.properties")
        job = plan_capture(capture, place / "feed.xml", place / "aa", CaptureOptions(dry_run=True))
        job = replace(job, source=replace(job.source, cut_from=1 << 20))
        begin = time.process_time()
        summary = run_local(job)
        assert summary.operations == operations
        print(peak(), time.process_time() - begin)


if __name__ == "__main__":
    _captured(int(sys.argv[1]))
