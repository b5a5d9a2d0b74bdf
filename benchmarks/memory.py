"""Peak memory of a process that captures little and much: it must be the same."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.capture_job import capture_job_of, write_messages
from benchmarks.delimited import QUOTED
from benchmarks.report import Figure, Target

TARGET: Final = Target(1.2, at_most=True)


def run(*, quick: bool) -> list[Figure]:
    """Return the peak at the larger size beside the one at the smaller."""
    small, large = (50, 400) if quick else (100, 2000)
    peaks = [_peak_of(megabytes) for megabytes in (small, large)]
    name = f"capturing {large} MB, one process"
    return [
        Figure(
            name=name,
            figure=peaks[1],
            unit="MB peak",
            yardstick=f"{small} MB",
            yardstick_figure=peaks[0],
            target=TARGET,
        )
    ]


def _peak_of(megabytes: int) -> float:
    """Return the megabytes that a fresh process took at most."""
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-") as folder:
        messages, properties = write_messages(Path(folder), QUOTED, megabytes)
        command = [sys.executable, "-m", "benchmarks.memory", str(messages), str(properties)]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    return float(done.stdout)


def peak() -> float:
    """Return this process's peak in MB.

    Where Linux tells it, not by getrusage: that counts what the parent had before the exec.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(messages: str, properties: str) -> None:
    """Capture in this process and print its peak."""
    from trailgate.jobs.capture.job import run_local  # noqa: PLC0415

    run_local(capture_job_of(Path(messages), Path(properties)))
    print(peak())


if __name__ == "__main__":
    main(*sys.argv[1:])
