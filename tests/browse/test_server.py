"""The server of ``trailgate browse`` answers whoever has its token, and nobody else; it only reads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from browse.trails import plain_trail
from document_commands import obeyed_elsewhere, program_of, server_statements
from trailgate.browse.index import TrailIndex
from trailgate.cli.main import run

TOKEN = "a-token"
HERE = "http://127.0.0.1:8000"

testing = pytest.importorskip("starlette.testclient")
server = pytest.importorskip("trailgate.browse.server")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with TrailIndex(plain_trail(tmp_path_factory.mktemp("browse"))) as index:
        index.build()
        yield testing.TestClient(
            server.application(index, TOKEN), base_url=HERE, follow_redirects=False
        )


def test_the_overview_is_at_the_token(client: Any) -> None:
    answer = client.get(f"/{TOKEN}/")

    assert answer.status_code == 200
    assert "MY.ORDERS" in answer.text
    assert client.get(f"/{TOKEN}").headers["location"] == f"/{TOKEN}/"


@pytest.mark.parametrize("path", ["/", "/overview", "/style.css", "/b-token/", "//", "/a-token2/"])
def test_nothing_is_answered_without_the_token(client: Any, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 404
    assert "MY.ORDERS" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_a_foreign_name_of_this_machine_is_refused(client: Any, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost:9", "127.0.0.1", "[::1]:8000", "192.168.1.5:80"])
def test_a_forwarded_port_is_answered(client: Any, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9"])
def test_pages_of_other_sites_are_refused(client: Any, origin: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(client: Any, method: str) -> None:
    assert client.request(method, f"/{TOKEN}/").status_code == 405


@pytest.mark.parametrize("path", ["", "style.css", "fresh.js", "nope", "../etc/passwd", "%00"])
def test_every_answer_forbids_what_is_from_elsewhere(client: Any, path: str) -> None:
    answer = client.get(f"/{TOKEN}/{path}")

    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert not re.findall(r'(?:href|src|action)="(?:https?:|//)', answer.text)
    assert not re.findall(r"<script(?! type=\"module\" src=)|\son\w+=|style=", answer.text)


def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "trailgate", "browse", plain_trail(tmp_path), "--no-open"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        with urlopen(address) as answer:
            assert "MY.ORDERS" in answer.read().decode()
        process.send_signal(2)

    assert process.returncode == 0


@pytest.mark.servers  # like other guides that need a server
def test_the_commands_of_the_guide_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BROWSER", "true")  # opens nothing
    page = Path(__file__).parents[2] / "docs/howto/browse.md"
    obeyed_elsewhere(page)

    titles = []
    for statement in server_statements(page):
        line = program_of(statement)
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            with urlopen(process.stdout.readline().strip()) as answer:
                titles.append(re.findall(r"<title>(\w+)", answer.read().decode())[0])
            process.send_signal(2)
        assert process.returncode == 0
    assert titles == ["Overview", "Workbench", "Workbench"]


def test_a_port_that_is_taken_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["browse", plain_trail(tmp_path), "--port", "99999999", "--no-open"]) == 1
    assert "the server cannot listen there" in capsys.readouterr().err


def test_the_pages_of_a_trail_import_no_parser_of_messages() -> None:
    """Only the workbench needs them, and a tenth of a second each time that pages are started."""
    unwanted = ("trailgate.capture", "trailgate.cobol", "trailgate.formats", "duckdb", "numba")
    script = f"import sys, trailgate.browse.server; print([one for one in {unwanted} if one in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"
