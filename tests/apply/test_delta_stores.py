"""Delta tables in object stores: with the logins of trails, killed, by two runs at once, and without a store."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from apply.sources import Rows, rows_by_id, write_log
from apply.test_killed import APPLY, TRANSACTIONS, finish, killed
from document_commands import obeyed_elsewhere, program_of, server_statements
from laws import chance, kills
from oracles.apply_naive import Operation, Source
from store_servers.bucket import Bucket
from store_servers.s3 import ACCESS, SECRET
from trailgate.apply.jobs.apply import apply_trail
from trailgate.apply.targets.delta_errors import describe_store_error
from trailgate.apply.targets.target import table_rows
from trailgate.errors import OptionError, StorageError, TargetUnavailableError

pytestmark = pytest.mark.servers
GROUP = APPLY.replace("size = sys", "size, group = sys").replace(
    "threads=1", "threads=1, group=group, patience=100"
)
STATED = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def by_environment(bucket: Bucket, folder: Path, patch: pytest.MonkeyPatch) -> str:
    del folder, patch
    return f"delta:{bucket.url}/lake"


def by_address(bucket: Bucket, folder: Path, patch: pytest.MonkeyPatch) -> str:
    del folder
    for name in bucket.server.environment:
        patch.delenv(name, raising=False)
    return f"delta:{bucket.server.whole_url(bucket.name, 'lake')}"


def by_profile(bucket: Bucket, folder: Path, patch: pytest.MonkeyPatch) -> str:
    keys = f"[shop]\naws_access_key_id = {ACCESS}\naws_secret_access_key = {SECRET}\n"
    (folder / "credentials").write_text(keys)
    patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(folder / "credentials"))
    patch.setenv("AWS_PROFILE", "shop")
    for name in STATED:
        patch.delenv(name, raising=False)
    return f"delta:{bucket.url}/lake"


LOGINS = {
    "s3-environment": ("s3_bucket", by_environment),
    "s3-address": ("s3_bucket", by_address),
    "s3-profile": ("s3_bucket", by_profile),
    "azure-environment": ("azure_bucket", by_environment),
    "azure-address": ("azure_bucket", by_address),
}


def applied(folder: Path, address: str, *more: str) -> str:
    """Run the command, and return what it printed. It is a process of its own: the server is a thread of this one."""
    command = [sys.executable, "-m", "trailgate", "apply", str(folder / "ot"), "--to", address]
    done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def stored_rows(address: str) -> Rows:
    """Return the rows of the table below the address of a target."""
    head, mark, tail = address.partition("?")
    return rows_by_id(pa.table(table_rows(f"{head}/hr/t{mark}{tail}")).to_pylist())


@pytest.mark.parametrize("login", LOGINS)
def test_tables_in_a_store_get_each_change_with_the_login_of_trails(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    login: str,
) -> None:
    fixture, find = LOGINS[login]
    bucket = request.getfixturevalue(fixture)
    address = find(bucket, tmp_path, monkeypatch)
    source = Source(chance(f"stored {login}"), keys=20)
    done = 0
    for _ in range(2):
        for _ in range(10):
            source.transaction()
        write_log(tmp_path / "ot", source.log[done:])
        done = len(source.log)
        printed = applied(tmp_path, address)
        assert stored_rows(address) == source.rows
    status = applied(tmp_path, address, "--status")
    printed += applied(tmp_path, address, "--verify") + status

    assert bucket.server.secret not in printed
    assert "hr.t" in status
    assert bucket.keys("lake/hr/t/_delta_log/")


@pytest.mark.slow
def test_a_killed_run_into_a_store_applies_each_change_once(
    s3_bucket: Bucket, tmp_path: Path
) -> None:
    own = chance("killed in a store")
    source = Source(own, keys=40)
    for _ in range(TRANSACTIONS // 2):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    address = f"delta:{s3_bucket.url}/lake"

    killed(own, tmp_path, address, kills(3))

    assert stored_rows(address) == source.rows


def test_errors_of_a_store_have_their_cause(s3_bucket: Bucket, tmp_path: Path) -> None:
    source = Source(chance("refused by a store"), keys=5)
    for _ in range(10):
        source.transaction()
    write_log(tmp_path / "ot", source.log)

    with pytest.raises(
        StorageError, match=r"^the bucket or container does not exist: NoSuchBucket: The specified"
    ):
        apply_trail(tmp_path / "ot", "delta:s3://nowhere/lake")
    url = s3_bucket.server.whole_url(s3_bucket.name, "lake")
    with pytest.raises(OptionError, match="does not support the parameter role_arn"):
        apply_trail(tmp_path / "ot", f"delta:{url}&role_arn=a")
    with pytest.raises(OptionError, match="cannot be written anonymously"):
        apply_trail(tmp_path / "ot", "delta:gs://anonymous@bucket/lake")


def test_a_store_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    source = Source(chance("no store"), keys=5)
    for _ in range(10):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    address = "delta:s3://KEY:SECRET@bucket/lake?scheme=http&region=x&endpoint_override=127.0.0.1:9"

    with pytest.raises(
        TargetUnavailableError,
        match=r"^nothing answers at the store's address: Connection refused.*, at http://127.0.0.1:9 \(s3://bucket/lake",
    ) as error:
        apply_trail(tmp_path / "ot", address, patience=0)

    assert "SECRET" not in str(error.value)


ANSWERS = {
    "Generic S3 error: Error performing PUT http://h:1/b/k in 2ms - Server returned non-2xx status code: 403 Forbidden: "
    '<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Denied</Message></Error>': "the store denies access: AccessDenied: Denied, at http://h:1",
    "Kernel error\n\u21b3 Generic MicrosoftAzure error\n\u21b3 Error performing GET http://169.254.169.254/x\n\u21b3 timed out": "no login for the store was found: timed out, at http://169.254.169.254",
    "Generic S3 error: something new": "the store refuses: Generic S3 error: something new",
}


@pytest.mark.parametrize("text", ANSWERS)
def test_an_error_of_a_store_begins_with_its_cause(text: str) -> None:
    assert describe_store_error(text) == ANSWERS[text]


def test_other_errors_are_not_of_a_store() -> None:
    assert describe_store_error("Generic error: the file is gone") is None


def test_two_runs_at_once_apply_each_change_to_a_store_once(
    s3_bucket: Bucket, tmp_path: Path
) -> None:
    """Each run begins at the position that it finds, and meets commits of the other one."""
    own = chance("two runs in a store")
    source = Source(own, keys=20)
    for _ in range(TRANSACTIONS // 10):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    address = f"delta:{s3_bucket.url}/lake"

    runs = [
        subprocess.Popen([sys.executable, "-c", GROUP, str(tmp_path / "ot"), address, size, "g"])
        for size in ("200", "500")
    ]

    assert [finish(run) for run in runs] == [0, 0]
    assert stored_rows(address) == source.rows


def test_two_trails_into_one_table_wait_for_each_other(s3_bucket: Bucket, tmp_path: Path) -> None:
    address, sizes = f"delta:{s3_bucket.url}/lake", {"a": "200", "b": "300"}
    for name, first in (("a", 0), ("b", 100)):
        log = [
            Operation("I", first + key, first + key, {"a": key, "b": 1, "c": 1}, key)
            for key in range(12)
        ]
        write_log(tmp_path / name, log)

    runs = [
        subprocess.Popen([sys.executable, "-c", GROUP, str(tmp_path / name), address, size, name])
        for name, size in sizes.items()
    ]

    assert [finish(run) for run in runs] == [0, 0]
    assert set(stored_rows(address)) == {*range(12), *range(100, 112)}


CUTS = 8


class CuttingStoreProxy:
    """A proxy that cuts connections at some commits of Delta tables: before the store gets the request, or before its answer is passed on."""

    def __init__(self, port: int, own: Random) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.cuts = {"request": 0, "answer": 0}
        self._port, self._own = port, own
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        is_mute = threading.Event()
        with client, socket.create_connection(("127.0.0.1", self._port)) as server:
            answering = threading.Thread(target=self._answer, args=(client, server, is_mute))
            answering.start()
            with suppress(OSError):
                while data := client.recv(1 << 16):
                    part = self._draw_cut(data)
                    if part == "request":
                        break
                    if part == "answer":
                        is_mute.set()
                    server.sendall(data)
            for end in (client, server):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            answering.join()

    def _draw_cut(self, data: bytes) -> str:
        """Return the part of a request that is cut, or "" for none."""
        line = data.partition(b"\r\n")[0]
        is_commit = line.startswith(b"PUT ") and b"/_delta_log/" in line
        if not is_commit or sum(self.cuts.values()) >= CUTS or self._own.random() < 0.5:
            return ""
        part = self._own.choice(("request", "answer"))
        self.cuts[part] += 1
        return part

    def _answer(
        self, client: socket.socket, server: socket.socket, is_mute: threading.Event
    ) -> None:
        with suppress(OSError):
            while (data := server.recv(1 << 16)) and not is_mute.is_set():
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listening.close()


def test_connections_that_are_cut_lose_and_double_nothing(
    s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = chance("cut connections to a store")
    source = Source(own, keys=20)
    for _ in range(TRANSACTIONS // 8):
        source.transaction()
    write_log(tmp_path / "ot", source.log)
    address = f"delta:{s3_bucket.url}/lake"
    server: Any = s3_bucket.server
    proxy = CuttingStoreProxy(int(server.host.rpartition(":")[2]), own)
    with monkeypatch.context() as patched:
        patched.setenv("AWS_ENDPOINT_URL", f"http://{proxy.host}")
        run = subprocess.run(
            [sys.executable, "-c", GROUP, str(tmp_path / "ot"), address, "200", "g"],
            capture_output=True,
            text=True,
            check=False,
        )
    proxy.close()

    assert run.returncode == 0, run.stderr
    assert stored_rows(address) == source.rows
    assert sum(proxy.cuts.values()) == CUTS


def test_the_guide_to_tables_in_a_store(
    s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs/howto/delta.md"
    obeyed_elsewhere(page)
    (statement,) = server_statements(page)
    assert "delta:s3://shop/lake" in statement

    command = program_of(statement.replace("s3://shop", s3_bucket.url))
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    for name in ("jmscap_tcustmer", "shop_orders"):
        stored = pa.table(table_rows(f"delta:{s3_bucket.url}/lake/gg/{name}"))
        here = pa.table(table_rows(f"delta:lake/gg/{name}"))
        order = [(here.column_names[0], "ascending")]
        assert stored.sort_by(order).to_pylist() == here.sort_by(order).to_pylist()
        assert len(here)
