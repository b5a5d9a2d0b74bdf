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

from trailgate.apply.batch import Closing, Effects, Fetch, effects_of, join_nets, no_rows
from trailgate.apply.collisions import Collisions
from trailgate.apply.faults import Faults
from trailgate.apply.nets import Effect, Nets, key_codes, no_nets
from trailgate.apply.operations import Operations, concat
from trailgate.apply.tables import TargetColumn, TargetTable
from trailgate.arrays import Longs, Mask
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, TRUNCATE, UPDATE, StateColumn

DELETED: Final = "_deleted"
AT: Final = "_deleted_at"
TIME: Final = pa.timestamp("us")
COLUMNS: Final = (TargetColumn(DELETED, pa.bool_()), TargetColumn(AT, TIME))


def soft_deleting_table(table: TargetTable) -> TargetTable:
    """Return a table with the marks."""
    return replace(table, columns=(*table.columns, *COLUMNS))


def soft_deleted(
    operations: Operations, fetch: Fetch, policy: Collisions, faults: Faults
) -> list[Effects]:
    """Return what a batch writes: a step for the operations up to each truncate, one that marks all rows, and so on."""
    steps: list[Effects] = []
    written: list[Nets] = []
    truncates = operations.take(np.flatnonzero(operations.op_type == TRUNCATE))
    live = _live(fetch)
    for number, (part, _) in enumerate(operations.between_truncates()):
        if number:
            time = pa.scalar(int(truncates.op_ts[number - 1]), pa.int64()).cast(TIME)
            values = {DELETED: pa.scalar(True), AT: time}
            at = truncates.position[number - 1].as_py()
            nothing = no_nets(operations.table)
            steps.append(Effects(nothing, closing=Closing(DELETED, False, values), at=at))
            live = no_rows(operations.table)
        if not len(part):
            continue
        effects = effects_of(_marked(part), live, policy, faults)
        nets = _over_deleted(part, effects.nets, fetch, written)
        written.append(nets)
        steps.append(replace(effects, nets=nets, at=part.position[len(part) - 1].as_py()))
    return steps


def _live(fetch: Fetch) -> Fetch:
    """Return what gives the rows that are not marked."""

    def rows(keys: pa.Table, keys_alone: bool) -> pa.Table:
        found = fetch(keys, False)
        there = found.filter(pc.invert(pc.fill_null(found[DELETED], False)))
        return there.select(keys.column_names) if keys_alone else there

    return rows


def _marked(part: Operations) -> Operations:
    """Return operations that log the marks: inserts those of a row that is there, and the last delete of a key, as an update, those of one that is not."""
    kinds = part.op_type
    last = _last_of_key(part) & (kinds == DELETE)
    values = []
    for column, one in zip(part.table.columns, part.values, strict=True):
        if column.name not in (DELETED, AT):
            missing = one.is_missing(len(part)) | last
            values.append(StateColumn(one.values, missing) if last.any() else one)
            continue
        own = pa.array(last) if column.name == DELETED else _times(part, last)
        values.append(StateColumn(own.cast(column.type), ~(last | (kinds == INSERT))))
    return replace(
        part, op_type=np.where(last, UPDATE, kinds).astype(np.uint8), values=tuple(values)
    )


def _times(part: Operations, chosen: Mask) -> pa.Array:
    return pa.array(part.op_ts, mask=~chosen).cast(TIME)


def _last_of_key(part: Operations) -> Mask:
    """Return which operations are the last that name their key, old or new."""
    rows = len(part)
    codes, count = key_codes(
        [concat([key, old]) for key, old in zip(part.key, part.old_key, strict=True)]
    )
    last = np.zeros(count, np.int64)
    np.maximum.at(last, codes, np.tile(np.arange(rows), 2))
    found: Mask = last[codes[:rows]] == np.arange(rows)
    return found


def _over_deleted(part: Operations, nets: Nets, fetch: Fetch, written: Sequence[Nets]) -> Nets:
    """Return effects that know of marked rows: a new row takes the place of one, and a row that moved away leaves none."""
    fresh = (nets.effect == Effect.INSERT) | (nets.effect == Effect.REPLACE)
    there = _are_there(nets, fetch, written) & fresh
    effect = np.where(there, Effect.REPLACE, nets.effect).astype(np.uint8)
    nets = replace(nets, effect=effect, expected=np.where(fresh, there, nets.expected))
    moves = np.flatnonzero(part.op_type == KEY_UPDATE)
    if not len(moves):
        return nets
    left = _deletes(part, moves)
    codes, _ = key_codes(
        [concat([own, other]) for own, other in zip(left.key, nets.key, strict=True)]
    )
    own, others = codes[: len(left)], codes[len(left) :]
    first = np.zeros(len(left), bool)
    first[np.unique(own, return_index=True)[1]] = True
    left = left.where(first & ~np.isin(own, others))
    return join_nets([nets, left.where(_are_there(left, fetch, written))])


def _deletes(part: Operations, rows: Longs) -> Nets:
    """Return deletes of the old keys of some operations."""
    picked, count = pa.array(rows), len(rows)
    nothing = no_nets(part.table)
    zeros = np.zeros(count, np.int64)
    return replace(
        nothing,
        effect=np.full(count, Effect.DELETE, np.uint8),
        expected=np.ones(count, bool),
        first=zeros,
        last=zeros,
        leading=zeros,
        key=tuple(column.take(picked) for column in part.old_key),
    )


def _are_there(nets: Nets, fetch: Fetch, written: Sequence[Nets]) -> Mask:
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
    codes, count = key_codes(
        [concat([own, *(part[at] for part in parts)]) for at, own in enumerate(nets.key)]
    )
    states = np.concatenate(
        [np.ones(found.num_rows, bool), *(one.effect != Effect.DELETE for one in written)]
    )
    there = np.zeros(count, bool)
    there[codes[rows:]] = states  # of several the last one, which was written last
    result: Mask = there[codes[:rows]]
    return result
