"""The table in which a database keeps how far each group has applied its trail: a row for each table, and one for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from trailgate.apply.targets.sql import CHECKPOINT, POSITION_COLUMNS
from trailgate.apply.targets.target import GroupPosition, Position, TablePosition

# All columns, since a table of an earlier version has fewer of them.
STATUS: Final = f"SELECT * FROM {CHECKPOINT} ORDER BY grp, target"


def group_positions_of(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[GroupPosition]:
    """Return the groups of the rows of ``STATUS``, whose columns have these names."""
    found: list[GroupPosition] = []
    named = [dict(zip(names, row, strict=True)) for row in rows]
    for group, own in groupby(named, key=lambda row: str(row["grp"])):
        whole, tables = None, []
        for row in own:
            if row["target"]:
                one = TablePosition(row["target"], row["position"], None, row["csn"], row["op_ts"])
                tables.append(one)
            else:
                whole = Position(*(row.get(name) for name in POSITION_COLUMNS))  # type: ignore[arg-type]  # text, but for op_ts
        found.append(GroupPosition(group, whole, tables))
    return found
