"""The stream sink where the disk fails or its process is killed at any step: the batch is given again, and all is as if nothing had been."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from laws import WHOLE

TESTS = Path(__file__).parents[1]


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
