"""Turn a batch of operations on one target table into the changes to write, one per key.

A truncate is a barrier. Operations before the last truncate have no effect (but are checked), the
table is emptied, and operations after it start with an empty table. Between truncates, the net
changes of clean keys (see ``nets``) are computed with array operations, and compared with the keys
that the target has. For the remaining keys, the target's rows are fetched and the operations are
replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.apply.effects.collisions import (
    CollisionPolicy,
    count_existing_rows,
    find_collisions,
    first_collision_error,
    resolve_collisions,
)
from trailgate.apply.effects.nets import (
    NetChanges,
    RowEffect,
    compute_net_changes,
    join_net_changes,
)
from trailgate.apply.effects.operation_errors import OperationErrors
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.replay import OperationReplay, replay_operations
from trailgate.apply.effects.row_keys import build_key_table, collect_keys
from trailgate.apply.effects.tables import FetchRows, make_empty_fetch


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


def compute_table_changes(
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
