"""Meta columns, which describe the operations on a row, for ``--meta`` and ``--mode append``.

``--meta`` adds the commit time (UTC) and the position of the operation that last wrote the row, as
``_op_ts`` and ``_position``. ``--mode append`` (INSERTALLRECORDS in GoldenGate) writes every
operation as a separate row, with six columns that describe it (``COLUMNS``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.nets import NetChanges, RowEffect
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import MISSING, TargetOperations
from trailgate.apply.effects.table_changes import TableChanges
from trailgate.apply.effects.tables import FetchRows, TargetColumn, TargetTable
from trailgate.columnar.strings import codes_to_letters
from trailgate.model.changes import StateColumn

COLUMNS: Final = (
    TargetColumn("_op_type", pa.string()),
    TargetColumn("_op_ts", pa.timestamp("us")),
    TargetColumn("_tx_id", pa.string()),
    TargetColumn("_csn", pa.string()),
    TargetColumn("_position", pa.string()),
    TargetColumn(MISSING, pa.string()),
)

TIME: Final = pa.timestamp("us")
POSITION: Final = "_position"
META_COLUMNS: Final = (TargetColumn("_op_ts", TIME), TargetColumn(POSITION, pa.string()))


def build_append_table(table: TargetTable) -> TargetTable:
    """Return the target table of ``--mode append``: with the meta columns that describe an operation, and without a key."""
    return TargetTable(table.name, (*table.columns, *COLUMNS), (), keyless=True)


def append_changes(
    operations: TargetOperations, fetch: FetchRows, policy: CollisionPolicy, faults: OperationErrors
) -> list[TableChanges]:
    """Build the changes of ``--mode append``: one new row per operation, with its values and the meta columns that describe it.

    The row has the values after the operation, or for a delete the values before it. If an update
    logs a key column only in its before image, that value is used. ``_op_ts`` is in UTC. The column
    ``_missing`` was computed by ``convert_blocks``.
    """
    del fetch, policy, faults  # an appended row cannot collide
    rows, table = len(operations), operations.table
    described = {
        "_op_type": codes_to_letters(operations.op_type),
        "_op_ts": pa.array(operations.op_ts).cast(pa.timestamp("us")),
        "_tx_id": operations.tx_id,
        "_csn": operations.csn,
        "_position": operations.position,
    }
    values = tuple(
        StateColumn(described[column.name].cast(column.type)) if column.name in described else one
        for column, one in zip(table.columns, operations.values, strict=True)
    )
    # Each operation is the only one of its row: operation i is the first and the last of net change i.
    nothing = np.zeros(rows, np.int64)
    nets = NetChanges(
        table=table,
        effect=np.full(rows, RowEffect.INSERT, np.uint8),
        expected=np.zeros(rows, bool),
        first=np.arange(rows),
        last=np.arange(rows),
        leading=nothing,
        key=(),
        values=values,
    )
    return [TableChanges(nets, appended=True)]


def add_meta_columns(table: TargetTable) -> TargetTable:
    """Return the target table with the meta columns ``_op_ts`` and ``_position`` added, for ``--meta``."""
    return replace(table, columns=(*table.columns, *META_COLUMNS))


def set_meta_values(operations: TargetOperations) -> TargetOperations:
    """Set the meta columns ``_op_ts`` and ``_position`` of each operation, as if the source had logged them."""
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
