"""Handle operations that do not fit the target's rows, by the same policies as Replicat.

An insert needs a key without a row, and an update or delete needs a row. ``collided`` compares net
changes with the keys that exist in the target, and ``fitted`` adapts the changes to these keys by
the chosen policy.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from trailgate.apply.effects.faults import DUPLICATE, MISSING
from trailgate.apply.effects.nets import Effect, Nets
from trailgate.apply.effects.tables import KEYLESS_HINT
from trailgate.arrays import Mask
from trailgate.errors import ApplyError, Where
from trailgate.model.changes import DELETE, INSERT, KEY_UPDATE, UPDATE

if TYPE_CHECKING:
    from trailgate.apply.effects.operations import Operations


class Collisions(Enum):
    """What to do if a row exists that should not, or is missing.

    - STOP: apply nothing of the batch.
    - OVERLAY (HANDLECOLLISIONS): an insert overwrites an existing row; an update or delete of a missing row is ignored.
    - INSERT_MISSING (INSERTMISSINGUPDATES): an update of a missing row inserts it.
    """

    STOP = "stop"
    OVERLAY = "overlay"
    INSERT_MISSING = "insert-missing"

    @property
    def overlays(self) -> bool:
        """Whether an insert overwrites an existing row, and an update or delete of a missing row is ignored."""
        return self is Collisions.OVERLAY

    @property
    def inserts(self) -> bool:
        """Whether an update of a missing row inserts it."""
        return self is Collisions.INSERT_MISSING


NAMES = {INSERT: "insert", UPDATE: "update", DELETE: "delete", KEY_UPDATE: "key update"}
HINT = (
    "Was the table changed by others, or loaded at another moment than the trail begins? --after-csn states when it was loaded, "
    "--on-collision overlay goes over the difference (HANDLECOLLISIONS)"
)


def collided(nets: Nets, found: Mask, collisions: Collisions, operations: Operations) -> Mask:
    """Return a mask of the changes whose first operation does not fit the target.

    ``found`` is a mask of the existing keys.
    """
    absent, there = nets.expected & ~found, ~nets.expected & found
    bad: Mask = there | absent
    if collisions.overlays:
        bad = np.zeros(len(nets), bool)
    elif collisions.inserts:
        bad = there | (absent & (operations.op_type[nets.first] != UPDATE))
    return bad


def first_collision(nets: Nets, bad: Mask, operations: Operations) -> ApplyError:
    """Return the error of the earliest operation in the changes selected by ``bad``."""
    at = int(np.where(bad, nets.first, len(operations)).argmin())
    return collision(operations, int(nets.first[at]), expected=bool(nets.expected[at]))


def fitted(nets: Nets, found: Mask, collisions: Collisions) -> tuple[Nets, int]:
    """Adapt changes to the rows that exist, and return them with the number of operations ignored because their row is missing.

    In the result, ``expected`` is true for existing rows.
    """
    absent, there = nets.expected & ~found, ~nets.expected & found
    updates = nets.effect == Effect.PATCH
    effect = nets.effect.copy()
    ignored = 0
    left_out = ~found & (effect == Effect.DELETE)  # of rows that were inserted meanwhile
    if collisions.overlays:
        effect[there & (effect == Effect.INSERT)] = Effect.PATCH
    if collisions.inserts:
        effect[absent & updates] = Effect.INSERT
    elif collisions.overlays:
        left_out |= absent & updates
        ignored = int(nets.leading[absent].sum())
    return replace(nets, effect=effect, expected=found).where(~left_out), ignored


def collision(
    operations: Operations,
    row: int,
    *,
    expected: bool,
    old: bool = False,
    twice: bool = False,
    column: int | None = None,
) -> ApplyError:
    """Return the error of an operation that does not fit: its row is missing although ``expected``, or exists although not.

    ``twice``: two rows have its key. ``column``: its row is missing, and the operation does not log
    this column of it.
    """
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
