"""Without the extra ``duckdb``: everything works but SQL, DuckDB files and comparing tables, which name the package in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from trailgate.browse.index import TrailIndex
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

TRAIL = "dirdat/ot"
NEEDING = {
    "sql": ["sql", f"SELECT * FROM '{TRAIL}'"],
    "a DuckDB file": ["apply", TRAIL, "--to", "duckdb:shop.duckdb"],
    "its status": ["apply", "--to", "duckdb:shop.duckdb", "--status"],
    "a table of it": ["sql", "SELECT * FROM 'duckdb:shop.duckdb/gg/shop_orders'"],
    "verify": ["apply", TRAIL, "--to", "delta:lake/", "--verify"],
}
WORKING = {
    "show": ["show", TRAIL],
    "check": ["check", TRAIL],
    "delta": ["apply", TRAIL, "--to", "delta:lake/"],
    "parquet": ["apply", TRAIL, "--to", "parquet:history/", "--mode", "append"],
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a trail that is applied to Delta tables, in a process without DuckDB."""
    unpack(tmp_path / "shop")
    monkeypatch.chdir(tmp_path / "shop")
    properties = ["--properties", "dirprm/shop.properties"]
    assert run(["capture", *properties, "--from", "messages", "--to", TRAIL]) == 0
    assert run(["apply", TRAIL, "--to", "delta:lake/"]) == 0
    monkeypatch.setitem(sys.modules, "duckdb", None)  # importing it fails
    monkeypatch.delitem(sys.modules, "trailgate.apply.targets.duckdb", raising=False)
    return tmp_path / "shop"


@pytest.mark.parametrize("arguments", NEEDING.values(), ids=NEEDING)
def test_a_command_names_the_package(
    shop: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()

    assert run(arguments) == 1

    (error,) = capsys.readouterr().err.splitlines()
    assert "the package duckdb" in error
    assert f"Install it with: {sys.executable} -m pip install '" in error
    assert not (shop / "shop.duckdb").exists()


@pytest.mark.parametrize("arguments", WORKING.values(), ids=WORKING)
def test_other_commands_work(shop: Path, arguments: list[str]) -> None:
    assert run(arguments) == 0


def test_the_demo_leaves_sql_out(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--dir", str(shop / "demo"), "--no-spark"]) == 0

    out = capsys.readouterr().out
    assert "6 messages, 6 transactions, 13 operations" in out
    assert "# DuckDB is not installed. SQL and tables: " in out
    assert "$ trailgate sql" not in out


def test_the_page_for_sql_shows_the_error(shop: Path) -> None:
    testing = pytest.importorskip("starlette.testclient")
    from trailgate.browse import server  # noqa: PLC0415  needs starlette

    with TrailIndex(TRAIL) as index:
        index.build()
        client = testing.TestClient(server.application(index, "t"), base_url="http://127.0.0.1")
        pages = [client.get(f"/t/{page}") for page in ("sql", "sql?sql=SELECT%201")]

    assert [page.status_code for page in pages] == [200, 200]
    assert ["SQL needs the package duckdb" in page.text for page in pages] == [False, True]
