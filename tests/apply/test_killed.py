"""A run that applies a trail is killed at any moment, and started again with batches cut anew: each change is applied once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from apply.sources import TARGETS, write_log
from laws import chance, kills
from oracles.apply_naive import Source

APPLY = """
import sys
from trailgate import apply_trail
trail, to, size = sys.argv[1:]
apply_trail(trail, to, batch_bytes=int(size), threads=1)
"""
TRANSACTIONS = 120
SECONDS = 250  # that all rounds, or one run, may take: less than a test may
SLOWER = {"iceberg": 3}  # how much longer a target takes to start and to commit
SIZES = (1, 200, 2_000)  # of batches: a transaction each, or several


def finish(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process to end, and return its exit code. Kills it if it takes too long."""
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def killed(own: Random, folder: Path, address: str, times: int) -> int:
    """Apply a trail, killing the process so often; return how often it was killed while it worked.

    The last run has large batches, because on a busy machine hundreds of commits take minutes.
    """
    caught = 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        size = str(own.choice(SIZES) if caught < times else SIZES[-1])
        process = subprocess.Popen([sys.executable, "-c", APPLY, str(folder / "ot"), address, size])
        if caught < times:
            time.sleep(own.uniform(0.6, 1.6 * SLOWER.get(address.partition(":")[0], 1)))
        if caught >= times or process.poll() is not None:
            assert finish(process) == 0
            return caught
        os.kill(process.pid, signal.SIGKILL)
        finish(process)
        caught += 1
    raise AssertionError(f"not done after {SECONDS} s and {caught} kills")


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_killed_run_that_is_started_again_applies_each_change_once(
    name: str, tmp_path: Path
) -> None:
    address, rows = TARGETS[name]
    own = chance(f"killed {name}")
    source = Source(own, keys=40)
    for _ in range(TRANSACTIONS // 2 // SLOWER.get(name, 1)):
        source.transaction()
    write_log(tmp_path / "ot", source.log)

    killed(own, tmp_path, address.format(tmp_path), kills(2))

    assert rows(tmp_path) == source.rows


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_so_does_one_that_is_killed_many_times(name: str, tmp_path: Path) -> None:
    address, rows = TARGETS[name]
    own = chance(f"killed often {name}")
    source = Source(own, keys=40)
    for _ in range(3 * TRANSACTIONS // SLOWER.get(name, 1)):
        source.transaction()
    write_log(tmp_path / "ot", source.log)

    assert killed(own, tmp_path, address.format(tmp_path), kills(8))

    assert rows(tmp_path) == source.rows
