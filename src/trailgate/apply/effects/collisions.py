"""What happens where an operation and the rows of the target do not fit: the policies of Replicat, over whole columns.

Keys whose row must be there have to be found in the target, and those whose row must not be there may not. Net effects are compared with the keys that were found
(``find_collisions``), and become what fits the target (``resolve_collisions``).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from trailgate.apply.effects.faults import DUPLICATE, MISSING
from trailgate.apply.effects.nets import NetChanges, RowEffect
from trailgate.apply.effects.tables import KEYLESS_HINT
from trailgate.arrays import Mask
from trailgate.errors import ApplyError, Where
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, UPDATE

if TYPE_CHECKING:
    from trailgate.apply.effects.operations import TargetOperations


class CollisionPolicy(Enum):
    """What is done where a row is there that should not be, or is not there.

    STOP: nothing of the batch is applied. OVERLAY (HANDLECOLLISIONS): an insert overlays the row that is there, an update or delete of none is ignored. INSERT_MISSING
    (INSERTMISSINGUPDATES): an update of none is an insert.
    """

    STOP = "stop"
    OVERLAY = "overlay"
    INSERT_MISSING = "insert-missing"

    @property
    def overlays(self) -> bool:
        """Return whether an insert overlays the row that is there, and a delete of none is ignored."""
        return self is CollisionPolicy.OVERLAY

    @property
    def inserts(self) -> bool:
        """Return whether an update of none is an insert."""
        return self is CollisionPolicy.INSERT_MISSING


NAMES = {INSERT: "insert", UPDATE: "update", DELETE: "delete", KEY_UPDATE: "key update"}
HINT = (
    "Was the table changed by others, or loaded at another moment than the trail begins? --after-csn states when it was loaded, "
    "--on-collision overlay goes over the difference (HANDLECOLLISIONS)"
)


def find_collisions(
    nets: NetChanges, found: Mask, collisions: CollisionPolicy, operations: TargetOperations
) -> Mask:
    """Return the effects whose first operation does not fit the target, in which the keys in ``found`` are there."""
    absent, there = nets.expected & ~found, ~nets.expected & found
    bad: Mask = there | absent
    if collisions.overlays:
        bad = np.zeros(len(nets), bool)
    elif collisions.inserts:
        bad = there | (absent & (operations.op_type[nets.first] != UPDATE))
    return bad


def first_collision_error(nets: NetChanges, bad: Mask, operations: TargetOperations) -> ApplyError:
    """Return the error of the first operation of bad effects."""
    at = int(np.where(bad, nets.first, len(operations)).argmin())
    return collision_error(operations, int(nets.first[at]), expected=bool(nets.expected[at]))


def resolve_collisions(
    nets: NetChanges, found: Mask, collisions: CollisionPolicy
) -> tuple[NetChanges, int]:
    """Return the effects as they fit the target (``expected`` then states which rows are there), and how many operations are ignored for that."""
    absent, there = nets.expected & ~found, ~nets.expected & found
    updates = nets.effect == RowEffect.PATCH
    effect = nets.effect.copy()
    ignored = 0
    left_out = ~found & (effect == RowEffect.DELETE)  # of rows that were inserted meanwhile
    if collisions.overlays:
        effect[there & (effect == RowEffect.INSERT)] = RowEffect.PATCH
    if collisions.inserts:
        effect[absent & updates] = RowEffect.INSERT
    elif collisions.overlays:
        left_out |= absent & updates
        ignored = int(nets.leading[absent].sum())
    return replace(nets, effect=effect, expected=found).where(~left_out), ignored


def collision_error(
    operations: TargetOperations,
    row: int,
    *,
    expected: bool,
    old: bool = False,
    twice: bool = False,
    column: int | None = None,
) -> ApplyError:
    """Return the error of an operation that does not fit: its row is not there though ``expected``, or it is there."""
    name, key = NAMES[int(operations.op_type[row])], operations.shown_key(row, old=old)
    if column is not None:
        own = operations.table.columns[column].name
        problem = f"{name} of {key}: its row is not there, and column {own} is not logged"
    elif twice:
        problem = f"{name} of {key}: two rows have this key"
    else:
        problem = (
            f"{name} of {key}: {'there is no such row' if expected else 'the row is there already'}"
        )
    where = Where(source=operations.place(row), table=str(operations.table))
    if operations.table.keyless:
        problem = f"{problem}; no key of the table is known, so that all its columns are the key"
    hint = KEYLESS_HINT if operations.table.keyless else HINT
    error = ApplyError(problem, where=where, hint=hint)
    if column is not None:
        return error
    return error.numbered(DUPLICATE if twice or not expected else MISSING)
