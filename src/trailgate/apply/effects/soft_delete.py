"""Rows that are deleted stay, marked: ``_deleted``, and ``_deleted_at`` with the commit time of the delete.

A row that is marked is taken as one that is not there; an insert on its key makes it a new row of the same place. The last delete of a key in a batch becomes an update of the marks, so that it keeps what the updates
before it logged, and every other one stays a delete. A row that changes its key is moved, and leaves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.apply.effects.batch import (
    ChangesBetweenTruncates,
    ClosingUpdate,
    FetchRows,
    TableChanges,
    make_empty_fetch,
)
from trailgate.apply.effects.collisions import CollisionPolicy
from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.nets import NetChanges, RowEffect, encode_keys, no_net_changes
from trailgate.apply.effects.operations import TargetOperations, join_arrays
from trailgate.apply.effects.tables import TargetColumn, TargetTable
from trailgate.arrays import Mask
from trailgate.model.changes import DELETE, TRUNCATE, UPDATE, StateColumn

DELETED: Final = "_deleted"
AT: Final = "_deleted_at"
TIME: Final = pa.timestamp("us")
COLUMNS: Final = (TargetColumn(DELETED, pa.bool_()), TargetColumn(AT, TIME))


def add_delete_marks(table: TargetTable) -> TargetTable:
    """Return a table with the marks."""
    return replace(table, columns=(*table.columns, *COLUMNS))


def compute_soft_deletes(
    operations: TargetOperations, fetch: FetchRows, policy: CollisionPolicy, faults: OperationErrors
) -> list[TableChanges]:
    """Return what a batch writes: a step for the operations up to each truncate, one that marks all rows, and so on."""
    steps: list[TableChanges] = []
    written: list[NetChanges] = []
    truncates = operations.take(np.flatnonzero(operations.op_type == TRUNCATE))
    live = _live(fetch)
    names = [column.name for column in operations.table.columns]
    between = ChangesBetweenTruncates(
        policy, faults, tuple(names.index(name) for name in (DELETED, AT))
    )
    for number, (part, _) in enumerate(operations.between_truncates()):
        if number:
            time = pa.scalar(int(truncates.op_ts[number - 1]), pa.int64()).cast(TIME)
            values = {DELETED: pa.scalar(True), AT: time}
            at = truncates.position[number - 1].as_py()
            nothing = no_net_changes(operations.table)
            steps.append(
                TableChanges(nothing, closing=ClosingUpdate(DELETED, False, values), at=at)
            )
            live = make_empty_fetch(operations.table)
        if not len(part):
            continue
        logged = _with_marks(part)
        effects = between.effects(logged, live, None, _ended_by_update(logged))
        nets = _over_deleted(effects.nets, fetch, written)
        written.append(nets)
        steps.append(replace(effects, nets=nets, at=part.position[len(part) - 1].as_py()))
    return steps


def _live(fetch: FetchRows) -> FetchRows:
    """Return what gives the rows that are not marked."""

    def rows(keys: pa.Table, keys_alone: bool) -> pa.Table:
        found = fetch(keys, False)
        there = found.filter(pc.invert(pc.fill_null(found[DELETED], False)))
        return there.select(keys.column_names) if keys_alone else there

    return rows


def _with_marks(part: TargetOperations) -> TargetOperations:
    """Return operations that log the marks of the row that they leave."""
    deletes = part.op_type == DELETE
    own = {DELETED: pa.array(deletes), AT: pa.array(part.op_ts, mask=~deletes).cast(TIME)}
    values = (
        StateColumn(own[column.name].cast(column.type)) if column.name in own else one
        for column, one in zip(part.table.columns, part.values, strict=True)
    )
    return replace(part, values=tuple(values))


def _ended_by_update(part: TargetOperations) -> TargetOperations:
    """Return operations in which a delete that is the last one of its key is an update of the marks."""
    last = _last_of_key(part) & (part.op_type == DELETE)
    values = (
        one
        if column.name in (DELETED, AT)
        else StateColumn(one.values, one.is_missing(len(part)) | last)
        for column, one in zip(part.table.columns, part.values, strict=True)
    )
    kinds = np.where(last, UPDATE, part.op_type).astype(np.uint8)
    return replace(part, op_type=kinds, values=tuple(values))


def _last_of_key(part: TargetOperations) -> Mask:
    """Return which operations are the last that name their key, old or new."""
    rows = len(part)
    codes, count = encode_keys(
        [join_arrays([key, old]) for key, old in zip(part.key, part.old_key, strict=True)]
    )
    last = np.zeros(count, np.int64)
    np.maximum.at(last, codes, np.tile(np.arange(rows), 2))
    found: Mask = last[codes[:rows]] == np.arange(rows)
    return found


def _over_deleted(nets: NetChanges, fetch: FetchRows, written: Sequence[NetChanges]) -> NetChanges:
    """Return effects that know of marked rows: a new row takes the place of one, and a row that moved away leaves none."""
    fresh = (nets.effect == RowEffect.INSERT) | (nets.effect == RowEffect.REPLACE)
    gone = nets.effect == RowEffect.DELETE
    there = _are_there(nets, fetch, written)
    effect = np.where(fresh & there, RowEffect.REPLACE, nets.effect).astype(np.uint8)
    expected = np.where(fresh, there, nets.expected)
    return replace(nets, effect=effect, expected=expected).where(there | ~gone)


def _are_there(nets: NetChanges, fetch: FetchRows, written: Sequence[NetChanges]) -> Mask:
    """Return which keys the table has, marked or not, once the effects before are written."""
    rows = len(nets)
    if not rows:
        return np.zeros(0, bool)
    found = fetch(nets.keys(), True)
    parts = [
        [
            found[name].combine_chunks().cast(own.type)
            for name, own in zip(nets.table.key_names, nets.key, strict=True)
        ]
    ]
    parts += [list(one.key) for one in written]
    codes, count = encode_keys(
        [join_arrays([own, *(part[at] for part in parts)]) for at, own in enumerate(nets.key)]
    )
    states = np.concatenate(
        [np.ones(found.num_rows, bool), *(one.effect != RowEffect.DELETE for one in written)]
    )
    there = np.zeros(count, bool)
    there[codes[rows:]] = states  # of several the last one, which was written last
    result: Mask = there[codes[:rows]]
    return result
