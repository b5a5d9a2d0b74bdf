"""Read the checkpoint table of a SQL database: how far each group has applied its trail.

The table ``trailgate_checkpoint`` has a row per group and target table, and a row with an empty
``target`` for the position of all tables together:

    grp        target    trail            position
    trailgate            /data/dirdat/ot  00000000020000012345
    trailgate  hr.jobs   /data/dirdat/ot  00000000020000012345
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from trailgate.apply.targets.sql import CHECKPOINT, POSITION_COLUMNS
from trailgate.apply.targets.target import AppliedPosition, GroupPosition, TablePosition

# A checkpoint table of an earlier version has fewer columns, so they are not named.
STATUS: Final = f"SELECT * FROM {CHECKPOINT} ORDER BY grp, target"


def parse_group_positions(
    names: Sequence[str], rows: Iterable[Sequence[Any]]
) -> list[GroupPosition]:
    """Convert the rows of ``STATUS``, whose columns have these names, to a position per group."""
    groups: list[GroupPosition] = []
    named = [dict(zip(names, row, strict=True)) for row in rows]
    for group, group_rows in groupby(named, key=lambda row: str(row["grp"])):
        whole, tables = None, []
        for row in group_rows:
            if row["target"]:
                one = TablePosition(row["target"], row["position"], None, row["csn"], row["op_ts"])
                tables.append(one)
            else:
                whole = AppliedPosition(*(row.get(name) for name in POSITION_COLUMNS))  # type: ignore[arg-type]  # strings, except op_ts
        groups.append(GroupPosition(group, whole, tables))
    return groups
