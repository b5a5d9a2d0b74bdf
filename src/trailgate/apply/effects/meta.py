"""Add the columns of ``--meta`` to a table of current rows: which operation last wrote the row.

``_op_ts`` is the operation's commit time (UTC), and ``_position`` its position in the trail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.model.changes import StateColumn

TIME: Final = pa.timestamp("us")
POSITION: Final = "_position"
COLUMNS: Final = (TargetColumn("_op_ts", TIME), TargetColumn(POSITION, pa.string()))


def add_meta_columns(table: TargetTable) -> TargetTable:
    """Return the table with the columns ``_op_ts`` and ``_position`` added."""
    return replace(table, columns=(*table.columns, *COLUMNS))


def set_meta_values(operations: TargetOperations) -> TargetOperations:
    """Set the columns ``_op_ts`` and ``_position`` of each operation, as if the source had logged them."""
    present = np.zeros(len(operations), bool)
    stamps = {
        "_op_ts": pa.array(operations.op_ts).cast(TIME),
        "_position": operations.position,
    }
    values = tuple(
        StateColumn(stamps[column.name].cast(column.type), present)
        if column.name in stamps
        else one
        for column, one in zip(operations.table.columns, operations.values, strict=True)
    )
    return replace(operations, values=values)
