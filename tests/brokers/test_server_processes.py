"""A server that tests start ends with the process that started it, even if that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from brokers.real_brokers import WHILE_TESTS_RUN

TESTS = Path(__file__).parents[1]
STARTER = """
import os, signal, sys
from pathlib import Path
from brokers.real_brokers import Process
log = Path(sys.argv[1])
server = Process(["sh", "-c", "echo it runs; exec sleep 100"], log, lambda: "runs" in log.read_text())
server.start()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not WHILE_TESTS_RUN, reason="needs the program setpriv of Linux")
def test_a_server_ends_with_a_killed_run(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", STARTER, str(tmp_path / "log")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    server = Path(f"/proc/{int(done.stdout)}")
    for _ in range(100):
        # A process that ended stays until its new parent asks for its exit code.
        if not server.exists() or "State:\tZ" in (server / "status").read_text():
            return
        time.sleep(0.1)
    pytest.fail(f"process {server.name} still runs")
