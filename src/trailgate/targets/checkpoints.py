"""The table in which a database keeps how far each group has applied its trail: a row for each table, and one for all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from trailgate.targets.sql import CHECKPOINT
from trailgate.targets.target import GroupPosition, Position, TablePosition

STATUS: Final = (
    f"SELECT grp, target, trail, position, csn, op_ts FROM {CHECKPOINT} ORDER BY grp, target"
)


def group_positions_of(rows: Sequence[tuple[Any, ...]]) -> list[GroupPosition]:
    """Return the groups of the rows of ``STATUS``."""
    found: list[GroupPosition] = []
    for group, own in groupby(rows, key=lambda row: str(row[0])):
        whole, tables = None, []
        for _, table, trail, position, csn, op_ts in own:
            if table:
                tables.append(TablePosition(table, position, None, csn, op_ts))
            else:
                whole = Position(trail, position, csn, op_ts)
        found.append(GroupPosition(group, whole, tables))
    return found
