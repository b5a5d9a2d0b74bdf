"""Combine the operations on each key into one to three operations with the same effect.

A transaction that does not fit into memory is folded while it is read, and Spark tasks fold the
operations that they send. The result consists of operations again, so results can be joined and
folded once more. Keys that must be replayed keep all their operations. If collisions are overlaid,
nothing may be folded: a row that has moved gets its final values at the end of each transaction, so
operations of different transactions must not be combined.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.nets import NetChanges, RowEffect, compute_net_changes
from trailgate.apply.effects.operations import TargetOperations, join_operations
from trailgate.arrays import Longs
from trailgate.model.changes import ABSENT, DELETE, INSERT, TRUNCATE, UPDATE, Image, StateColumn


def fold_operations(operations: TargetOperations) -> TargetOperations:
    """Combine the operations on each key of a target table: at most three remain for a clean key.

    They have the same effect. Keys that must be replayed keep all their operations.

    Examples for one key: D I U becomes D I with the values after U; I U U becomes I; U U D becomes
    U D, because an update may insert a missing row. Errors name the position of the key's first
    operation; an insert after a delete, or a delete after an insert, has the position of the last
    operation.
    """
    parts = [_fold_part(part) for part, _ in operations.between_truncates() if len(part)]
    truncates = np.flatnonzero(operations.op_type == TRUNCATE)
    # Parts end at truncates, and ``join_operations`` sorts by order: each truncate returns to its
    # place.
    if len(truncates) or not parts:
        parts.append(operations.take(truncates))
    return join_operations(parts)


def _fold_part(operations: TargetOperations) -> TargetOperations:
    """Combine the operations on each key, if they include no truncate.

    The table shows the result for each kind of clean key, where ... is any number of operations:

        operations       effect   becomes
        I ...            INSERT   I
        U ...            PATCH    U
        I ... D          DELETE   I D
        I ... D I ...    REPLACE  I
        D, or U ... D    DELETE   D, or U D
        D I ...          REPLACE  D I
        U D I ...        REPLACE  U D I
    """
    nets, number = compute_net_changes(operations)
    is_clean = number >= 0
    # The number of operations on each key, counted by their weights.
    total = np.bincount(number[is_clean], operations.weight[is_clean], len(nets)).astype(np.int64)
    effect, expected = nets.effect, nets.expected
    replaced, deleted = effect == RowEffect.REPLACE, effect == RowEffect.DELETE
    # ``updated``: the key starts with an update and is deleted later. The update must stay, since
    # it may insert the row (INSERTMISSINGUPDATES). ``before`` counts up to the first insert.
    updated = (operations.op_type[nets.first] == UPDATE) & expected & (replaced | deleted)
    before = np.where(replaced & expected, nets.leading, 0)
    transient = deleted & ~expected  # inserted and deleted in this batch
    complete = np.flatnonzero((effect == RowEffect.INSERT) | replaced)
    patched = np.flatnonzero(effect == RowEffect.PATCH)
    # join_operations sorts stably by ``order``. If two operations get the same one, such as U D for
    # U U D, they keep the order of the parts below.
    parts = [
        _representatives(operations, nets, np.flatnonzero(updated), UPDATE, np.ones_like(total)),
        _representatives(
            operations, nets, np.flatnonzero(replaced & expected), DELETE, before - updated
        ),
        _representatives(operations, nets, np.flatnonzero(transient), INSERT, total - 1),
        _representatives(
            operations, nets, np.flatnonzero(deleted & expected), DELETE, total - updated
        ),
        _representatives(
            operations,
            replace(nets, first=nets.last),
            np.flatnonzero(transient),
            DELETE,
            np.ones_like(total),
        ),
        _representatives(
            operations,
            replace(nets, first=np.where(before > 0, nets.last, nets.first)),
            complete,
            INSERT,
            total - before,
            _insert_values(nets),
        ),
        _representatives(operations, nets, patched, UPDATE, total, nets.values),
        operations.take(np.flatnonzero(~is_clean)),
    ]
    return join_operations([part for part in parts if len(part)])


def _insert_values(nets: NetChanges) -> Image:
    """Return the values for the INSERT operations that represent net changes.

    If a row replaces another one, columns of the source that were not logged are NULL instead of
    missing, because it keeps nothing of the other row.
    """
    is_new = nets.effect == RowEffect.INSERT
    return tuple(
        StateColumn(
            pa.nulls(len(nets), column.type) if one.values is None else one.values,
            one.is_missing(len(nets)) & (is_new | column.extra),
        )
        for column, one in zip(nets.table.columns, nets.values, strict=True)
    )


def _representatives(
    operations: TargetOperations,
    nets: NetChanges,
    chosen: Longs,
    op_type: int,
    weight: Longs,
    values: Image | None = None,
) -> TargetOperations:
    """Build an operation of type ``op_type`` for each of the chosen keys (indexes in ``nets``).

    It stands for ``weight[key]`` operations, and has the position of the operation
    ``nets.first[key]``. Without ``values`` it logs no columns.
    """
    picked = pa.array(chosen)
    # ``take`` need not copy the columns that are replaced below.
    bare = replace(operations, key=(), old_key=(), values=()).take(nets.first[chosen])
    key = tuple(column.take(picked) for column in nets.key)
    return replace(
        bare,
        op_type=np.full(len(chosen), op_type, np.uint8),
        weight=weight[chosen],
        key=key,
        old_key=key,
        values=(ABSENT,) * len(nets.values)
        if values is None
        else tuple(
            ABSENT
            if one.values is None
            else StateColumn(
                one.values.take(picked), None if one.missing is None else one.missing[chosen]
            )
            for one in values
        ),
    )
