"""A PostgreSQL that fails while a trail is applied to it: the run goes on and applies each change once, or it states why not and continues later."""

from __future__ import annotations

import multiprocessing
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from apply.postgresql_server import USER, PostgreSQL, running_server
from apply.sources import write_log
from apply.test_killed import TRANSACTIONS, finish
from apply.test_postgresql import rows
from brokers.real_brokers import free_ports
from laws import chance
from oracles.apply_naive import Source
from trailgate import ApplyError, StorageError, TargetUnavailableError, apply_trail
from trailgate.apply.jobs.apply import ApplyRun, ThreadReading
from trailgate.apply.jobs.options import ApplyOptions
from trailgate.cli.main import run
from trailgate.jobs.retries import Retries

pytestmark = [pytest.mark.servers, pytest.mark.slow]
SMALL = ThreadReading(threads=1, batch_bytes=400)
DISTURBED = 6.0  # seconds in which faults occur
MET = 120.0  # seconds in which one of them meets a batch
ROUND = 20  # batches among faults


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSQL]:
    with running_server() as made:
        yield made


@pytest.fixture
def database(server: PostgreSQL, tmp_path: Path) -> str:
    """Give the address of an empty database."""
    name = f"f{abs(hash(tmp_path))}"
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return server.address.rpartition("/")[0] + f"/{name}"


def source(own: Random, folder: Path, transactions: int = TRANSACTIONS) -> Source:
    """Return a source whose trail is in a folder."""
    made = Source(own, keys=40)
    for _ in range(transactions):
        made.transaction()
    while not made.log:  # each of them may have been rolled back or empty
        made.transaction()
    write_log(folder / "ot", made.log)
    return made


