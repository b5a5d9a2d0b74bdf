"""Indicators of transactions of which some operations are not captured (decision 0020).

The indicators of what remains are worked out anew. Where a transaction continues in later messages, its last captured operation is
held until it is known whether another one follows: at most one operation is held, however long the transaction is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.messages.transactions.bounds import Transactions, TransactionState
from trailgate.messages.transactions.raw_operations import RawOperations
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBlock, indicators


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is captured of a batch: per operation whether it is, and its indicator.

    ``released`` was held, and comes before all others. ``held_row`` is the operation that is held now, -1 none; it is not among
    the captured ones. ``held_first``: it is the first captured one of its transaction. ``state`` has what was held before
    and is held on.
    """

    captured: Mask
    tx_ind: Octets
    state: TransactionState
    released: ChangeBlock | None = None
    held_row: int = -1
    held_first: bool = False


def remaining(
    raw: RawOperations, done: Transactions, state: TransactionState, *, hold: bool
) -> Remaining:
    """Return what is captured: the operations that have a block, in transactions that are not left out.

    ``hold`` is whether the last operation of a transaction that stays open is held.
    """
    captured = np.zeros(len(raw.message), bool)
    for block in raw.blocks:
        captured[block.order] = True
    if not hold and raw.excluded is None and captured.all():
        return Remaining(done.kept, done.tx_ind, done.state)
    if raw.excluded is None and len(captured) and captured.all() and done.kept.all():
        return _every(done, state)
    opens = (done.tx_ind == BEGIN) | (done.tx_ind == WHOLE)
    closes = (done.tx_ind == END) | (done.tx_ind == WHOLE)
    begins = opens.copy()
    begins[1:] |= closes[
        :-1
    ]  # what follows an end in a broken unit belongs to no transaction before it
    number = np.cumsum(begins)  # 0 is the transaction that was open before
    left_out = _left_out(raw, opens, state)
    captured &= done.kept & ~left_out
    rows = np.flatnonzero(captured)
    own = number[rows]
    first, last = np.ones(len(rows), bool), np.ones(len(rows), bool)
    first[1:] = last[:-1] = own[1:] != own[:-1]
    ended = np.zeros(len(number) + 1, bool)
    ended[0] = done.ended_before
    ended[number[closes]] = True
    last &= ended[own]
    held, released = state.held, None
    if held is not None:
        continued = bool(len(own)) and own[0] == 0 and not done.ended_before
        if continued:
            first[0] = False
        if continued or ended[0]:
            released, held = held.released(last=not continued), None
    if done.state.tx_id is None or done.state.broken or number[-1:].any():
        held = None  # its transaction has ended, or its unit is broken
    tx_ind = done.tx_ind.copy()
    tx_ind[rows] = indicators(first, last)
    after = replace(
        done.state,
        held=held,
        excluded=_excluded_after(raw, opens, state),
    )
    stays = after.tx_id is not None and not after.broken
    open_now = hold and stays and len(own) > 0 and own[-1] == number[-1]
    if not open_now or last[-1]:
        return Remaining(captured, tx_ind, after, released)
    captured[rows[-1]] = False
    return Remaining(captured, tx_ind, after, released, int(rows[-1]), bool(first[-1]))


def _every(done: Transactions, state: TransactionState) -> Remaining:
    """Return what ``remaining`` does where all operations are captured, and the last one may be held."""
    letters, held, released = done.tx_ind, state.held, None
    continued = int(letters[0]) in (MIDDLE, END) and not done.ended_before
    if held is not None:
        released = held.released(last=not continued)
    elif continued:  # what was before it is not captured
        letters = letters.copy()
        letters[0] = BEGIN if letters[0] == MIDDLE else WHOLE
    captured = np.ones(len(letters), bool)
    after = replace(done.state, held=None, excluded=False)
    last = int(letters[-1])
    if last in (END, WHOLE) or after.tx_id is None or after.broken:
        return Remaining(captured, letters, after, released)
    captured[-1] = False
    return Remaining(captured, letters, after, released, len(letters) - 1, last == BEGIN)


def _left_out(raw: RawOperations, opens: Mask, state: TransactionState) -> Mask:
    """Return the operations of users and transactions that are left out; what has no name has that of its first operation."""
    count = len(raw.message)
    if raw.excluded is None:
        return np.zeros(count, bool)
    begin: Longs = np.maximum.accumulate(np.where(opens, np.arange(count), -1))
    of_transaction = np.where(begin >= 0, raw.excluded[begin] == 1, state.excluded)
    found: Mask = (raw.excluded == 1) | ((raw.excluded < 0) & of_transaction)
    return found


def _excluded_after(raw: RawOperations, opens: Mask, state: TransactionState) -> bool:
    """Return whether the last transaction's first operation is left out."""
    begun = np.flatnonzero(opens)
    if raw.excluded is None or not len(begun):
        return state.excluded
    return bool(raw.excluded[begun[-1]] == 1)
