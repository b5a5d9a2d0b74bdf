"""Select the operations of a batch that are captured, once they are grouped into transactions.

Operations that no block contains, whose message has an error, or whose user or transaction is
excluded are removed. The transaction indicators of the others are recomputed, so that each
transaction still has a beginning and an end. For the end, the last operation of an open transaction
may be held back until the next batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trailgate.arrays import Mask, Octets
from trailgate.expressions.capture_rules import inherit_excluded
from trailgate.messages.raw_operations import RawOperations
from trailgate.messages.units import ChainedTransactions, TransactionState
from trailgate.model.changes import ChangeBlock
from trailgate.model.kernels import BEGINS
from trailgate.model.transactions import find_begin_rows, indicator_marks, repair_indicators


@dataclass(frozen=True, slots=True)
class CapturedOperations:
    """The operations of a batch that are captured: a mask, and the repaired indicators of all.

    The last operation may be held back until it is known whether its transaction has another one.
    `released` is the operation that the previous batch held back; it precedes all others.
    `held_row` is the row of the operation that this batch holds back (-1: none). The mask
    `captured` does not select it, and the caller (`Capture`) stores it in the state after the
    batch. `tx_ind` has an indicator for each operation.
    """

    captured: Mask
    tx_ind: Octets
    state: TransactionState
    released: ChangeBlock | None = None
    held_row: int = -1


def select_captured(
    raw: RawOperations, done: ChainedTransactions, state: TransactionState, *, hold: bool
) -> CapturedOperations:
    """Select the operations of a batch that are captured, and repair their transaction indicators.

    An operation is captured if it is in a block, its message has no error, and its user or
    transaction is not excluded. With `hold`, the last operation of a transaction that stays open is
    held back.
    """
    captured = np.zeros(len(raw.message), bool)
    for block in raw.blocks:
        captured[block.order] = True
    # Nothing is excluded or held back: the usual case.
    if not hold and raw.excluded is None and captured.all():
        return CapturedOperations(done.kept, done.tx_ind, done.state)
    marks = indicator_marks(done.tx_ind)
    opens = marks & BEGINS != 0
    captured &= done.kept & ~_excluded_rows(raw, opens, state)
    rest = repair_indicators(marks, captured, state.held, ended_before=done.ended_before)
    stays = done.state.tx_id is not None and not done.state.broken
    # An operation stays held only if no row of this batch begins or ends a transaction: then its own
    # transaction is still open.
    held = rest.held if stays and not marks.any() else None
    after = replace(done.state, held=held, excluded=_excluded_after(raw, opens, state))
    row = rest.last if hold and stays else -1
    if row >= 0:
        captured[row] = False
    return CapturedOperations(captured, rest.tx_ind, after, rest.released, row)


def _excluded_rows(raw: RawOperations, opens: Mask, state: TransactionState) -> Mask:
    """Return a mask of the operations of excluded users and transactions.

    If an operation has no user or transaction name, the name in the first operation of its
    transaction applies.
    """
    count = len(raw.message)
    if raw.excluded is None:
        return np.zeros(count, bool)
    begin = find_begin_rows(opens)
    # `begin` is -1 in the transaction open from before, whose flags are in the state.
    first = np.where(begin >= 0, raw.excluded[begin], np.uint8(state.excluded))
    return inherit_excluded(raw.excluded, first)


def _excluded_after(raw: RawOperations, opens: Mask, state: TransactionState) -> int:
    """Return the flags (`find_excluded`) of the first operation of the transaction that is open after the batch."""
    begun = np.flatnonzero(opens)
    if raw.excluded is None or not len(begun):
        return state.excluded
    return int(raw.excluded[begun[-1]])
