"""The targets of the modes' tests, one row each: how a target is opened, and how the rows of its tables are read.

Some need what a fixture starts: a server of PostgreSQL, or a session of Spark that has Delta or an Iceberg catalog. Their tests pass it as ``needed``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import duckdb
import psycopg
from deltalake import DeltaTable
from psycopg.rows import dict_row

from apply.memory_target import MemoryTarget
from apply.value_table import iceberg_rows, parquet_rows
from trailgate.apply.jobs.apply import ThreadReading
from trailgate.apply.targets.target import ApplyTarget, open_target

Rows = Sequence[Mapping[str, Any]]
# What histories are applied to when a test names no target: memory is quick.
SHARES: Final = ("memory", "lake in memory") * 3 + ("duckdb", "delta")


def one_thread(**how: Any) -> ThreadReading:
    """Return a reading by one thread."""
    return ThreadReading(1, **how)


@dataclass(frozen=True)
class Place:
    """A target of a test: its address, how it is opened, how the rows of a table are read, and what reads the splits of a trail."""

    to: str
    open: Callable[[str], ApplyTarget]
    rows: Callable[[str], Rows]
    reading: Callable[..., ThreadReading] = one_thread


def place(name: str, folder: Path, mode: str, needed: Any = None) -> Place:
    """Return a new target of a kind in a folder."""
    return PLACES[name](folder, mode, needed)


def _memory(each_alone: bool, *_: object) -> Place:
    memory = MemoryTarget(each_alone=each_alone)
    return Place(
        "memory:", memory.opened, lambda table: memory.table(tuple(table.lower().split(".")))
    )


def _duckdb(folder: Path, mode: str, _: object) -> Place:
    def rows(table: str) -> Rows:
        with duckdb.connect(str(folder / "x.duckdb")) as connection:
            tables = (
                "SELECT count(*) FROM duckdb_tables() WHERE schema_name || '.' || table_name = ?"
            )
            if connection.execute(tables, [table.lower()]).fetchall() == [(0,)]:
                return []
            found: Rows = (
                connection.sql(f"SELECT * FROM x.{table.lower()}").to_arrow_table().to_pylist()
            )
            return found

    to = f"duckdb:{folder}/x.duckdb"
    return Place(to, lambda group: open_target(to, group, mode), rows)


def _delta_rows(folder: Path, table: str) -> Rows:
    path = folder / "lake" / table.lower().replace(".", "/")
    if not path.exists():
        return []
    found: Rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return found


def _delta(folder: Path, mode: str, _: object) -> Place:
    to = f"delta:{folder}/lake"
    return Place(to, lambda group: open_target(to, group, mode), partial(_delta_rows, folder))


def _parquet(folder: Path, mode: str, _: object) -> Place:
    to = f"parquet:{folder}/appended"

    def rows(table: str) -> Rows:
        own = folder / "appended" / table.lower().replace(".", "/")
        return parquet_rows(to, table.lower()) if any(own.glob("*.parquet")) else []

    return Place(to, lambda group: open_target(to, group, mode), rows)


def _postgresql(folder: Path, mode: str, server: str) -> Place:
    """Return a new database of a server, in place of the one of the history before."""
    del folder
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS modes WITH (FORCE)")
        connection.execute("CREATE DATABASE modes")
    to = f"{server.rpartition('/')[0]}/modes"

    def rows(table: str) -> Rows:
        with psycopg.connect(to, row_factory=dict_row) as connection:
            if (
                connection.execute("SELECT to_regclass(%s) AS t", [table]).fetchall()[0]["t"]
                is None
            ):
                return []
            return connection.execute(f"SELECT * FROM {table}".encode()).fetchall()

    return Place(to, lambda group: open_target(to, group, mode), rows)


def _delta_by_session(folder: Path, _: str, spark: Any) -> Place:
    module = importlib.import_module("trailgate.apply.spark.delta")
    return Place(
        f"delta:{folder}/lake",
        lambda group: module.open_tables(f"{folder}/lake", group, spark),
        partial(_delta_rows, folder),
        _tasks(spark),
    )


def _iceberg(folder: Path, mode: str, _: object) -> Place:
    to = f"iceberg:{folder}/warehouse"
    return Place(
        to,
        lambda group: open_target(to, group, mode),
        lambda table: iceberg_rows(to, table.lower()),
    )


def _iceberg_by_session(folder: Path, _: str, spark: Any) -> Place:
    """Return a new namespace of the catalog ``lake``."""
    module = importlib.import_module("trailgate.apply.spark.iceberg")
    root = "lake.m" + "".join(letter for letter in str(folder) if letter.isalnum())

    def rows(table: str) -> Rows:
        name = f"{root}.{table.lower()}"
        if not spark.catalog.tableExists(name):
            return []
        found: Rows = spark.table(name).toArrow().to_pylist()
        return found

    opened: Callable[[str], ApplyTarget] = lambda group: module.open_tables(root, group, spark)  # noqa: E731
    return Place(f"iceberg:{root}", opened, rows, _tasks(spark))


def _tasks(spark: Any) -> Callable[..., ThreadReading]:
    return partial(importlib.import_module("trailgate.apply.spark.trail").TaskReading, spark=spark)


PLACES: Final[Mapping[str, Callable[[Path, str, Any], Place]]] = MappingProxyType(
    {
        "memory": partial(_memory, False),
        "lake in memory": partial(_memory, True),
        "duckdb": _duckdb,
        "delta": _delta,
        "parquet": _parquet,
        "postgresql": _postgresql,
        "delta by the session": _delta_by_session,
        "iceberg": _iceberg,
        "iceberg by the session": _iceberg_by_session,
    }
)
