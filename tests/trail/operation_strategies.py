"""Hypothesis strategies: tables of all types, and transactions of operations on them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TypeFamily

WIDE = Table(
    "S.WIDE",
    (
        Column("ID", 134, 8, key=True),
        Column("NAME", 64, 50),
        Column("PADDED", 0, 12),
        Column("AMOUNT", 134, 8, scale=3),
        Column("SMALL", 130, 2),
        Column("USMALL", 131, 2),
        Column("INT", 132, 4),
        Column("UINT", 133, 4),
        Column("UBIG", 135, 8),
        Column("UAMOUNT", 135, 8, scale=2),
        Column("DAY", 192, 10),
        Column("SECOND", 192, 19),
        Column("NANO", 191, 29),
        Column("NUMBER", 64, 40, sub_type=2),
    ),
)
NARROW = Table("S.NARROW", (Column("A", 64, 20, key=True), Column("B", 64, 20)))
KEYLESS = Table("C.S.KEYLESS", (Column("X", 132, 4), Column("Y", 64, 4000)))
DEFINITIONS = Definitions((WIDE, NARROW, KEYLESS))

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def values(column: Column) -> st.SearchStrategy[Any]:
    if column.family in (TypeFamily.INTEGER, TypeFamily.UNSIGNED):
        bits = 8 * (column.type_row.width or 0)
        signed = column.family is TypeFamily.INTEGER
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
        numbers = st.integers(low, high)
        if column.scale:
            return numbers.map(
                lambda n: Decimal((n < 0, Decimal(n).as_tuple().digits, -column.scale))
            )
        return numbers
    if column.family is TypeFamily.DATETIME:
        return st.datetimes().map(
            lambda t: (t.isoformat(" ", "microseconds").rjust(26, "0") + "000")[
                : column.external_length
            ]
        )
    if column.type_row.fixed:
        short = TEXT.map(lambda t: t.rstrip(" ").replace("\0", ""))
        return short.filter(lambda t: len(t.encode()) <= column.external_length)
    return TEXT


def images(table: Table, required: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    columns = {c.name: st.none() | values(c) for c in table.columns}
    some = st.fixed_dictionaries({}, optional=columns)
    return some.filter(bool) if required else some


@st.composite
def operations(draw: st.DrawFn) -> dict[str, Any]:
    table = draw(st.sampled_from(DEFINITIONS.tables))
    kind = draw(st.sampled_from("IUKDT"))
    before = draw(images(table)) if kind in "UKD" else {}
    after = draw(images(table)) if kind in "IUK" else {}
    when = draw(st.integers(-(10**15), 4 * 10**15))
    return {"table": table.name, "op_type": kind, "op_ts": when, "before": before, "after": after}


@st.composite
def runs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the operations of several transactions, one behind the other."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        ops = draw(st.lists(operations(), min_size=1, max_size=6))
        tx_id = draw(st.none() | st.just(f"1.2.{number}"))
        csn = draw(st.none() | st.just(f"{1000 + number}"))
        for i, op in enumerate(ops):
            first, last = i == 0, i == len(ops) - 1
            ind = {(1, 1): "W", (1, 0): "B", (0, 0): "M", (0, 1): "E"}[first, last]
            found.append(op | {"tx_ind": ind, "tx_id": tx_id, "csn": csn})
    return found
