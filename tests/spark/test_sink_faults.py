"""The stream sink where the disk fails or its process is killed at any step: the batch is given again, and all is as if nothing had been."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext

from laws import WHOLE
from spark.failing_batches import begun, parts_of, state, task, writer_in
from trailgate.errors import StorageError
from trailgate.spark.trail_sink import StagedBatch
from trailgate.storage.writing.segments import SegmentWriter

TESTS = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this process be a task while a test runs, and return the folder of its trail."""
    monkeypatch.setattr(TaskContext, "_taskContext", None)
    begun(tmp_path / "work", 0)
    return tmp_path / "work"


def staged(folder: Path, number: int, attempt: int) -> list[StagedBatch]:
    """Write a batch as the tasks of one attempt do."""
    messages = []
    for part, rows in enumerate(parts_of(number)):
        task(number, part, attempt)
        messages.append(writer_in(folder).write(iter([rows])))
    return messages


def files(folder: Path) -> list[str]:
    """Return the names of all staged files."""
    return [path.name for path in folder.glob(".ot.stream-q/*/*")]


def test_an_abort_deletes_only_the_files_of_its_own_attempt(folder: Path) -> None:
    first, retry = staged(folder, 0, 1), staged(folder, 0, 2)

    writer_in(folder).abort([*first, None], 0)
    assert len(files(folder)) == sum(len(message.part.segments) for message in retry)
    writer_in(folder).commit(retry, 0)

    rows, names = state(folder)
    begun(folder, 1)
    assert (rows, names) == state(folder)


def test_an_abort_of_a_part_without_operations_deletes_nothing(folder: Path) -> None:
    task(0, 0, 1)
    empty = writer_in(folder).write(iter(()))
    retry = staged(folder, 0, 2)

    writer_in(folder).abort([empty], 0)

    assert len(files(folder)) == sum(len(message.part.segments) for message in retry)


def test_a_commit_that_is_late_keeps_the_files_of_later_batches(folder: Path) -> None:
    late, own = staged(folder, 0, 1), staged(folder, 0, 2)
    writer_in(folder).commit(own, 0)
    later = staged(folder, 1, 3)

    writer_in(folder).commit(late, 0)
    writer_in(folder).commit(later, 1)

    rows, names = state(folder)
    begun(folder, 2)
    assert (rows, names) == state(folder)


def test_a_task_that_fails_leaves_no_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = SegmentWriter.append

    def failing(*given: Any) -> None:
        real(*given)
        assert files(folder)
        problem = "the disk is full"
        raise StorageError(problem)

    monkeypatch.setattr(SegmentWriter, "append", failing)
    with pytest.raises(StorageError, match="the disk is full"):
        staged(folder, 0, 1)

    assert not files(folder)


@pytest.mark.servers  # faults by the hundred
@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_a_fault_at_any_step_of_a_batch_leaves_no_trace_once_it_is_given_again(
    tmp_path: Path,
) -> None:
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    done = subprocess.run(
        [sys.executable, TESTS / "spark/failing_batches.py", tmp_path],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[0]) > (500 if WHOLE else 100)
