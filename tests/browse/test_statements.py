"""An SQL statement of a page ends when it is canceled, when its client leaves, at its limit and with the server; one runs at a time."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread, Timer
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import pytest

from browse.test_operation_pages import plain
from browse.trails import plain_trail
from trailgate.browse.index import TrailIndex
from trailgate.errors import OptionError
from trailgate.sql.job import QueryCancellation

pytest.importorskip("uvicorn")
import uvicorn

from trailgate.browse import server, statements

ENDLESS = {
    "a sum": "SELECT sum(hash(a.range) % 7) FROM range(300000000000) a",
    "a recursion": "WITH RECURSIVE t AS (SELECT 1 x UNION ALL SELECT 1 - x FROM t) SELECT max(x) FROM t",
    "no rows": "SELECT * FROM range(300000000000) a WHERE a.range < 0.5 - hash(a.range)",
    "of the trail": "SELECT sum(hash(o.position, a.range) % 7) FROM operations o, range(99999999999) a",
}
SHORT = "SELECT 41 + 1 AS answer"


class Served:
    """A server in a thread, at a port of its own."""

    def __init__(self, index: TrailIndex) -> None:
        self.statements = statements.StatementRunner()
        application = server.application(index, "t", statements=self.statements)
        self.server = uvicorn.Server(uvicorn.Config(application, log_level="error"))
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}/t/"
        self.thread = Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()

    def get(self, path: str) -> str:
        with urlopen(self.address + path, timeout=120) as answer:
            return str(answer.read().decode())

    def begin(self, text: str, page: str = "sql?sql=") -> socket.socket:
        """Ask for a statement's answer, wait until the statement runs, and return the connection."""
        sent = urlsplit(self.address)
        assert sent.hostname is not None
        connection = socket.create_connection((sent.hostname, sent.port or 0), timeout=120)
        line = f"GET {sent.path}{page}{quote(text)} HTTP/1.1\r\nHost: {sent.netloc}\r\nConnection: close\r\n\r\n"
        connection.sendall(line.encode())
        until(lambda: self.statements.running is not None)
        return connection


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def rest(connection: socket.socket) -> str:
    """Return the answer that a connection gets."""
    data = b""
    while part := connection.recv(1 << 16):
        data += part
    connection.close()
    return plain(data.decode())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with TrailIndex(plain_trail(tmp_path_factory.mktemp("statements"))) as index:
        index.build()
        found = Served(index)
        yield found
        found.server.should_exit = True
        found.thread.join(10)
        found.socket.close()


@pytest.mark.parametrize("name", ENDLESS)
def test_a_statement_ends_when_its_client_leaves(served: Served, name: str) -> None:
    served.begin(ENDLESS[name]).close()

    until(lambda: served.statements.running is None)
    assert "answer 42" in plain(served.get(f"sql?sql={quote(SHORT)}"))


def test_a_file_of_an_answer_ends_when_its_client_leaves(served: Served) -> None:
    served.begin(ENDLESS["a sum"], "answer?to=csv&sql=").close()

    until(lambda: served.statements.running is None)


@pytest.mark.parametrize("name", ENDLESS)
def test_a_statement_is_canceled_from_its_page(served: Served, name: str) -> None:
    connection = served.begin(ENDLESS[name])
    waiting = plain(served.get("sql"))
    served.statements.cancel()

    assert "A statement is running, since" in waiting
    assert "the statement was canceled" in rest(connection)
    assert served.statements.running is None
    assert "is running" not in plain(served.get("sql"))


def test_one_statement_runs_at_a_time_and_other_pages_are_answered(served: Served) -> None:
    connection = served.begin(ENDLESS["a sum"])
    refused = plain(served.get(f"sql?sql={quote(SHORT)}"))
    others = [served.get(page) for page in ("", "operations", "quarantine")]
    served.statements.cancel()
    rest(connection)

    assert re.search(
        r"another statement has been running for \d+ s, and only one can run at a time", refused
    )
    assert all(others)
    assert "answer 42" in plain(served.get(f"sql?sql={quote(SHORT)}"))


def test_many_statements_whose_clients_left_leave_nothing_running(served: Served) -> None:
    first = served.begin(ENDLESS["a sum"])
    left = [served.begin(ENDLESS["a sum"]) for _ in range(10)]
    for one in [*left, first]:
        one.close()

    until(lambda: served.statements.running is None)
    assert "answer 42" in plain(served.get(f"sql?sql={quote(SHORT)}"))


def test_a_new_statement_of_the_page_that_was_left_is_answered(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser closes the old connection and asks the new question at the same time."""
    monkeypatch.setattr(statements, "WAIT_SECONDS", 60.0)  # a machine may be busy
    old = served.begin(ENDLESS["a sum"])
    Timer(0.2, old.close).start()

    assert "answer 42" in plain(served.get(f"sql?sql={quote(SHORT)}"))


@pytest.mark.parametrize("name", ENDLESS)
def test_a_statement_ends_at_its_limit(
    served: Served, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.browse.sql_pages.PAGE_SECONDS", 0.3)

    page = plain(served.get(f"sql?sql={quote(ENDLESS[name])}"))

    assert "the statement took more than 0.3 s and was canceled" in page


def test_the_page_states_the_limits(served: Served) -> None:
    assert "for 60 s at most, and for 10 min to save its answer" in plain(served.get("sql"))


def test_a_closed_server_begins_no_statement() -> None:
    closed = statements.StatementRunner()
    closed.close()

    with (
        pytest.raises(OptionError, match="trailgate browse is ending"),
        closed.run(SHORT, QueryCancellation(), 1),
    ):
        pass


def test_canceling_needs_the_page_of_this_server(served: Served) -> None:
    testing = pytest.importorskip("starlette.testclient")
    client: Any = testing.TestClient(
        served.server.config.app, base_url="http://127.0.0.1", follow_redirects=False
    )
    body = {"sql": "SELECT 1"}

    assert client.post("/t/cancel", data=body).status_code == 403
    assert (
        client.post("/t/cancel", data=body, headers={"origin": "http://evil.example"}).status_code
        == 403
    )
    kept = client.post("/t/cancel", data=body, headers={"origin": "http://127.0.0.1"})
    assert (kept.status_code, kept.headers["location"]) == (303, "sql?draft=SELECT+1")
    assert client.get("/t/cancel").status_code == 405
    page = client.get("/t/sql?draft=SELECT+1").text
    assert "SELECT 1</textarea>" in page
    assert '<table class="answer">' not in page


def test_the_program_ends_at_once_while_a_statement_runs(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "trailgate", "browse", plain_trail(tmp_path), "--no-open"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()

        def ask() -> None:
            with suppress(OSError):
                urlopen(f"{address}sql?sql={quote(ENDLESS['a sum'])}").read()

        asking = Thread(target=ask)
        asking.start()
        until(lambda: "A statement is running" in urlopen(f"{address}sql").read().decode())
        process.send_signal(2)
        try:
            process.wait(60)
        finally:
            process.kill()
        asking.join()

    assert process.returncode == 0
