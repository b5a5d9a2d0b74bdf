"""Transactions of operations whose images have all columns, as rows of the operations table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from trailgate.model.tables import Column, Definitions, Table

TABLE = Table(
    "S.T",
    (
        Column("K", 64, 40, key=True, nullable=False),
        Column("V", 64, 400),
        Column("N", 134, 8, scale=2),
        Column("D", 192, 26),
        Column("F", 143, 8),
        Column("X", 64, 40, sub_type=4),
        Column("P", 64, 60, sub_type=2),
    ),
)
DEFINITIONS = Definitions((TABLE, Table('OTHER."A B"', TABLE.columns[:2])))
TEXT = st.text(st.sampled_from("ab \"',;\n\r\\éÿ漢"), max_size=6)
VALUES: dict[str, st.SearchStrategy[str]] = {
    "K": TEXT,
    "V": TEXT,
    "N": st.integers(-(10**9), 10**9).map(lambda n: f"{n / 100:.2f}"),
    "D": st.datetimes().map(lambda t: t.isoformat(" ", "microseconds")),
    "F": st.floats(allow_nan=False, allow_infinity=False).map(
        lambda x: str(pa.scalar(x).cast(pa.string()).as_py())
    ),
    "X": st.binary(max_size=5).map(lambda raw: raw.hex().upper()),
    "P": st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda d: f"{d:f}"),
}
TIMES = st.integers(0, 10**9).map(
    lambda n: datetime(2001, 2, 3, tzinfo=UTC) + timedelta(microseconds=n % 3 * 1001, seconds=n)
)


@st.composite
def row(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, str | None]:
    """Return a row; its key is not null."""
    own: dict[str, str | None] = {name: draw(st.none() | VALUES[name]) for name in names}
    own["K"] = draw(VALUES["K"])
    return own


@st.composite
def operation(draw: st.DrawFn) -> dict[str, Any]:
    """Return an operation without its transaction."""
    table = draw(st.sampled_from(list(DEFINITIONS)))
    names = tuple(column.name for column in table.columns)
    kind = draw(st.sampled_from("IUD"))
    before: dict[str, Any] = {} if kind == "I" else draw(row(names))
    after: dict[str, Any] = {} if kind == "D" else draw(row(names))
    if kind == "U" and before["K"] != after["K"]:
        kind = "K"
    return {"table": table.name, "op_type": kind, "before": before, "after": after}


@st.composite
def transactions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return the operations of a few transactions, as rows of the operations table."""
    rows: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 4))):
        own = draw(st.lists(operation(), min_size=1, max_size=4))
        time, csn = draw(TIMES), f"00{number:02}.t{number}"
        for i, fields in enumerate(own):
            last = i == len(own) - 1
            mark = ("W" if last else "B") if not i else "E" if last else "M"
            ids: dict[str, Any] = {
                "tx_id": f"t{number}",
                "csn": csn,
                "seq_id": f"{csn}.{i:010}",
                "tx_ind": mark,
            }
            ids |= {"position": f"{len(rows):020}", "tx_name": draw(st.sampled_from([None, "P"]))}
            rows.append(fields | ids | {"op_ts": time})
    return rows
