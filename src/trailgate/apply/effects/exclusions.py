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

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress, pairwise
from typing import Final

import numpy as np

from trailgate.apply.effects.operation_errors import ErrorResponses, OperationErrors, extract_reason
from trailgate.apply.effects.operations import TargetOperations
from trailgate.apply.effects.row_keys import encode_keys
from trailgate.arrays import Longs, Mask
from trailgate.columnar.rows import join_arrays
from trailgate.errors import TrailgateError
from trailgate.model.changes import KEY_UPDATE, TRUNCATE, UPDATE, ChangeBlock

OTHERS: Final = "another operation of its transaction cannot be applied"


def find_final_errors(
    errors: Mapping[int, TrailgateError],
    tables: Sequence[TargetOperations],
    responses: ErrorResponses,
    *,
    updates_insert: bool,
) -> tuple[dict[int, TrailgateError], bool]:
    """Decide which errors of a batch are final if failed operations exclude others, and whether the batch must be tried again.

    Returns the final errors by operation number, and true if the batch must be tried again without
    these operations and the transactions that they exclude.

    ``tables`` are the operations that were tried, and ``responses`` states which errors exclude a
    complete transaction. The error of an operation is not final if an
    earlier operation on the same row is, or may be, excluded, because the later operation may then
    succeed. ``updates_insert`` is true if an update may insert a missing row; otherwise updates do
    not change which rows exist.
    """
    excludes_transaction = responses.excludes_transaction
    # With one table, and no error that excludes a transaction, each operation fails alone, and the
    # operations after it were tried without it.
    if not errors or (len(tables) == 1 and not any(map(excludes_transaction, errors.values()))):
        return dict(errors), False
    order = np.concatenate([operations.order for operations in tables])
    transaction = np.concatenate([operations.transaction for operations in tables])
    rows, changes, count = [], [], 0  # ``count`` keeps the numbers of two tables apart
    for operations in tables:
        dependent = number_dependent_rows(operations) + count
        rows.append(dependent)
        changes.append((operations.op_type != UPDATE) | updates_insert)
        # ``initial`` is for a table without operations, which has no maximum.
        count = int(dependent.max(initial=count)) + 1
    sort = np.lexsort((order, transaction))
    order, transaction = order[sort], transaction[sort]
    row, change = np.concatenate(rows)[sort], np.concatenate(changes)[sort]
    first = transaction[np.flatnonzero(order == min(errors))[0]]
    begin = int(np.searchsorted(transaction, first))  # earlier transactions have no errors
    number, row, change = (column[begin:].tolist() for column in (order, row, change))
    begins = np.flatnonzero(np.diff(transaction[begin:])) + 1

    # Walk through the transactions in order. ``at`` to ``stop`` are the copies of one operation on
    # several tables. An operation is uncertain if it touches an uncertain row: its error is then
    # not final. An excluded operation or transaction makes the rows that it changes uncertain.
    final: dict[int, TrailgateError] = {}
    retry = False
    uncertain: set[int] = set()  # rows whose operations are excluded, or may be
    for start, end in pairwise([0, *begins.tolist(), len(number)]):
        excluded = has_uncertain = False
        at = start
        while at < end:
            stop = at + 1
            while (
                stop < end and number[stop] == number[at]
            ):  # MAP statements wrote it to several tables
                stop += 1
            is_uncertain = not uncertain.isdisjoint(row[at:stop])
            has_uncertain |= is_uncertain
            error = errors.get(number[at])
            if error is not None and (excluded or not is_uncertain):
                final[number[at]] = error
                excluded |= excludes_transaction(error)
            if stop - at > 1 and (is_uncertain or error is not None):
                retry = True
                uncertain.update(compress(row[at:stop], change[at:stop]))
            at = stop
        if excluded or (has_uncertain and responses.may_exclude_transactions):
            retry = True
            uncertain.update(compress(row[start:end], change[start:end]))
    return final, retry


def number_dependent_rows(operations: TargetOperations) -> Longs:
    """Return a number for each operation on a target table, equal for operations that may affect the same row.

    These are operations with equal keys, or with keys that key updates link. If there is a
    truncate, all operations have the same number. In a table without a key (``--mode append``) all
    numbers differ.
    """
    rows = len(operations)
    if not operations.key:  # --mode append: no operation depends on another
        return np.arange(rows)
    if (operations.op_type == TRUNCATE).any():
        return np.zeros(rows, np.int64)
    both = zip(operations.key, operations.old_key, strict=True)
    codes, count = encode_keys([join_arrays([key, old]) for key, old in both])
    joined = list(range(count))

    def first(code: int) -> int:
        while joined[code] != code:
            joined[code] = joined[joined[code]]  # path halving, as in any union-find
            code = joined[code]
        return code

    for row in np.flatnonzero(operations.op_type == KEY_UPDATE).tolist():
        # ``codes`` has the new keys of all operations first, then the old keys: with 3 rows, row 1
        # joins codes[1] to codes[4].
        joined[first(int(codes[row]))] = first(int(codes[rows + row]))
    return np.array([first(code) for code in codes[:rows].tolist()], np.int64)


def unapplied_mask(
    order: Longs, transactions: Longs, faults: OperationErrors, excluded: frozenset[int]
) -> Mask:
    """Return a mask of the operations that are not applied, because of an error or because their transaction is excluded.

    ``order`` and ``transactions`` are the numbers of each operation and of its transaction.
    """
    mask: Mask = np.isin(order, list(faults.errors)) | np.isin(transactions, list(excluded))
    return mask


def count_unapplied(
    blocks: Sequence[tuple[ChangeBlock, Longs]],
    faults: OperationErrors,
    excluded: frozenset[int],
) -> Mapping[str, int]:
    """Count the operations of a batch that are not applied, by the reason of their errors, or of their excluded transactions.

    ``blocks`` are the operations and their transaction numbers, ``faults`` the errors of operations, and ``excluded`` the numbers of the excluded
    transactions.
    """
    counts = Counter(map(extract_reason, faults.errors.values()))
    unapplied = sum(
        int(unapplied_mask(block.order, transactions, faults, excluded).sum())
        for block, transactions in blocks
    )
    # Operations without an error of their own, whose transaction is excluded.
    others = unapplied - len(faults.errors)
    return counts + Counter({OTHERS: others} if others > 0 else {})
