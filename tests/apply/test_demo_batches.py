"""The demo's messages, captured and applied in one, two and three batches into each target: the tables are the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from apply.postgresql_server import running
from trailgate import query
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run

CUTS = {
    "one batch": ["000[1-6]*"],
    "two": ["000[1-3]*", "*"],
    "three": ["000[1-2]*", "000[1-4]*", "*"],
}
CUSTOMERS = [
    ("ANN", "ANN'S BOATS", "NEW YORK"),
    ("DAVE", "DAVE'S PLANES INC.", "TALLAHASSEE"),
    ("JANE", "ROCKY FLYER INC.", "DENVER"),
    ("WILL", "BG SOFTWARE CO.", "SEATTLE"),
]
ORDERS = [("1001", "JANE", "3"), ("1003", "ANN", "1")]
OPERATIONS = {"gg.jmscap_tcustmer": 7, "gg.shop_orders": 6}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    unpack(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    return tmp_path / "demo"


def applied(cuts: list[str], target: str, *options: str) -> None:
    """Capture the messages by their patterns, and apply the trail after each."""
    for pattern in cuts:
        capture = ["--properties", "dirprm/shop.properties", "--update-befores"]
        assert run(["capture", *capture, "--from", f"messages/{pattern}", "--to", "dirdat/rt"]) == 0
        assert run(["apply", "dirdat/rt", "--to", target, *options]) == 0


@pytest.mark.parametrize("target", ["delta:lake", "duckdb:shop.duckdb"])
@pytest.mark.parametrize("cut", CUTS)
def test_the_tables_are_the_same(folder: Path, target: str, cut: str) -> None:
    applied(CUTS[cut], target)
    customers = query(f"SELECT cust_code, name, city FROM '{target}/gg/jmscap_tcustmer' ORDER BY 1")
    orders = query(
        f"SELECT order_id, cust_code, quantity FROM '{target}/gg/shop_orders' ORDER BY 1"
    )
    assert rows_of(customers) == CUSTOMERS
    assert rows_of(orders) == ORDERS
    assert run(["apply", "dirdat/rt", "--to", target, "--verify"]) == 0


@pytest.mark.parametrize("cut", CUTS)
def test_so_are_operations_in_files_of_parquet(folder: Path, cut: str) -> None:
    applied(CUTS[cut], "parquet:history", "--mode", "append")
    for table, count in OPERATIONS.items():
        place = f"parquet:history/{table.replace('.', '/')}"
        assert rows_of(query(f"SELECT count(*) FROM '{place}'")) == [(str(count),)]


def rows_of(reader: Any) -> list[tuple[str, ...]]:
    return [tuple(map(str, row.values())) for row in reader.read_all().to_pylist()]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running() as address:
        yield address


@pytest.mark.servers
@pytest.mark.parametrize("cut", CUTS)
def test_so_are_those_of_postgresql(server: str, folder: Path, cut: str) -> None:
    name = f"demo{list(CUTS).index(cut)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    database = server.rpartition("/")[0] + f"/{name}"
    applied(CUTS[cut], database)
    with psycopg.connect(database) as connection:
        customers = connection.execute(
            "SELECT cust_code, name, city FROM gg.jmscap_tcustmer ORDER BY 1"
        ).fetchall()
        orders = connection.execute(
            "SELECT order_id::text, cust_code, quantity::text FROM gg.shop_orders ORDER BY 1"
        ).fetchall()
    assert (customers, orders) == (CUSTOMERS, ORDERS)
    assert run(["apply", "dirdat/rt", "--to", database, "--verify"]) == 0
