"""A small bank for tests of Replicat files: two tables, a few transactions, and the trail of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from trail.batches import Operation, batch_of
from trailgate import TrailAppender
from trailgate.model.tables import Column, Definitions, Table

TEXT: Final = 64
INTEGER: Final = 134


def _text(name: str, *, key: bool = False) -> Column:
    return Column(name, TEXT, 40, key=key)


CUST: Final = Table(
    "BANK.CUST",
    (_text("CUST_CODE", key=True), _text("NAME"), _text("CITY"), _text("STATE")),
)
ORDERS: Final = Table(
    "BANK.ORDERS",
    (
        Column("ORDER_ID", INTEGER, 8, key=True),
        _text("CUST_CODE"),
        Column("AMOUNT", INTEGER, 8),
        _text("NOTE"),
    ),
)
DEFINITIONS: Final = Definitions((CUST, ORDERS))
Step = tuple[str, str, dict[str, Any], dict[str, Any]]  # table, operation, before, after


def customer(code: str, name: str, city: str, state: str) -> dict[str, Any]:
    return {"CUST_CODE": code, "NAME": name, "CITY": city, "STATE": state}


def order(number: int, code: str, amount: int, note: str | None = None) -> dict[str, Any]:
    return {"ORDER_ID": number, "CUST_CODE": code, "AMOUNT": amount, "NOTE": note}


ANN = customer("ANN", "Ann Lee", "Oslo", "NO")
BOB = customer("BOB", "Bob Ray", "Rome", "IT")
CAT = customer("CAT", "Cat Orr", "Bergen", "NO")
# Each step is a transaction: three inserts, an update with all columns, a compressed one, and a delete of each table.
HISTORY: Final[Sequence[Step]] = (
    ("BANK.CUST", "I", {}, ANN),
    ("BANK.CUST", "I", {}, BOB),
    ("BANK.CUST", "I", {}, CAT),
    ("BANK.ORDERS", "I", {}, order(1, "ANN", 50, "first")),
    ("BANK.ORDERS", "I", {}, order(2, "BOB", 70)),
    ("BANK.ORDERS", "I", {}, order(3, "ANN", 90, "big")),
    ("BANK.CUST", "U", ANN, ANN | {"CITY": "Moss"}),
    ("BANK.ORDERS", "U", order(2, "BOB", 70), order(2, "BOB", 75, "more")),
    ("BANK.CUST", "D", BOB, {}),
    ("BANK.ORDERS", "D", order(1, "ANN", 50, "first"), {}),
)


def write_bank(
    prefix: Path,
    steps: Sequence[Step] = HISTORY,
    first: int = 0,
    definitions: Definitions = DEFINITIONS,
) -> None:
    """Append transactions of one operation each to a trail, which is begun if it does not exist; ``first`` is the number of the first one."""
    with TrailAppender(str(prefix), definitions) as trail:
        for number, (table, kind, before, after) in enumerate(steps, first):
            text = str(number + 1)
            one: Operation = {
                "table": table,
                "op_type": kind,
                "op_ts": number * 1_000_000,
                "tx_ind": "W",
                "tx_id": text,
                "csn": text,
                "before": before,
                "after": after,
            }
            trail.append(batch_of(definitions, [one]))
            trail.commit(text)


def rows_of(file: Path, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """Return the rows of a table in a file of DuckDB, sorted."""
    with duckdb.connect(str(file), read_only=True) as connection:
        found: list[tuple[Any, ...]] = connection.sql(
            f"SELECT {columns} FROM {file.stem}.{table} ORDER BY ALL"
        ).fetchall()
        return found