def execute(database: str, *statements: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        for text in statements:
            connection.execute(text.encode())


def terminated(server: PostgreSQL, database: str, own: Random) -> None:
    """Terminate all other sessions."""
    del server
    time.sleep(own.uniform(0.02, 0.3))
    execute(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def cancelled(server: PostgreSQL, database: str, own: Random) -> None:
    """Cancel all statements, as statement_timeout does."""
    del server
    time.sleep(own.uniform(0.01, 0.05))
    execute(
        database,
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def restarted(server: PostgreSQL, database: str, own: Random) -> None:
    """Restart the server as after a crash."""
    del database
    time.sleep(own.uniform(0.05, 0.3))
    server.restart()


def locked(server: PostgreSQL, database: str, own: Random) -> None:
    """Hold locks for longer than others wait for them."""
    del server
    time.sleep(own.uniform(0.05, 0.2))
    with psycopg.connect(database) as connection:
        connection.execute("LOCK TABLE hr.t IN ACCESS EXCLUSIVE MODE")
        time.sleep(own.uniform(0.3, 0.8))


def deadlocked(server: PostgreSQL, database: str, own: Random) -> None:
    """Lock the rows of a table and then that of the position, which a run locks in the other order."""
    del server
    time.sleep(own.uniform(0.01, 0.1))
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE trailgate_checkpoint SET csn = csn WHERE target <> ''")
        connection.execute("LOCK TABLE hr.t IN ACCESS EXCLUSIVE MODE")


def conflicting(server: PostgreSQL, database: str, own: Random) -> None:
    """Change rows that a transaction has read."""
    del server
    time.sleep(own.uniform(0.0, 0.02))
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE trailgate_checkpoint SET csn = csn")


FAULTS: dict[str, tuple[Callable[[PostgreSQL, str, Random], None], dict[str, str]]] = {
    "terminated sessions": (terminated, {}),
    "cancelled statements": (cancelled, {}),
    "a restarted server": (restarted, {}),
    "locks of others": (locked, {"lock_timeout": "'100ms'"}),
    "deadlocks": (deadlocked, {"deadlock_timeout": "'10ms'"}),
    "serialization conflicts": (conflicting, {"default_transaction_isolation": "'serializable'"}),
}


@contextmanager
def disturbed(act: Callable[[], None]) -> Iterator[None]:
    """Do something again and again beside the test, for some seconds at most."""
    ended = threading.Event()
    until = time.monotonic() + DISTURBED

    def work() -> None:
        while not ended.is_set() and time.monotonic() < until:
            with suppress(psycopg.Error):
                act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("name", FAULTS)
def test_a_run_goes_on_after_faults_of_the_server_and_applies_each_change_once(
    server: PostgreSQL, database: str, tmp_path: Path, name: str
) -> None:
    fault, settings = FAULTS[name]
    own = chance(f"faults {name}")
    made = source(own, tmp_path)
    for setting, value in settings.items():
        execute(database, f"ALTER DATABASE {database.rpartition('/')[2]} SET {setting} = {value}")
    retries = Retries(patience=60)
    with ApplyRun(
        tmp_path / "ot", database, ApplyOptions(), reading=SMALL, retries=retries
    ) as apply:
        next(apply.batches())
        with disturbed(lambda: fault(server, database, own)):
            apply.to_end()
        until, done = time.monotonic() + MET, len(made.log)
        while not retries.faults and time.monotonic() < until:  # no fault has met a batch yet
            with disturbed(lambda: fault(server, database, own)):
                for _ in range(ROUND):
                    made.transaction()
                    write_log(tmp_path / "ot", made.log[done:])
                    done = len(made.log)
                    apply.to_end()
        apply.to_end()

    assert rows(database) == made.rows
    assert retries.outages
    assert retries.faults


CUTS = 12


class CuttingProxy:
    """A proxy that cuts connections at some COMMITs: before the server gets it, or before its answer is passed on.

    It is a process of its own: libpq's ping, which apply uses, keeps all threads of its process waiting.
    """

    def __init__(self, port: int, seed: float) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        context = multiprocessing.get_context("fork")
        self._cuts = context.Value("i", 0)
        self._process = context.Process(target=self._serve, args=(port, Random(seed)), daemon=True)
        self._process.start()

    @property
    def cuts(self) -> int:
        return int(self._cuts.value)

    def _serve(self, port: int, own: Random) -> None:
        while True:
            client, _ = self._listening.accept()
            server = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=self._pass, args=(client, server, own), daemon=True).start()
            threading.Thread(target=self._copy, args=(server, client), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket, own: Random) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                if data.endswith(b"COMMIT\0") and self._cuts.value < CUTS and own.random() < 0.5:
                    self._cuts.value += 1
                    if own.random() < 0.5:  # the server commits, and nobody learns of it
                        client.shutdown(socket.SHUT_RDWR)
                        server.sendall(data)
                        time.sleep(0.2)
                    break
                server.sendall(data)
        for one in (client, server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _copy(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._listening.close()


def test_a_connection_that_is_lost_during_a_commit_applies_each_change_once(
    server: PostgreSQL, database: str, tmp_path: Path
) -> None:
    own = chance("lost during a commit")
    made = source(own, tmp_path, 40)
    head, _, name = database.rpartition("/")
    proxy = CuttingProxy(int(head.rpartition(":")[2]), own.random())
    retries = Retries(patience=60)
    through = f"postgresql://me@127.0.0.1:{proxy.port}/{name}"
    with ApplyRun(
        tmp_path / "ot", through, ApplyOptions(), reading=SMALL, retries=retries
    ) as apply:
        apply.to_end()
    proxy.close()

    assert rows(database) == made.rows
    assert proxy.cuts
    assert retries.faults["unreachable"] >= proxy.cuts


def test_runs_of_one_group_at_the_same_time_apply_each_change_once(
    database: str, tmp_path: Path
) -> None:
    """Also in a table without a key, in which a row that is inserted twice is there twice."""
    made = source(chance("two at once"), tmp_path)
    execute(
        database,
        "CREATE SCHEMA hr",
        "CREATE TABLE hr.t (id bigint, a bigint, b bigint, c bigint)",
    )
    program = f"from trailgate import apply_trail; apply_trail({str(tmp_path / 'ot')!r}, {database!r}, batch_bytes=300, threads=1)"
    runs = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]

    assert [finish(one) for one in runs] == [0, 0, 0]
    assert rows(database) == made.rows


def test_a_server_that_is_not_there_is_waited_for_and_then_an_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source(chance("nobody"), tmp_path, 3)
    (port,) = free_ports(1)
    address = f"postgresql://me@127.0.0.1:{port}/x"
    assert run(["apply", str(tmp_path / "ot"), "--to", address, "--patience", "1"]) == 5
    first, last = capfd.readouterr().err.splitlines()
    assert first.endswith("trying again")
    assert last.startswith("error: ")


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("postgresql://nobody@127.0.0.1:{}/postgres", 'role "nobody" does not exist'),
        ("postgresql://me@127.0.0.1:{}/nothing", 'database "nothing" does not exist'),
        ("postgresql://me@127.0.0.1:{}/postgres?nonsense=1", "nonsense"),
    ],
)
def test_a_login_that_is_refused_is_an_error_at_once(
    server: PostgreSQL, tmp_path: Path, address: str, problem: str
) -> None:
    source(chance("refused"), tmp_path, 3)
    port = server.address.rpartition(":")[2].partition("/")[0]
    # With an hour's patience, a run that tried again would not end within the test's limit of time.
    with pytest.raises(StorageError, match=problem) as refused:
        apply_trail(tmp_path / "ot", address.format(port), patience=3600)
    assert not isinstance(refused.value, TargetUnavailableError)


def test_a_permission_that_is_revoked_ends_the_run_which_continues_when_it_is_granted(
    server: PostgreSQL, database: str, tmp_path: Path
) -> None:
    made = source(chance("revoked"), tmp_path, 40)
    with suppress(psycopg.errors.DuplicateObject):
        execute(database, "CREATE ROLE clerk LOGIN")
    name = database.rpartition("/")[2]
    execute(
        database, f"GRANT ALL ON DATABASE {name} TO clerk", "GRANT ALL ON SCHEMA public TO clerk"
    )
    clerk = database.replace("me@", "clerk@")
    with ApplyRun(tmp_path / "ot", clerk, ApplyOptions(), reading=SMALL) as apply:
        next(apply.batches())
        execute(database, "REVOKE INSERT, UPDATE, DELETE ON hr.t FROM clerk")
        with pytest.raises(ApplyError, match="permission denied for table t"):
            apply.to_end()
        assert not apply.retries.faults
    execute(database, "GRANT INSERT, UPDATE, DELETE ON hr.t TO clerk")
    # Who may not create tables needs those that exist.
    execute(
        database, "REVOKE ALL ON SCHEMA public FROM clerk", "GRANT USAGE ON SCHEMA public TO clerk"
    )
    apply_trail(tmp_path / "ot", clerk)

    assert rows(database) == made.rows


def test_a_full_disk_ends_the_run_which_continues_when_there_is_room(
    server: PostgreSQL, database: str, tmp_path: Path
) -> None:
    space = f"small{abs(hash(tmp_path))}"
    folder = server.folder / space
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root mounts a file system")
    try:
        shutil.chown(folder, USER)
        made = source(chance("full"), tmp_path, 60)
        execute(
            database,
            f"CREATE TABLESPACE {space} LOCATION '{folder}'",
            "CREATE SCHEMA hr",
            f"CREATE TABLE hr.t (id bigint, a bigint, b bigint, c bigint) TABLESPACE {space}",
            f"CREATE TABLE hr.filling (x text) TABLESPACE {space}",
        )
        with suppress(psycopg.errors.DiskFull):
            while True:
                execute(database, *["INSERT INTO hr.filling SELECT repeat('x', 500)"] * 50)
        code = run(["apply", str(tmp_path / "ot"), "--to", database])
        execute(database, "DROP TABLE hr.filling", "CHECKPOINT")
        again = run(["apply", str(tmp_path / "ot"), "--to", database])

        assert (code, again) == (3, 0)
        assert rows(database) == made.rows
    finally:
        execute(database, "DROP SCHEMA IF EXISTS hr CASCADE", "CHECKPOINT")
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_run_that_waits_holds_no_transaction_open(database: str, tmp_path: Path) -> None:
    source(chance("idle"), tmp_path, 5)
    with ApplyRun(tmp_path / "ot", database, ApplyOptions(), reading=SMALL) as apply:
        assert states(database) == ["idle"]
        apply.to_end()
        apply.release()
        assert states(database) == ["idle"]


def states(database: str) -> list[Any]:
    """Return what the sessions of runs do."""
    with psycopg.connect(database, autocommit=True) as connection:
        found = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE application_name = 'trailgate apply trailgate' AND datname = current_database()"
        ).fetchall()
    return [state for (state,) in found]


def test_a_connection_that_fails_at_its_settings_is_closed(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source(chance("settings"), tmp_path)
    opened: list[psycopg.Connection[Any]] = []
    connect = psycopg.connect

    def recorded(login: str) -> psycopg.Connection[Any]:
        opened.append(connect(login))
        return opened[-1]

    monkeypatch.setattr("psycopg.connect", recorded)
    monkeypatch.setattr(
        "trailgate.apply.targets.postgresql.SETTINGS", {"statement_timeout": "unknown"}
    )
    with pytest.raises(StorageError, match="statement_timeout"):
        apply_trail(tmp_path / "ot", database)

    assert [one.closed for one in opened] == [True]
