"""A capture of very many tasks: what its driver holds grows with them, and what a task is sent does not."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from capture_place import Place
from trailgate.jobs.capture.job import publish_capture
from trailgate.jobs.capture.plan import CaptureJob, CaptureOptions
from trailgate.jobs.capture.ranges import RangeReport
from trailgate.jobs.capture.summary import CaptureSummary
from trailgate.model.operation_counts import add_counts, sum_counts
from trailgate.storage.files.manifest import read_manifest
from trailgate.storage.writing.segments import Segment

TASKS = 400
BYTES_A_TASK = 20_000  # that the driver holds


def planned(folder: Path, tasks: int) -> CaptureJob:
    """Return a job of one file a task, none of which has bytes on the disk."""
    place = Place(folder)
    for number in range(tasks):
        with (place.messages / f"m{number:06}").open("wb") as file:
            file.truncate(1000)
    return place.job("ot", CaptureOptions(message_per_line=True, split_bytes=1000))


def stand_in(job: CaptureJob, number: int) -> RangeReport:
    """Return a report as a task makes it, of a trail file without records."""
    name, begin = f"{number:06}.0", job.target.writer(job.target.staging, "").header
    (job.target.staging / name).write_bytes(begin)
    own = job.ranges[number]
    segment = Segment(
        name=name,
        size=len(begin),
        operations=1,
        first_csn=str(number),
        last_csn=str(number),
        first_time=number,
        last_time=number,
    )
    counts = {f"MY.T{number % 7}": {"I": 1}}
    return RangeReport(number, (segment,), counts, 1, 1, operations=1, start=own.start, end=own.end)


def published(folder: Path, tasks: int) -> tuple[CaptureJob, CaptureSummary]:
    folder.mkdir(exist_ok=True)
    job = planned(folder, tasks)
    reports = [stand_in(job, number) for number in range(tasks)]
    return job, publish_capture(job, pickle.loads(pickle.dumps(reports)))


def test_a_job_of_many_tasks_is_planned_and_published_in_little_memory(tmp_path: Path) -> None:
    published(tmp_path / "first", 1)  # imports what a job needs, which is no memory of its tasks
    tracemalloc.start()
    try:
        job, summary = published(tmp_path, TASKS)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    manifest = read_manifest(str(tmp_path / "ot"))

    assert (len(job.ranges), summary.messages, len(summary.files)) == (TASKS, TASKS, TASKS)
    assert manifest is not None
    assert [file.number for file in manifest.files] == list(range(TASKS))
    assert sum(kinds["I"] for kinds in summary.counts.values()) == TASKS
    assert most < BYTES_A_TASK * TASKS


def test_a_task_is_sent_few_bytes_a_file(tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    sizes = [
        len(pickle.dumps(replace(planned(folder, tasks).anywhere(), ranges=())))
        for folder, tasks in ((few, 10), (many, 10 + TASKS))
    ]

    assert sizes[1] - sizes[0] < 50 * TASKS


@pytest.mark.parametrize("tasks", [0, 1, 5])
def test_counts_of_all_tasks_are_summed_as_two_are(tasks: int) -> None:
    parts = [{"A": {"I": n, "D": 1}, f"T{n % 2}": {"U": 2}} for n in range(tasks)]
    expected: dict[str, dict[str, int]] = {}
    for part in parts:
        expected = add_counts(expected, part)

    assert sum_counts(parts) == expected
