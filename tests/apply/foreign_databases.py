"""Databases with tables that others made: the same statements and questions to DuckDB and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import psycopg
import pytest
from psycopg.types.json import set_json_loads

from apply.foreign_types import PREPARED


class Database(NamedTuple):
    """A database with the schema ``hr``: its address for apply, ``run`` for statements, and ``rows`` for a question."""

    address: str
    run: Callable[..., None]
    rows: Callable[[str], list[tuple[Any, ...]]]


def duckdb_database(request: Any, folder: Path) -> Database:
    """Return an empty file of DuckDB."""
    path = folder / "shop.duckdb"

    def run(*statements: str) -> None:
        with duckdb.connect(str(path)) as connection:
            for text in statements:
                connection.execute(text)

    def rows(text: str) -> list[tuple[Any, ...]]:
        with duckdb.connect(str(path)) as connection:
            return connection.execute(text).fetchall()

    run("CREATE SCHEMA hr")
    return Database(f"duckdb:{path}", run, rows)


def postgresql_database(request: Any, folder: Path) -> Database:
    """Return an empty database of a PostgreSQL server."""
    server = request.getfixturevalue("server")
    name = f"f{abs(hash(folder))}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    address = server.rpartition("/")[0] + f"/{name}"

    def run(*statements: str) -> None:
        with psycopg.connect(address) as connection:
            for text in statements:
                connection.execute(text.encode())

    def rows(text: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(address) as connection:
            set_json_loads(
                lambda raw: raw if isinstance(raw, str) else bytes(raw).decode(), connection
            )
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET extra_float_digits = 1")
            connection.execute("SET DateStyle = 'ISO'")
            return connection.execute(text.encode()).fetchall()

    run("CREATE SCHEMA hr", *PREPARED)
    return Database(address, run, rows)


DATABASES: Final[Mapping[str, Callable[[Any, Path], Database]]] = {
    "duckdb": duckdb_database,
    "postgresql": postgresql_database,
}
# The names as parameters: a test with PostgreSQL starts a server.
NAMES: Final = [
    pytest.param(one, marks=pytest.mark.servers if one == "postgresql" else ()) for one in DATABASES
]
