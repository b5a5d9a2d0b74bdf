"""Current rows with what wrote them last: ``_op_ts``, its commit time (UTC), and ``_position``, its place in the trail."""

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
    """Return a table with the columns of what wrote a row."""
    return replace(table, columns=(*table.columns, *COLUMNS))


def set_meta_values(operations: TargetOperations) -> TargetOperations:
    """Return operations that log their own time and position."""
    known = np.zeros(len(operations), bool)
    own = {
        "_op_ts": pa.array(operations.op_ts).cast(TIME),
        "_position": operations.position,
    }
    values = tuple(
        StateColumn(own[column.name].cast(column.type), known) if column.name in own else one
        for column, one in zip(operations.table.columns, operations.values, strict=True)
    )
    return replace(operations, values=values)
