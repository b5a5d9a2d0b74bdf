"""A capture of very many tasks: what its driver needs, where the planner and the publisher are real and the tasks are stand-ins.

Each task has one message file of 128 MB, which is a hole without bytes on the disk. A stand-in writes a small trail file and
reports as a task does.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.delimited import DEFINITIONS, DEFINITIONS_NAME, PLAIN
from benchmarks.memory import peak
from benchmarks.report import Figure, Target

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.jobs.capture.job import plan_capture, publish_capture
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.jobs.capture.ranges import RangeReport
from trailgate.storage.reading.message_files import MESSAGE_SPLIT_BYTES
from trailgate.storage.writing.segments import Segment

T = TypeVar("T")
TASKS: Final = 10_000
SECONDS: Final = Target(60, of="figure", at_most=True)
MEGABYTES: Final = Target(1000, of="figure", at_most=True)
TABLES: Final = 20  # in each task's counts
FOLDER: Final = Path("/dev/shm")  # where it is there: many small files are not what is measured


@dataclass(frozen=True, slots=True)
class Driver:
    """What the driver of a job needed: seconds of CPU by step, peak of memory in MB, and bytes sent to every task."""

    planning: float
    publishing: float
    peak: float
    sent: int

    @property
    def seconds(self) -> float:
        return self.planning + self.publishing


def simulated(folder: Path, tasks: int) -> Driver:
    """Plan, run and publish a job of so many tasks in this process."""
    job, planning = _timed(lambda: _planned(folder, tasks))
    sent = len(pickle.dumps(replace(job.anywhere(), ranges=())))
    packed = [pickle.dumps(_stand_in(job, number)) for number in range(tasks)]
    summary, publishing = _timed(
        lambda: publish_capture(job, [pickle.loads(one) for one in packed])
    )
    assert len(summary.files) == summary.messages == tasks, "each task has a file"
    return Driver(planning, publishing, peak(), sent)


def _planned(folder: Path, tasks: int) -> CaptureJob:
    properties = folder / "bench.properties"
    options = CaptureOptions(message_per_line=True)
    job = plan_capture(
        load_capture(properties), folder / "messages", folder / "trail" / "ot", options
    )
    assert len(job.ranges) == tasks
    return job


def write_holes(folder: Path, tasks: int) -> None:
    """Write properties, definitions and a file of messages a task, none of which is ever read."""
    (folder / DEFINITIONS_NAME).write_bytes(write_sourcedefs(DEFINITIONS))
    text = PLAIN.properties.replace(DEFINITIONS_NAME, str(folder / DEFINITIONS_NAME))
    (folder / "bench.properties").write_text(text)
    (folder / "messages").mkdir()
    (folder / "trail").mkdir()
    for number in range(tasks):
        with (folder / "messages" / f"orders-{number:09}.txt").open("wb") as file:
            file.truncate(MESSAGE_SPLIT_BYTES)


def _stand_in(job: CaptureJob, number: int) -> RangeReport:
    """Return a report as a task makes it, of one trail file without records."""
    name, begin = f"{number:06d}-stand-in.0", job.target.writer(job.target.staging, "").header
    (job.target.staging / name).write_bytes(begin)
    csn, at = f"{number:040d}", 1_700_000_000_000_000 + number
    own = job.ranges[number]
    return RangeReport(
        number,
        (
            Segment(
                name=name,
                size=len(begin),
                operations=TABLES,
                first_csn=csn,
                last_csn=csn,
                first_time=at,
                last_time=at,
            ),
        ),
        {f"SALES.ORDERS_{table}": {"I": 1} for table in range(TABLES)},
        messages=1,
        transactions=1,
        operations=TABLES,
        start=own.start,
        end=own.end,
    )


def _timed(act: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    done = act()
    return done, time.process_time() - start


def run(*, quick: bool) -> list[Figure]:
    """Return the driver's seconds and megabytes, beside those of a tenth of the tasks."""
    tasks = TASKS // 10 if quick else TASKS
    small, large = (_measured(count) for count in (tasks // 10, tasks))
    name, beside = f"the driver of {tasks:,} tasks", f"{tasks // 10:,} tasks"
    return [
        Figure(
            name=name,
            figure=large.seconds,
            unit="s of CPU",
            yardstick=beside,
            yardstick_figure=small.seconds,
            target=SECONDS,
        ),
        Figure(f"{name}: planning", large.planning, "s of CPU", beside, small.planning),
        Figure(f"{name}: publishing", large.publishing, "s of CPU", beside, small.publishing),
        Figure(
            name=name,
            figure=large.peak,
            unit="MB peak",
            yardstick=beside,
            yardstick_figure=small.peak,
            target=MEGABYTES,
        ),
        Figure("sent to each task", large.sent / 1e6, "MB", beside, small.sent / 1e6),
    ]


def _measured(tasks: int) -> Driver:
    """Return what a fresh process needs."""
    place = FOLDER if FOLDER.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="trailgate-bench-", dir=place) as folder:
        write_holes(Path(folder), tasks)
        command = [sys.executable, "-m", "benchmarks.scaling", folder, str(tasks)]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    planning, publishing, most, sent = done.stdout.split()
    return Driver(float(planning), float(publishing), float(most), int(sent))


if __name__ == "__main__":
    found = simulated(Path(sys.argv[1]), int(sys.argv[2]))
    print(found.planning, found.publishing, found.peak, found.sent)
