"""Batch queries and streams into a store, whose tasks, commits and drivers are killed: each operation is there once, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from laws import one_of
from store_servers.bucket import Bucket

TESTS = Path(__file__).parents[1]


def runs() -> Iterator[list[str]]:
    """Yield the steps of one run of the program after the other: each but the last ends with its kill."""
    steps = ["tasks", "commits"]
    for driver in one_of(("batch", "stream"), "drivers"):
        yield [*steps, f"{driver}+driver"]
        steps = [driver]
    yield steps


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_repeated_task_writes_its_rows_once(tmp_path: Path, s3_bucket: Bucket) -> None:
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    program = [sys.executable, str(TESTS / "spark/killed_writes.py"), str(tmp_path), s3_bucket.url]
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for steps in runs():
        done = subprocess.run(
            [*program, *steps],
            env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            check=False,
        )
        reached = [step for step in steps if not step.endswith("+driver")]
        assert done.stdout.split() == reached, done.stderr[-4000:]
        assert done.returncode == (0 if reached == steps else -signal.SIGKILL)
    assert [key for key in s3_bucket.keys("dirdat/") if "/." in key] == []
    assert s3_bucket.uploads() == []
