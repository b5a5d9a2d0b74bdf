"""Add columns that describe operations, for ``--meta`` and ``--mode append``.

``--meta`` adds the commit time (UTC) and the position of the operation that last wrote the row, as
``_op_ts`` and ``_position``. ``--mode append`` (INSERTALLRECORDS in GoldenGate) writes every
operation as a separate row, with six such columns.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.batch import FetchRows, TableChanges
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.nets import NetChanges, RowEffect
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.model.changes import TRUNCATE, StateColumn
from trailgate.model.operations_table import codes_to_letters

NULL: Final = pa.scalar(None, pa.string())
COLUMNS: Final = (
    TargetColumn("_op_type", pa.string()),
    TargetColumn("_op_ts", pa.timestamp("us")),
    TargetColumn("_tx_id", pa.string()),
    TargetColumn("_csn", pa.string()),
    TargetColumn("_position", pa.string()),
    TargetColumn("_missing", pa.string()),
)

TIME: Final = pa.timestamp("us")
POSITION: Final = "_position"
META_COLUMNS: Final = (TargetColumn("_op_ts", TIME), TargetColumn(POSITION, pa.string()))


def build_append_table(table: TargetTable) -> TargetTable:
    """Return the table with the columns that describe an operation, and without a key."""
    return TargetTable(table.name, (*table.columns, *COLUMNS), (), keyless=True)


def append_changes(
    operations: TargetOperations, fetch: FetchRows, policy: CollisionPolicy, faults: OperationErrors
) -> list[TableChanges]:
    """Build one row per operation: its column values, followed by columns that describe the operation.

    The values are those after the operation, or for a delete those before it. ``_op_ts`` is in UTC.
    ``_missing`` is a JSON list of the columns that were not logged, for example ``["NAME"]``; it is
    NULL for a truncate.
    """
    del fetch, policy, faults  # an appended row cannot collide
    rows, table = len(operations), operations.table
    described = {
        "_op_type": codes_to_letters(operations.op_type),
        "_op_ts": pa.array(operations.op_ts).cast(pa.timestamp("us")),
        "_tx_id": operations.tx_id,
        "_csn": operations.csn,
        "_position": operations.position,
        "_missing": _missing(operations),
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


def _missing(operations: TargetOperations) -> pa.Array:
    """Return for each operation a JSON list of the source columns that it does not log."""
    rows, table = len(operations), operations.table
    added = {column.name for column in COLUMNS}
    # binary_join_element_wise returns NULL if one of its strings is NULL, so a column that is
    # logged contributes "". The first name then starts with ", ", which is removed below.
    parts = [
        pc.if_else(pa.array(one.is_missing(rows)), f", {json.dumps(column.name)}", "")
        for column, one in zip(table.columns, operations.values, strict=True)
        if column.name not in added and not column.extra
    ]
    listed = pc.binary_join_element_wise("[", *parts, "]", "")
    listed = pc.replace_substring(listed, "[, ", "[", max_replacements=1)
    return pc.if_else(pa.array(operations.op_type == TRUNCATE), NULL, listed)


def add_meta_columns(table: TargetTable) -> TargetTable:
    """Return the table with the ``--meta`` columns ``_op_ts`` and ``_position`` added."""
    return replace(table, columns=(*table.columns, *META_COLUMNS))


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
