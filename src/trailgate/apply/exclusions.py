"""Which errors of a batch are final, if operations that cannot be applied take others with them.

An operation that cannot be applied may take its whole transaction with it, or what another statement makes of it on a second table. What follows on the same rows then finds other
rows, so its errors may be none: it is tried again. As an example, transaction 1 deletes row A and fails on row B, and transaction 2 updates row A. Both fail together, but without
transaction 1 the update fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from trailgate.apply.nets import key_codes
from trailgate.apply.operations import Operations, concat
from trailgate.arrays import Longs
from trailgate.errors import TrailgateError
from trailgate.model.changes import KEY_UPDATE, TRUNCATE

Slot = tuple[int, int]  # a table, and the rows of it that depend on each other


def final_errors(
    errors: Mapping[int, TrailgateError],
    tables: Sequence[Operations],
    takes_transaction: Callable[[TrailgateError], bool],
) -> tuple[dict[int, TrailgateError], bool]:
    """Return the errors that are final, by the numbers of their operations, and whether others have to be looked for again.

    ``tables`` are the operations that were tried. An error is final unless an earlier one takes operations with it on rows that its own operation depends on.
    """
    if len(tables) == 1 and not any(map(takes_transaction, errors.values())):
        return dict(errors), False
    dependent = [_dependent_rows(own) for own in tables]
    final: dict[int, TrailgateError] = {}
    transactions: set[int] = set()
    changed: set[Slot] = set()
    for number in sorted(errors):
        error, slots = errors[number], []
        for at, own in enumerate(tables):
            row = int(np.searchsorted(own.order, number))
            if row < len(own) and own.order[row] == number:
                slots.append((at, int(dependent[at][row])))
                transaction = int(own.transaction[row])
        if transaction not in transactions and not changed.isdisjoint(slots):
            continue
        final[number] = error
        if transaction in transactions:
            continue
        if takes_transaction(error):
            transactions.add(transaction)
            changed |= _slots_of(transaction, tables, dependent)
        elif len(slots) > 1:
            changed.update(slots)
    return final, bool(changed)


def _slots_of(
    transaction: int, tables: Sequence[Operations], dependent: Sequence[Longs]
) -> set[Slot]:
    found: set[Slot] = set()
    for at, own in enumerate(tables):
        begin, end = np.searchsorted(own.transaction, [transaction, transaction + 1]).tolist()
        found.update((at, row) for row in dependent[at][begin:end].tolist())
    return found


def _dependent_rows(operations: Operations) -> Longs:
    """Return a number for each operation, the same for those whose keys are the same or are joined by key updates; a truncate joins all keys."""
    rows = len(operations)
    if (operations.op_type == TRUNCATE).any() or not operations.key:
        return np.zeros(rows, np.int64)
    both = zip(operations.key, operations.old_key, strict=True)
    codes, count = key_codes([concat([key, old]) for key, old in both])
    joined = list(range(count))

    def first(code: int) -> int:
        while joined[code] != code:
            joined[code] = joined[joined[code]]  # shortens the way for the next search
            code = joined[code]
        return code

    for row in np.flatnonzero(operations.op_type == KEY_UPDATE).tolist():
        joined[first(int(codes[row]))] = first(int(codes[rows + row]))
    return np.array([first(code) for code in codes[:rows].tolist()], np.int64)
