"""PostgreSQL, where the system has it installed, in a folder of its own, on a free port."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from brokers.real_brokers import free_ports

PROGRAMS: Final = Path("/usr/lib/postgresql")
USER: Final = "postgres"  # the server does not run as root


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
def running(folder: Path) -> Iterator[str]:
    """Yield the address of a database."""
    with running_server(folder) as server:
        yield server.address


@contextmanager
def running_server(folder: Path) -> Iterator[PostgreSQL]:
    """Yield a server with an empty database."""
    found = sorted(PROGRAMS.glob("*/bin/initdb"))
    if not found:
        pytest.skip("no PostgreSQL: apt install postgresql")
    programs, data = found[-1].parent, folder / "data"
    if os.geteuid() == 0:
        for place in (folder, *folder.parents):
            if place != Path("/tmp"):
                place.chmod(place.stat().st_mode | 0o011)
            if place.parent == Path("/tmp") or place == Path("/"):
                break
        shutil.chown(folder, USER)
    (port,) = free_ports(1)
    options = (
        f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    )
    for command in (
        _command(programs / "initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync"),
        _command(
            programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"
        ),
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    try:
        words = (programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-m", "immediate")
        again = _command(*words, "-o", options, "restart")
        yield PostgreSQL(f"postgresql://me@127.0.0.1:{port}/postgres", folder, again)
    finally:
        stop = _command(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        subprocess.run(stop, cwd=folder, capture_output=True, check=False)
