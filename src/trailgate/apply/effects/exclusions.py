"""Find which errors of a batch are final when a failed operation excludes other operations.

A failed operation may exclude its whole transaction (discard-transaction), or the operations that
another MAP statement made from the same record for a second table. Later operations on the same
rows then find other rows: some of their errors disappear, and new ones appear. So only the errors
that cannot change are final; the batch is tried again without the excluded operations, and more
errors become final each time.

Example: transaction 1 deletes row A and fails on row B; transaction 2 updates row A and inserts row
C of another table; transaction 3 inserts row C. Only after transaction 1 is excluded is it known
whether transaction 2 succeeds, and only then whether row C is a duplicate in transaction 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, pairwise

import numpy as np

from trailgate.apply.effects.faults import Responses
from trailgate.apply.effects.nets import key_codes
from trailgate.apply.effects.operations import Operations, concat
from trailgate.arrays import Longs
from trailgate.errors import TrailgateError
from trailgate.model.changes import KEY_UPDATE, TRUNCATE, UPDATE


def final_errors(
    errors: Mapping[int, TrailgateError],
    tables: Sequence[Operations],
    responses: Responses,
    *,
    updates_insert: bool,
) -> tuple[dict[int, TrailgateError], bool]:
    """Return the final errors by the numbers of their operations, and whether to try the batch again without these operations.

    ``tables`` contains the operations that were tried. An error is final unless its operation
    depends on rows of an earlier operation that is excluded, or may be. ``updates_insert`` is true
    if an update may insert a missing row; otherwise updates do not change which rows exist.
    """
    takes_transaction = responses.takes_transaction
    if not errors or (len(tables) == 1 and not any(map(takes_transaction, errors.values()))):
        return dict(errors), False
    order = np.concatenate([own.order for own in tables])
    transaction = np.concatenate([own.transaction for own in tables])
    rows, changes, count = [], [], 0  # rows that depend on each other have one number in all tables
    for own in tables:
        dependent = _dependent_rows(own) + count
        rows.append(dependent)
        changes.append((own.op_type != UPDATE) | updates_insert)
        count = int(dependent.max(initial=count)) + 1
    sort = np.lexsort((order, transaction))
    order, transaction = order[sort], transaction[sort]
    row, change = np.concatenate(rows)[sort], np.concatenate(changes)[sort]
    first = transaction[np.flatnonzero(order == min(errors))[0]]
    begin = int(np.searchsorted(transaction, first))  # what is before it has no errors
    number, row, change = (column[begin:].tolist() for column in (order, row, change))
    begins = np.flatnonzero(np.diff(transaction[begin:])) + 1

    final: dict[int, TrailgateError] = {}
    again = False
    doubtful: set[int] = set()  # rows with operations that are excluded, or may be
    for start, end in pairwise([0, *begins.tolist(), len(number)]):
        taken = doubted = False
        at = start
        while at < end:
            stop = at + 1
            while stop < end and number[stop] == number[at]:  # it is on several tables
                stop += 1
            is_doubtful = not doubtful.isdisjoint(row[at:stop])
            doubted |= is_doubtful
            error = errors.get(number[at])
            if error is not None and (taken or not is_doubtful):
                final[number[at]] = error
                taken |= takes_transaction(error)
            if stop - at > 1 and (is_doubtful or error is not None):
                again = True
                doubtful.update(compress(row[at:stop], change[at:stop]))
            at = stop
        if taken or (doubted and responses.may_take_transactions):
            again = True
            doubtful.update(compress(row[start:end], change[start:end]))
    return final, again


def _dependent_rows(operations: Operations) -> Longs:
    """Number the operations so that those with the same number may affect each other.

    Operations with equal keys get the same number, and so do those whose keys are linked by key
    updates. If there is a truncate, all get the same number.
    """
    rows = len(operations)
    if not operations.key:  # a table of operations takes each, whatever is before it
        return np.arange(rows)
    if (operations.op_type == TRUNCATE).any():
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
