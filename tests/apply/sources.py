"""A naive source (oracles/apply_naive.py) that writes a trail, and the rows of a target's table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from apply.naive_batches import TABLE, block_of, transaction_indicators
from laws import examples
from oracles.apply_naive import COLUMNS, Operation
from trailgate import TrailAppender
from trailgate.apply.targets.target import table_rows
from trailgate.model.changes import ChangeBatch
from trailgate.model.tables import Definitions
from trailgate.storage.live.live_trail import AppendOptions

DEFINITIONS = Definitions((TABLE,))
Rows = dict[int, dict[str, Any]]


def write_log(prefix: Path, log: Sequence[Operation], *, new_file: bool = False) -> None:
    """Append a log to a trail, which is begun where there is none; in a new file if it is to be."""
    block = replace(block_of(log), tx_ind=transaction_indicators(log))
    with TrailAppender(str(prefix), DEFINITIONS, AppendOptions(new_file=new_file)) as trail:
        if log:
            trail.append(ChangeBatch([block], len(block)))
            trail.commit(str(log[-1].transaction))


def duckdb_rows(folder: Path) -> Rows:
    """Return the rows of the table in the file of DuckDB."""
    with duckdb.connect(str(folder / "hr.duckdb")) as connection:
        return rows_by_id(
            connection.sql("SELECT * FROM hr.hr.t").to_arrow_reader().read_all().to_pylist()
        )


def delta_rows(folder: Path) -> Rows:
    """Return the rows of the Delta table."""
    return rows_by_id(pa.table(DeltaTable(folder / "lake/hr/t").scan()).to_pylist())


def rows_by_id(found: list[dict[str, Any]]) -> Rows:
    """Return rows by their keys, each of which is there once."""
    rows = {row["id"]: {name: row[name] for name in COLUMNS} for row in found}
    assert len(rows) == len(found)
    return rows


def iceberg_rows(folder: Path) -> Rows:
    """Return the rows of the Iceberg table."""
    return rows_by_id(table_rows(f"iceberg:{folder}/warehouse/hr/t").read_all().to_pylist())


TARGETS: dict[str, tuple[str, Callable[[Path], Rows]]] = {
    "delta": ("delta:{}/lake", delta_rows),
    "duckdb": ("duckdb:{}/hr.duckdb", duckdb_rows),
    "iceberg": ("iceberg:{}/warehouse", iceberg_rows),
}


def tries(name: str, count: int) -> int:
    """Return how many examples to try with a target: a commit of Iceberg takes ten times as long as others."""
    return -(-examples(count) // 6) if name == "iceberg" else examples(count)
