"""A batch of operations on one target table, turned into what is written: one effect a key, and whether the table is emptied first.

A truncate is a barrier: what is before it has no effect but its checks, and what follows it begins with an empty table. Between barriers the effects on clean keys are computed in
columns and compared with the keys that the target has; the other keys' rows are fetched and their operations replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.collisions import (
    CollisionPolicy,
    find_collisions,
    first_collision_error,
    resolve_collisions,
)
from trailgate.apply.effects.faults import OperationErrors
from trailgate.apply.effects.nets import NetChanges, RowEffect, compute_net_changes, encode_keys
from trailgate.apply.effects.operations import TargetOperations, join_arrays
from trailgate.apply.effects.replay import Key, OperationReplay, collect_keys, replay_operations
from trailgate.apply.effects.tables import TargetTable
from trailgate.arrays import Mask
from trailgate.errors import ApplyError, Where
from trailgate.model.changes import ABSENT, Image, StateColumn

# Returns the rows of the target that have some keys: all columns, or those of the key alone.
FetchRows = Callable[[pa.Table, bool], pa.Table]

SEVERAL_ROWS: Final = "Leave one row of each key in the table, or state the columns that are its key by KEYCOLS in a parameter file"
EQUAL_ROWS: Final = "State its key by KEYCOLS in a parameter file or by definitions, or keep all rows by --mode append"


class ClosingUpdate(NamedTuple):
    """Values that all rows get whose boolean ``column`` is true, or, with ``when`` False, is not true."""

    column: str
    when: bool
    values: Mapping[str, pa.Scalar]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What is written to a target table: effects by key, after it was emptied if it is ``emptied``; and how many operations were replayed and ignored.

    ``closing``: before these, and beside them, rows get values. ``at``: the position of the last operation, where a batch has several effects on a table.
    ``appended``: all are rows that the table gets beside those it has, whatever these are.
    """

    nets: NetChanges
    emptied: bool = False
    replayed: int = 0
    ignored: int = 0
    appended: bool = False
    closing: ClosingUpdate | None = None
    at: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Return how many rows there are of each effect, in lower case."""
        found = np.bincount(self.nets.effect, minlength=len(RowEffect))
        return {effect.name.lower(): int(found[effect]) for effect in RowEffect}


def compute_changes(
    operations: TargetOperations,
    fetch: FetchRows,
    collisions: CollisionPolicy = CollisionPolicy.STOP,
    faults: OperationErrors | None = None,
) -> TableChanges:
    """Return what a batch of operations writes to its table; an ApplyError of each operation that does not fit the rows there is added to ``faults``.

    Such an operation has no effect. Without ``faults`` the first one is raised.
    """
    parts = list(operations.between_truncates())
    between = ChangesBetweenTruncates(collisions, faults or OperationErrors())
    done = [
        between.effects(part, make_empty_fetch(part.table) if number else fetch, unended)
        for number, (part, unended) in enumerate(parts)
    ]
    replayed, ignored = (
        sum(getattr(one, name) for one in done) for name in ("replayed", "ignored")
    )
    return TableChanges(done[-1].nets, len(parts) > 1, replayed, ignored)


@dataclass(frozen=True, slots=True)
class ChangesBetweenTruncates:
    """How operations between two truncates are applied. With ``marks`` a deleted row stays, with the values that its delete logs in these columns."""

    collisions: CollisionPolicy
    faults: OperationErrors
    marks: tuple[int, ...] = ()

    def effects(
        self,
        operations: TargetOperations,
        fetch: FetchRows,
        unended: int | None,
        marked: TargetOperations | None = None,
    ) -> TableChanges:
        """Return what operations write; the transaction ``unended`` has a truncate after them.

        ``marked`` are the same operations, of which the delete that ends a clean key is an update that logs its marks.
        An effect DELETE is then on a key whose last row moved away.
        """
        nets, number = compute_net_changes(operations if marked is None else marked)
        found = find_existing_keys(nets, fetch)
        bad = find_collisions(nets, found, self.collisions, operations)
        again = number < 0
        if bad.any():
            if self.faults.stop:
                raise first_collision_error(nets, bad, operations)
            again |= bad[number] & (number >= 0)
            nets, found = nets.where(~bad), found[~bad]
        nets, ignored = resolve_collisions(nets, found, self.collisions)
        if not again.any():
            return TableChanges(nets, ignored=ignored)
        own = operations.take(np.flatnonzero(again))
        keys = collect_keys(own)
        rows = fetch(build_key_table(operations.table, keys), False)
        begin = partial(OperationReplay, operations.table, rows, self.collisions, marks=self.marks)
        replay = replay_operations(own, begin, self.faults, unended)
        if unended is None:  # what is before a truncate has no effect
            nets = join_net_changes([nets, replay.nets(keys)])
        return TableChanges(nets, False, len(own), ignored + replay.ignored)


def find_existing_keys(nets: NetChanges, fetch: FetchRows) -> Mask:
    """Return which keys the target has; raises ApplyError for one that it has in several rows."""
    if not len(nets):
        return np.zeros(0, bool)
    there = fetch(nets.keys(), True)
    if not there.num_rows:
        return np.zeros(len(nets), bool)
    both = [
        join_arrays([own, there[name].combine_chunks().cast(own.type)])
        for own, name in zip(nets.key, nets.table.key_names, strict=True)
    ]
    codes, count = encode_keys(both)
    own, theirs = codes[: len(nets)], codes[len(nets) :]
    rows = np.bincount(theirs, minlength=count)[own]
    if (rows > 1).any():
        at = int(np.argmax(rows > 1))
        raise _several_rows(nets, at, int(rows[at]))
    return rows > 0


def _several_rows(nets: NetChanges, at: int, count: int) -> ApplyError:
    """Return the error for a key that the target has in several rows, all of which an operation on it would change."""
    named = zip(nets.table.key_names, nets.key, strict=True)
    key = ", ".join(f"{name}={column[at].as_py()!r}" for name, column in named)
    where = Where(table=str(nets.table))
    if nets.table.keyless:
        problem = f"no key of the table is known, and it has several rows that are equal: {key}"
        return ApplyError(problem, where=where, hint=EQUAL_ROWS)
    problem = f"the target's table has {count} rows of one key: {key}"
    return ApplyError(problem, where=where, hint=SEVERAL_ROWS)


def build_key_table(table: TargetTable, keys: list[Key]) -> pa.Table:
    """Return keys as columns of their names."""
    columns = [
        pa.array([key[number] for key in keys], table.columns[at].type)
        for number, at in enumerate(table.key)
    ]
    return pa.table(columns, names=list(table.key_names))


def make_empty_fetch(table: TargetTable) -> FetchRows:
    """Return what gives the rows of an empty table."""

    def fetch(_: pa.Table, keys_alone: bool) -> pa.Table:
        schema = table.schema
        return (
            pa.schema([schema.field(n) for n in table.key_names]) if keys_alone else schema
        ).empty_table()

    return fetch


def join_net_changes(parts: list[NetChanges]) -> NetChanges:
    """Return the effects of parts, which have no key in common, as one."""
    parts = [part for part in parts if len(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        effect=np.concatenate([part.effect for part in parts]),
        expected=np.concatenate([part.expected for part in parts]),
        first=np.concatenate([part.first for part in parts]),
        last=np.concatenate([part.last for part in parts]),
        leading=np.concatenate([part.leading for part in parts]),
        key=tuple(join_arrays([part.key[at] for part in parts]) for at in range(len(parts[0].key))),
        values=tuple(_join(parts, at) for at in range(len(parts[0].values))),
    )


def _join(parts: list[NetChanges], at: int) -> StateColumn:
    columns = [(part.values[at], len(part)) for part in parts]
    kind = parts[0].table.columns[at].type
    if all(one.values is None for one, _ in columns):
        return ABSENT
    values = [pa.nulls(rows, kind) if one.values is None else one.values for one, rows in columns]
    missing = np.concatenate([one.is_missing(rows) for one, rows in columns])
    return StateColumn(join_arrays(values), missing if missing.any() else None)


def fill_missing_with_null(nets: NetChanges) -> Image:
    """Return the columns of effects that are whole rows: one that is not logged is NULL."""
    return tuple(
        StateColumn(pa.nulls(len(nets), column.type) if one.values is None else one.values)
        for column, one in zip(nets.table.columns, nets.values, strict=True)
    )
