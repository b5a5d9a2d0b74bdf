"""PostgreSQL, where the system has it installed, in a folder of its own, on a free port."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from brokers.real_brokers import free_ports

PROGRAMS: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"  # the server does not run as root
ATTEMPTS: Final = 3  # at starting a server on a free port
WAIT: Final = 120  # seconds for a start or a restart


def _command(*words: object) -> list[str]:
    command = [str(word) for word in words]
    return ["runuser", "-u", USER, "--", *command] if os.geteuid() == 0 else command


@dataclass(frozen=True)
class PostgreSQL:
    """A server that runs: the address of a database, and how it is restarted."""

    address: str
    folder: Path  # which the server's user may read
    restarting: list[str]

    def restart(self) -> None:
        """Restart the server as after a crash."""
        subprocess.run(self.restarting, cwd="/", capture_output=True, check=True)


@contextmanager
def running() -> Iterator[str]:
    """Yield the address of a database."""
    with running_server() as server:
        yield server.address


@contextmanager
def running_server() -> Iterator[PostgreSQL]:
    """Yield a server with an empty database."""
    found = sorted(PROGRAMS.glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL: apt install postgresql")
    # Not in pytest's folder: each run of pytest that starts on the machine closes it to other users,
    # and a server that runs as one then loses its files.
    prefix = "trailgate-postgresql-"
    with TemporaryDirectory(prefix=prefix, dir="/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        yield from _started(found[-1].parent, folder)


def _started(programs: Path, folder: Path) -> Iterator[PostgreSQL]:
    """Start a server in an empty folder, and stop it at the end."""
    data, log = folder / "data", folder / "log"
    _run(folder, programs / "initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync")
    control = (programs / "pg_ctl", "-D", data, "-w", "-t", WAIT, "-l", log)
    for attempt in range(ATTEMPTS):
        (port,) = free_ports(1)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        try:
            _run(folder, *control, "-o", options, "start")
            break
        except AssertionError:  # another process may have taken the port
            if attempt == ATTEMPTS - 1:
                raise AssertionError(log.read_text()) from None
    # The server is a child of none of ours. This waits for the end of its input, which comes too if the tests are killed.
    stop = (programs / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")
    stopping = subprocess.Popen(
        _command("sh", "-c", 'cat; exec "$@"', "sh", *stop),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        again = _command(*control, "-m", "immediate", "-o", options, "restart")
        yield PostgreSQL(f"postgresql://me@127.0.0.1:{port}/postgres", folder, again)
    finally:
        stopping.communicate(timeout=WAIT)
        assert stopping.returncode == 0, log.read_text()


def _run(folder: Path, *words: object) -> None:
    """Run a program of PostgreSQL. Raises AssertionError with its output if it fails."""
    command = _command(*words)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
