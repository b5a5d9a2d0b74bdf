"""Operations of each kind on a table with columns of each type, and on two small tables, for what merges them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from apply.naive_batches import block_of_images
from trailgate import TrailAppender
from trailgate.model.changes import (
    DELETE,
    INSERT,
    KEY_UPDATE,
    UPDATE,
    ChangeBatch,
    ChangeBlock,
)
from trailgate.model.tables import Column, Definitions, Table

KINDS = Table(
    "HR.KINDS",
    (
        Column("ID", 134, 8, key=True),
        Column("DAY", 192, 10, key=True),
        Column('a"b`c', 64, 40),
        Column("AMOUNT", 134, 8, scale=2),
        Column("AT", 192, 26),
        Column("RAW", 64, 40, sub_type=4),
        Column("F", 143, 8),
        Column("U", 135, 8),
        Column("P", 64, 40, sub_type=2),
    ),
)
# No column is of the key, so all are.
LOOSE = Table("HR.LOOSE", (Column("ID", 134, 8), Column("NAME", 64, 40)))
FIRST = Table("HR.FIRST", (Column("ID", 134, 8, key=True), Column("N", 134, 8)))
SECOND = Table("HR.SECOND", FIRST.columns)
TABLES = Definitions((KINDS, LOOSE, FIRST, SECOND))
BOTH = ("hr/first", "hr/second")

Row = dict[str, Any]
Change = tuple[int, Row, Row]


def _row(number: int, day: str, text: str | None) -> Row:
    """Return a row of the table with columns of each type."""
    return {
        "ID": number,
        "DAY": day,
        'a"b`c': text,
        "AMOUNT": Decimal(number * 100 + 1) / 100,
        "AT": f"1969-12-31 23:59:5{number}.000001",
        "RAW": "00FF" * number,
        "F": number / 3,
        "U": (1 << 64) - number,
        "P": "0.10",
    }


def _write(prefix: Path, blocks: Sequence[ChangeBlock]) -> None:
    with TrailAppender(str(prefix), TABLES) as trail:
        for number, block in enumerate(blocks):
            trail.append(ChangeBatch([block], len(block)))
            trail.commit(str(number))


def write_kinds(prefix: Path, *, begin: bool) -> None:
    """Write inserts, or the operations of each kind on their rows."""
    day, other = "2026-02-28", "0001-01-01"
    kinds: list[Change]
    loose: list[Change]
    if begin:
        rows = [_row(number, day, f"it's {number}\\n") for number in range(1, 5)]
        kinds = [(INSERT, {}, row) for row in (*rows, _row(5, other, None))]
        loose = [(INSERT, {}, {"ID": number, "NAME": None}) for number in (1, 2)]
    else:
        key = {number: {"ID": number, "DAY": day} for number in range(1, 5)}
        kinds = [
            (UPDATE, key[1], key[1] | {'a"b`c': "only this", "U": None}),
            (DELETE, key[2], {}),
            (DELETE, key[3], {}),
            (INSERT, {}, key[3] | {"P": "7"}),
            (KEY_UPDATE, key[4], {"ID": 9, "DAY": other, "F": 0.5}),
            (INSERT, {}, _row(6, "9999-12-31", "new")),
        ]
        gone: Row = {"ID": 1, "NAME": None}
        kept: Row = {"ID": 2, "NAME": None}
        loose = [(DELETE, gone, {}), (UPDATE, kept, kept | {"NAME": "two"})]
    _write(prefix, [block_of_images(KINDS, kinds), block_of_images(LOOSE, loose)])


def write_orders(prefix: Path, first: int, end: int) -> None:
    """Write to two tables the inserts of rows from ``first`` up to ``end``, and an update that adds to each row before them."""
    changes: list[Change] = []
    for number in range(first, end):
        changes += [(UPDATE, {"ID": one}, {"ID": one, "N": number}) for one in range(number)]
        changes.append((INSERT, {}, {"ID": number, "N": number}))
    _write(prefix, [block_of_images(table, changes) for table in (FIRST, SECOND)])


def order_rows(end: int) -> dict[int, int]:
    """Return the rows of either table, by id, after the rows up to ``end`` were written."""
    return dict.fromkeys(range(end), end - 1)


def sorted_rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table in the order of their texts."""
    rows: list[Row] = table.to_pylist()
    return sorted(rows, key=str)
