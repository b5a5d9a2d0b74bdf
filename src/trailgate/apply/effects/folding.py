"""Operations made fewer: those on one key become the one or two that have the same effect.

A transaction longer than memory is folded while it is read, and Spark's tasks fold what they send. What is folded is again operations, so that folds follow one another and join.
Keys that are to be replayed keep their operations. Where collisions are overlaid nothing is folded: there a row that was moved is looked at whenever a transaction ends, and an update of a
later one must not have been joined with it.
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
    """Return operations with the same effect on every key, at most three of each whose operations follow one another as they must.

    An operation in place of others is where the first of them was, which errors name. As an example, D I U of one key become D I with the values
    after U, I U U become I, and U U D becomes U D, since an update may insert a row that is missing.
    """
    parts = [_folded(part) for part, _ in operations.between_truncates() if len(part)]
    truncates = np.flatnonzero(operations.op_type == TRUNCATE)
    if len(truncates) or not parts:
        parts.append(operations.take(truncates))
    return join_operations(parts)


def _folded(operations: TargetOperations) -> TargetOperations:
    nets, number = compute_net_changes(operations)
    known = number >= 0
    total = np.bincount(number[known], operations.weight[known], len(nets)).astype(np.int64)
    effect, expected = nets.effect, nets.expected
    replaced, deleted = effect == RowEffect.REPLACE, effect == RowEffect.DELETE
    updated = (operations.op_type[nets.first] == UPDATE) & expected & (replaced | deleted)
    before = np.where(replaced & expected, nets.leading, 0)
    transient = deleted & ~expected  # inserted and deleted
    whole = np.flatnonzero((effect == RowEffect.INSERT) | replaced)
    patched = np.flatnonzero(effect == RowEffect.PATCH)
    # Where two take the place of one, the sort keeps the order of these parts.
    parts = [
        _standing(operations, nets, np.flatnonzero(updated), UPDATE, np.ones_like(total)),
        _standing(operations, nets, np.flatnonzero(replaced & expected), DELETE, before - updated),
        _standing(operations, nets, np.flatnonzero(transient), INSERT, total - 1),
        _standing(operations, nets, np.flatnonzero(deleted & expected), DELETE, total - updated),
        _standing(
            operations,
            replace(nets, first=nets.last),
            np.flatnonzero(transient),
            DELETE,
            np.ones_like(total),
        ),
        _standing(
            operations,
            replace(nets, first=np.where(before > 0, nets.last, nets.first)),
            whole,
            INSERT,
            total - before,
            _inserted(nets),
        ),
        _standing(operations, nets, patched, UPDATE, total, nets.values),
        operations.take(np.flatnonzero(~known)),
    ]
    return join_operations([part for part in parts if len(part)])


def _inserted(nets: NetChanges) -> Image:
    """Return the values of inserted rows: a row that took the place of another one has all columns of the source."""
    own = nets.effect == RowEffect.INSERT
    return tuple(
        StateColumn(
            pa.nulls(len(nets), column.type) if one.values is None else one.values,
            one.is_missing(len(nets)) & (own | column.extra),
        )
        for column, one in zip(nets.table.columns, nets.values, strict=True)
    )


def _standing(
    operations: TargetOperations,
    nets: NetChanges,
    chosen: Longs,
    kind: int,
    weight: Longs,
    values: Image | None = None,
) -> TargetOperations:
    """Return operations of one kind that stand for those on some keys, at the place of each key's first one."""
    picked = pa.array(chosen)
    bare = replace(operations, key=(), old_key=(), values=()).take(nets.first[chosen])
    key = tuple(column.take(picked) for column in nets.key)
    return replace(
        bare,
        op_type=np.full(len(chosen), kind, np.uint8),
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
