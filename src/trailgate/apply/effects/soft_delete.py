"""Mark deleted rows instead of deleting them (``--mode soft-delete``).

A deleted row gets ``_deleted``, and ``_deleted_at`` with the commit time of the delete. To later
operations, a marked row does not exist. An insert with its key replaces it with a new row. If the
last operation of a key in a batch is a delete, it becomes an update that sets the marks, so that
earlier updates in the batch are kept; all other deletes stay deletes. A row that moves to another
key leaves no marked row. Operations on a key that several rows have are refused, also if some or
all of these rows are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.nets import NetChanges, RowEffect, no_net_changes
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.row_keys import encode_keys
from trailgate.apply.effects.table_changes import (
    ChangesBetweenTruncates,
    ClosingUpdate,
    TableChanges,
)
from trailgate.apply.effects.tables import FetchRows, TargetColumn, TargetTable
from trailgate.arrays import Mask
from trailgate.columnar.rows import join_arrays
from trailgate.model.changes import DELETE, TRUNCATE, UPDATE, StateColumn

DELETED: Final = "_deleted"
AT: Final = "_deleted_at"
TIME: Final = pa.timestamp("us")
COLUMNS: Final = (TargetColumn(DELETED, pa.bool_()), TargetColumn(AT, TIME))


def add_delete_marks(table: TargetTable) -> TargetTable:
    """Return the target table with the columns ``_deleted`` and ``_deleted_at`` added."""
    return replace(table, columns=(*table.columns, *COLUMNS))


def compute_soft_deletes(
    operations: TargetOperations, fetch: FetchRows, policy: CollisionPolicy, faults: OperationErrors
) -> list[TableChanges]:
    """Compute the changes that a batch makes if deletes only mark rows, as a list of steps.

    The operations before each truncate are one step, and the truncate itself is another step, which
    marks all rows.
    """
    steps: list[TableChanges] = []
    written: list[NetChanges] = []
    truncates = operations.take(np.flatnonzero(operations.op_type == TRUNCATE))
    live = partial(_fetch_live, fetch)
    names = [column.name for column in operations.table.columns]
    between = ChangesBetweenTruncates(
        policy, faults, tuple(names.index(name) for name in (DELETED, AT))
    )
    for number, (part, _) in enumerate(operations.between_truncates()):
        if number:  # a truncate precedes this part: mark all rows that are not marked yet
            time = pa.scalar(int(truncates.op_ts[number - 1]), pa.int64()).cast(TIME)
            values = {DELETED: pa.scalar(True), AT: time}
            at = truncates.position[number - 1].as_py()
            nothing = no_net_changes(operations.table)
            steps.append(
                TableChanges(nothing, closing=ClosingUpdate(DELETED, False, values), at=at)
            )
            live = partial(_fetch_several, fetch)
        if not len(part):
            continue
        logged = _with_marks(part)
        # A row that is marked as deleted counts as missing (``live``), but an insert of its key must replace it:
        # ``_adapt_to_marked_rows`` looks for such rows in the table, and in the parts before.
        effects = between.effects(logged, live, None, _ended_by_update(logged))
        nets = _adapt_to_marked_rows(effects.nets, fetch, written)
        written.append(nets)
        steps.append(replace(effects, nets=nets, at=part.position[len(part) - 1].as_py()))
    return steps


def _fetch_live(fetch: FetchRows, keys: pa.Table, keys_alone: bool) -> pa.Table:
    """Fetch only rows of the target that are not marked as deleted, or that share their key with another row."""
    fetched = fetch(keys, False)
    is_live = pc.invert(pc.fill_null(fetched[DELETED], False)).to_numpy()
    chosen = fetched.filter(pa.array(is_live | _mask_several(fetched, keys.column_names)))
    return chosen.select(keys.column_names) if keys_alone else chosen


def _fetch_several(fetch: FetchRows, keys: pa.Table, keys_alone: bool) -> pa.Table:
    """Fetch only rows that share their key with another row, for operations after a truncate, which has marked all rows."""
    fetched = fetch(keys, keys_alone)
    return fetched.filter(pa.array(_mask_several(fetched, keys.column_names)))


def _mask_several(rows: pa.Table, names: Sequence[str]) -> Mask:
    """Return a mask of the rows whose key several rows have, marked or not.

    A change of one of them would change all of them, so operations on their key are refused.
    """
    if not rows.num_rows:
        return np.zeros(0, bool)
    codes, _ = encode_keys([rows[name].combine_chunks() for name in names])
    several: Mask = np.bincount(codes)[codes] > 1
    return several


def _with_marks(part: TargetOperations) -> TargetOperations:
    """Set ``_deleted`` and ``_deleted_at`` in the operations: a delete sets the marks, all others clear them."""
    deletes = part.op_type == DELETE
    marks = {DELETED: pa.array(deletes), AT: pa.array(part.op_ts, mask=~deletes).cast(TIME)}
    values = (
        StateColumn(marks[column.name].cast(column.type)) if column.name in marks else one
        for column, one in zip(part.table.columns, part.values, strict=True)
    )
    return replace(part, values=tuple(values))


def _ended_by_update(part: TargetOperations) -> TargetOperations:
    """Turn each delete that is the last operation of its key into an update that sets the marks."""
    last = _last_of_key(part) & (part.op_type == DELETE)
    values = (
        one
        if column.name in (DELETED, AT)
        # In such a row only the marks are logged, so that the update keeps all other columns.
        else StateColumn(one.values, one.is_missing(len(part)) | last)
        for column, one in zip(part.table.columns, part.values, strict=True)
    )
    op_types = np.where(last, UPDATE, part.op_type).astype(np.uint8)
    return replace(part, op_type=op_types, values=tuple(values))


def _last_of_key(part: TargetOperations) -> Mask:
    """Return a mask of the operations that are the last one with their key, as old or new key: a delete among them marks its row."""
    rows = len(part)
    codes, count = encode_keys(
        [join_arrays([key, old]) for key, old in zip(part.key, part.old_key, strict=True)]
    )
    last = np.zeros(count, np.int64)
    # codes holds all keys, then all old keys; both name their operation 0 .. rows - 1.
    np.maximum.at(last, codes, np.tile(np.arange(rows), 2))
    result: Mask = last[codes[:rows]] == np.arange(rows)
    return result


def _adapt_to_marked_rows(
    nets: NetChanges, fetch: FetchRows, written: Sequence[NetChanges]
) -> NetChanges:
    """Adapt the changes to marked rows: the target has these rows, although operations treat them as missing.

    An insert replaces a marked row. A delete of a row that the table does not have is dropped.
    ``written`` are the changes of the earlier steps of this batch.
    """
    inserts = (nets.effect == RowEffect.INSERT) | (nets.effect == RowEffect.REPLACE)
    deleted = nets.effect == RowEffect.DELETE
    exists = _existing_keys(nets, fetch, written)
    effect = np.where(inserts & exists, RowEffect.REPLACE, nets.effect).astype(np.uint8)
    # An insert of a marked row replaces it, so it expects the row. Without this it would be a
    # collision.
    expected = np.where(inserts, exists, nets.expected)
    return replace(nets, effect=effect, expected=expected).where(exists | ~deleted)


def _existing_keys(nets: NetChanges, fetch: FetchRows, written: Sequence[NetChanges]) -> Mask:
    """Return a mask of the keys that have a row, marked or not, after the changes in ``written``."""
    rows = len(nets)
    if not rows:
        return np.zeros(0, bool)
    stored = fetch(nets.keys(), True)
    parts = [
        [
            stored[name].combine_chunks().cast(key.type)
            for name, key in zip(nets.table.key_names, nets.key, strict=True)
        ]
    ]
    parts += [list(one.key) for one in written]
    codes, count = encode_keys(
        [join_arrays([key, *(part[at] for part in parts)]) for at, key in enumerate(nets.key)]
    )
    states = np.concatenate(
        [np.ones(stored.num_rows, bool), *(one.effect != RowEffect.DELETE for one in written)]
    )
    exists = np.zeros(count, bool)
    exists[codes[rows:]] = states  # numpy keeps the last of several values, which was written last
    result: Mask = exists[codes[:rows]]
    return result
