"""Turn a batch of operations on one target table into the changes to write, one per key.

A truncate is a barrier. Operations before the last truncate have no effect (but are checked), the
table is emptied, and operations after it start with an empty table. Between truncates, the net
changes of clean keys (see ``nets``) are computed with array operations, and compared with the keys
that the target has. For the remaining keys, the target's rows are fetched and the operations are
replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.collisions import (
    CollisionPolicy,
    find_collisions,
    first_collision_error,
    resolve_collisions,
)
from trailgate.apply.effects.nets import NetChanges, RowEffect, compute_net_changes, encode_keys
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations, join_arrays
from trailgate.apply.effects.replay import OperationReplay, collect_keys, replay_operations
from trailgate.apply.effects.tables import TargetTable, build_key_table
from trailgate.arrays import Longs
from trailgate.model.changes import ABSENT, StateColumn

# Called with a table of keys; returns the target's rows with these keys. If the second argument is
# true, only their key columns are needed.
FetchRows = Callable[[pa.Table, bool], pa.Table]


class ClosingUpdate(NamedTuple):
    """An update of many rows, such as ending all current row versions when a table is truncated.

    Sets ``values`` in all rows whose boolean ``column`` equals ``when``. NULL counts as false.
    """

    column: str
    when: bool
    values: Mapping[str, pa.Scalar]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """The changes that a batch of operations makes to one target table, ready to be written.

    - ``nets``: one change per key; with ``appended``, one per operation
    - ``emptied``: empty the table before writing ``nets``
    - ``closing``: carry out this update before writing ``nets``
    - ``at``: the position of the last operation in these changes. Set if the batch may have several
      ``TableChanges`` for the table, as in the modes soft-delete and history
    - ``appended``: all changes are new rows, whatever the table contains (``--mode append``)
    - ``replayed``, ``ignored``: the numbers of operations that were replayed row by row, and that
      had no effect because their row is missing
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
        """The number of changes to the target table by effect, such as ``{"insert": 3, "patch": 0, ...}``."""
        counts = np.bincount(self.nets.effect, minlength=len(RowEffect))
        return {effect.name.lower(): int(counts[effect]) for effect in RowEffect}


def compute_changes(
    operations: TargetOperations,
    fetch: FetchRows,
    collisions: CollisionPolicy = CollisionPolicy.STOP,
    faults: OperationErrors | None = None,
) -> TableChanges:
    """Compute the changes that a batch of operations makes to its target table.

    An operation that does not fit the existing rows has no effect, and its ApplyError is added to
    ``faults``. Without ``faults``, the first such error is raised.
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
    """Computes the changes to a target table between two truncates, under the policy ``collisions``.

    Errors of operations are added to ``faults``. ``marks`` is only used in mode soft-delete, which
    keeps deleted rows: it contains the indexes of the columns that a delete sets (``_deleted`` and
    ``_deleted_at``).
    """

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
        """Compute the changes of a table's operations, none of which is a truncate.

        If a truncate follows the operations, ``unended`` is the number of the truncate's
        transaction, which may have begun among them. Otherwise it is None. ``marked`` is used in
        mode soft-delete. It contains the same operations, except that a delete which is the last
        operation with its key has become an update that sets the marks.
        """
        nets, number = compute_net_changes(operations if marked is None else marked)
        counts = count_existing_rows(nets, fetch)
        exists = counts > 0
        bad = find_collisions(nets, counts, self.collisions, operations)
        is_replayed = number < 0
        if bad.any():
            if self.faults.stop:
                raise first_collision_error(nets, bad, counts, operations)
            # bad[number] maps from keys to operations. number is -1 for operations that are
            # replayed anyway; for these bad[-1] is meaningless.
            is_replayed |= bad[number] & (number >= 0)
            nets, exists = nets.where(~bad), exists[~bad]
        nets, ignored = resolve_collisions(nets, exists, self.collisions)
        if not is_replayed.any():
            return TableChanges(nets, ignored=ignored)
        remaining = operations.take(np.flatnonzero(is_replayed))
        keys = collect_keys(remaining)
        rows = fetch(build_key_table(operations.table, keys), False)
        begin = partial(OperationReplay, operations.table, rows, self.collisions, marks=self.marks)
        replay = replay_operations(remaining, begin, self.faults, unended)
        if unended is None:  # operations before a truncate have no effect
            nets = join_net_changes([nets, replay.nets(keys)])
        return TableChanges(nets, False, len(remaining), ignored + replay.ignored)


def count_existing_rows(nets: NetChanges, fetch: FetchRows) -> Longs:
    """Return for each net change the number of the target's rows that have its key: 0 or 1, unless the table has duplicates."""
    if not len(nets):
        return np.zeros(0, np.int64)
    existing = fetch(nets.keys(), True)
    if not existing.num_rows:
        return np.zeros(len(nets), np.int64)
    both = [
        join_arrays([ours, existing[name].combine_chunks().cast(ours.type)])
        for ours, name in zip(nets.key, nets.table.key_names, strict=True)
    ]
    # Number the wanted and the stored keys together, then count the stored rows of each key.
    codes, count = encode_keys(both)
    ours, stored = codes[: len(nets)], codes[len(nets) :]
    rows: Longs = np.bincount(stored, minlength=count)[ours]
    return rows


def make_empty_fetch(table: TargetTable) -> FetchRows:
    """Return a fetch function for an empty target table: it finds no rows."""

    def fetch(_: pa.Table, keys_alone: bool) -> pa.Table:
        schema = table.schema
        return (
            pa.schema([schema.field(n) for n in table.key_names]) if keys_alone else schema
        ).empty_table()

    return fetch


def join_net_changes(parts: list[NetChanges]) -> NetChanges:
    """Concatenate net changes of one target table that have no key in common."""
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
    column_type = parts[0].table.columns[at].type
    if all(one.values is None for one, _ in columns):
        return ABSENT
    values = [
        pa.nulls(rows, column_type) if one.values is None else one.values for one, rows in columns
    ]
    missing = np.concatenate([one.is_missing(rows) for one, rows in columns])
    return StateColumn(join_arrays(values), missing if missing.any() else None)


def build_complete_rows(nets: NetChanges) -> pa.Table:
    """Build the complete rows of net changes, for targets that write rows: columns that were not logged are NULL."""
    columns = [
        pa.nulls(len(nets), column.type) if one.values is None else one.values
        for column, one in zip(nets.table.columns, nets.values, strict=True)
    ]
    return pa.table(columns, schema=nets.table.schema)
