"""Handle operations that do not fit the target's rows, with the same policies as Replicat.

An insert needs a key without a row, and an update or delete needs an existing row.
``find_collisions`` compares net changes with the keys that exist in the target, and
``resolve_collisions`` adapts the changes to these keys by the chosen policy.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from trailgate.apply.effects.nets import NetChanges, RowEffect
from trailgate.apply.effects.operation_errors import DUPLICATE, MISSING
from trailgate.apply.effects.row_keys import encode_keys
from trailgate.apply.effects.tables import KEYLESS_HINT, FetchRows
from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import join_arrays
from trailgate.errors import ApplyError, Where
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, UPDATE

if TYPE_CHECKING:
    from trailgate.apply.effects.operations import TargetOperations

NAMES = {INSERT: "insert", UPDATE: "update", DELETE: "delete", KEY_UPDATE: "key update"}
HINT = (
    "Was the table changed by others, or loaded after the trail begins? Give the CSN of the load with --after-csn, "
    "or overwrite the differences with --on-collision overlay (HANDLECOLLISIONS)"
)
SEVERAL_ROWS = "Leave one row of each key in the table, or name its key columns with KEYCOLS in a parameter file"
EQUAL_ROWS = "Name its key columns with KEYCOLS in a parameter file or in definitions, or keep all rows with --mode append"


class CollisionPolicy(Enum):
    """What to do if a row exists unexpectedly, or is missing.

    - STOP: apply nothing of the batch.
    - OVERLAY (HANDLECOLLISIONS): an insert overwrites an existing row; an update or delete of a
      missing row is ignored.
    - INSERT_MISSING (INSERTMISSINGUPDATES): an update of a missing row inserts it.
    """

    STOP = "stop"
    OVERLAY = "overlay"
    INSERT_MISSING = "insert-missing"

    @property
    def overlays(self) -> bool:
        """Whether an insert overwrites an existing row, and changes of a missing row are ignored."""
        return self is CollisionPolicy.OVERLAY

    @property
    def inserts(self) -> bool:
        """Whether an update of a missing row inserts it."""
        return self is CollisionPolicy.INSERT_MISSING


def find_collisions(
    nets: NetChanges, counts: Longs, collisions: CollisionPolicy, operations: TargetOperations
) -> Mask:
    """Return a mask of the net changes whose first operation the collision policy rejects.

    ``counts`` is the number of the target's rows that have each change's key. For example, an
    insert of an existing key is rejected by STOP, but not by OVERLAY. No policy accepts operations
    on a key that several rows have.
    """
    # A clean key's first operation decides: all later ones fit the one before them.
    exists = counts > 0
    missing, unexpected = nets.expected & ~exists, ~nets.expected & exists
    bad: Mask = unexpected | missing
    if collisions.overlays:
        bad = np.zeros(len(nets), bool)
    elif collisions.inserts:
        bad = unexpected | (missing & (operations.op_type[nets.first] != UPDATE))
    bad |= counts > 1
    return bad


def first_collision_error(
    nets: NetChanges, bad: Mask, counts: Longs, operations: TargetOperations
) -> ApplyError:
    """Build the error for the earliest operation that collides with the target's rows.

    ``bad`` is a mask of the colliding changes, and ``counts`` the number of the target's rows that
    have each change's key.
    """
    at = int(np.where(bad, nets.first, len(operations)).argmin())
    first, count = int(nets.first[at]), int(counts[at])
    if count > 1:
        return several_rows_error(operations, first, count)
    return collision_error(operations, first, expected=bool(nets.expected[at]))


def several_rows_error(
    operations: TargetOperations, row: int, count: int, *, old: bool = False
) -> ApplyError:
    """Build the error for a collision with duplicate rows: the operation's key has ``count`` rows in the target, and it would change all of them.

    ``old``: it is the key before the operation. No Oracle error corresponds to this one.
    """
    name, key = NAMES[int(operations.op_type[row])], operations.shown_key(row, old=old)
    where = Where(source=operations.shown_position(row), table=str(operations.table))
    if operations.table.keyless:
        problem = f"{name} of {key}: the table has no known key, and it has {count} rows with all these values"
        return ApplyError(problem, where=where, hint=EQUAL_ROWS)
    problem = f"{name} of {key}: the target's table has {count} rows with this key"
    return ApplyError(problem, where=where, hint=SEVERAL_ROWS)


def resolve_collisions(
    nets: NetChanges, exists: Mask, collisions: CollisionPolicy
) -> tuple[NetChanges, int]:
    """Adapt net changes to the rows in the target, by the collision policy.

    For example, with OVERLAY an INSERT of an existing row becomes a PATCH. Returns the changes,
    whose ``expected`` is now true for the rows that exist, and the number of operations that are
    ignored because their row is missing.
    """
    # The two kinds of collisions. Example: an insert (expected is False) of an existing row is
    # ``unexpected``.
    missing, unexpected = nets.expected & ~exists, ~nets.expected & exists
    updates = nets.effect == RowEffect.PATCH
    effect = nets.effect.copy()
    ignored = 0
    dropped = ~exists & (effect == RowEffect.DELETE)  # inserted and deleted in this batch
    if collisions.overlays:
        effect[unexpected & (effect == RowEffect.INSERT)] = RowEffect.PATCH
    if collisions.inserts:
        effect[missing & updates] = RowEffect.INSERT
    elif collisions.overlays:
        dropped |= missing & updates
        # Only operations before the first insert find no row; the insert then creates one.
        ignored = int(nets.leading[missing].sum())
    return replace(nets, effect=effect, expected=exists).where(~dropped), ignored


def collision_error(
    operations: TargetOperations,
    row: int,
    *,
    expected: bool,
    old: bool = False,
    twice: bool = False,
    column: int | None = None,
) -> ApplyError:
    """Build the error for a collision: an insert of a row that already exists, or a change of a row that does not.

    ``expected`` is true if the operation needs an existing row, which is missing, and false if its
    row exists already. ``old``: the error names the key before the operation. ``twice``: two rows
    have its key. ``column``: the row is missing, and the operation does not log this column, so it
    cannot insert the row either.
    """
    name, key = NAMES[int(operations.op_type[row])], operations.shown_key(row, old=old)
    if column is not None:
        column_name = operations.table.columns[column].name
        problem = f"{name} of {key}: its row does not exist, and column {column_name} is not logged"
    elif twice:
        problem = f"{name} of {key}: two rows have this key"
    else:
        problem = (
            f"{name} of {key}: {'the row does not exist' if expected else 'the row already exists'}"
        )
    where = Where(source=operations.shown_position(row), table=str(operations.table))
    if operations.table.keyless:
        problem = f"{problem}; the table has no known key, so all its columns are used as the key"
    hint = KEYLESS_HINT if operations.table.keyless else HINT
    error = ApplyError(problem, where=where, hint=hint)
    if column is not None:
        return error
    return error.with_numbers(DUPLICATE if twice or not expected else MISSING)


def count_existing_rows(nets: NetChanges, fetch: FetchRows) -> Longs:
    """Count the target's rows with the key of each net change, to find collisions: 0 or 1, unless the table has duplicates."""
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
