"""A run that follows a trail: what it prints, its batches in time, and how it is stopped."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from apply.sources import duckdb_rows, write_log
from apply.test_net_effects import FULL
from oracles.apply_naive import Operation
from trailgate.cli.main import run

COMMAND = [sys.executable, "-m", "trailgate", "apply", "ot", "--to", "duckdb:hr.duckdb", "--follow"]
WAIT = 60.0


def inserts(first: int, last: int) -> list[Operation]:
    return [Operation("I", key, key, FULL, key) for key in range(first, last)]


@contextmanager
def following(folder: Path, *options: str, output: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command in a folder until it is asked to stop."""
    known = {**os.environ, "TERM": "xterm"}
    run = subprocess.Popen([*COMMAND, *options], cwd=folder, stdout=output, env=known)
    try:
        yield run
        run.send_signal(signal.SIGTERM)
        assert run.wait(WAIT) == 0
    finally:
        run.kill()
        run.wait()
        if run.stdout is not None:
            run.stdout.close()


def test_what_a_trail_grows_by_is_applied_and_each_batch_is_a_line(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", inserts(1, 4))
    with following(tmp_path, "--json", "--batch-seconds", "1", output=subprocess.PIPE) as run:
        assert run.stdout is not None
        first = json.loads(run.stdout.readline())
        write_log(tmp_path / "ot", inserts(4, 9))
        second = json.loads(run.stdout.readline())
    assert (first["operations"], second["operations"]) == (3, 5)
    assert first["lag_seconds"] > 0
    assert first["position"] < second["position"]
    assert len(duckdb_rows(tmp_path)) == 8


@pytest.mark.parametrize("applied", [0, 3], ids=["at its begin", "after a batch"])
def test_the_metrics_of_a_run_that_ended_with_an_error_state_it(
    applied: int, tmp_path: Path
) -> None:
    metrics = tmp_path / "m.prom"
    write_log(tmp_path / "ot", inserts(1, 4))
    command = ["apply", str(tmp_path / "ot"), "--to", f"duckdb:{tmp_path}/hr.duckdb"]
    if applied:
        assert run(command) == 0
        write_log(tmp_path / "ot", inserts(1, 4))
    else:
        (tmp_path / "ot000000000").rename(tmp_path / "ot000000001")  # the header has number 0
    assert run([*command, "--follow", "--metrics", str(metrics)]) == 1
    (line,) = [
        one for one in metrics.read_text().splitlines() if one.startswith("trailgate_apply_up{")
    ]
    assert line.endswith(" 0")


def test_a_terminal_gets_a_view(tmp_path: Path) -> None:
    write_log(tmp_path / "ot", inserts(1, 4))
    ours, theirs = pty.openpty()
    drawn, until = b"", time.monotonic() + WAIT
    with following(tmp_path, output=theirs):
        os.close(theirs)
        while b"hr.t" not in drawn and time.monotonic() < until:
            drawn += os.read(ours, 1 << 16)
    os.close(ours)
    for part in (b"ot to duckdb:hr.duckdb", b"3, ", b"applied up to 0:", b"inserted", b"hr.t"):
        assert part in drawn


def test_seconds_between_batches_are_those_of_a_run_that_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_log(tmp_path / "ot", inserts(1, 4))
    assert run(["apply", str(tmp_path / "ot"), "--to", "duckdb:x", "--batch-seconds", "5"]) == 2
    assert "--batch-seconds needs --follow" in capsys.readouterr().err
