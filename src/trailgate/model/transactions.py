"""Follow transactions through operations or records, and determine the outcome of each.

The caller gives each row marks: it begins a transaction, ends it, is separate from the transaction
around it (such as metadata), or undoes the open one (a restart of the writer). Transactions are
contiguous, so the state between two rows is one bit: whether a transaction is open. `follow`
assigns each row the number of its transaction and reports rows that contradict the previous row.
The result does not depend on how rows are split into batches: transaction 0 of a batch is the
transaction that was open before it.

Each transaction has one outcome. It is complete, waiting for more rows, abandoned by a restart and
therefore skipped, or torn: its beginning or end is missing.

If operations are dropped, the others get new indicators (`repair_indicators`). The last kept
operation of an open transaction is held back until it is known whether another one follows. However
long a transaction is, only one operation is held back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.gather import take_text
from trailgate.columnar.strings import find_different_row
from trailgate.model import kernels
from trailgate.model.changes import BEGIN, END, MIDDLE, WHOLE, ChangeBatch, ChangeBlock
from trailgate.model.kernels import ABANDONED, APART, BEGINS, BEGUN, CONTINUED, ENDED, ENDS

BEFORE: Final = 0  # number of the transaction that is open before the rows
# The indicators of an operation in the middle of its transaction, of its last and its first operation, and of
# the only one: index 2 * first + last.
LETTERS: Final = np.array([MIDDLE, END, BEGIN, WHOLE], np.uint8)
LETTERS.setflags(write=False)
_MARKS_OF: Final = np.zeros(256, np.uint8)
_MARKS_OF[[BEGIN, WHOLE]] |= BEGINS
_MARKS_OF[[END, WHOLE]] |= ENDS
_MARKS_OF.setflags(write=False)


class TransactionOutcome(IntEnum):
    """The outcome of a transaction.

    It is complete, open and waiting for more rows, abandoned by a restart of the writer, or torn:
    its beginning or end is missing.
    """

    COMPLETE = 0
    WAITING = 1
    ABANDONED = 2
    TORN = 3


@dataclass(frozen=True, slots=True)
class FollowedTransactions:
    """The transactions of consecutive operations or trail records (rows), found by their marks.

    ``number`` is the transaction of each row. Separate rows have the number of the transaction that
    is open there or was the last one, and a restart has its own number. ``starts`` marks the first
    rows of transactions 1, 2, ..., and ``faults`` the rows that contradict earlier ones. ``flags``
    has one item per transaction, beginning with number 0. ``is_open`` means that the last
    transaction is open.
    """

    marks: Octets
    number: Longs
    starts: Mask
    faults: Octets
    flags: Octets
    is_open: bool

    @property
    def outcomes(self) -> Octets:
        """Return the `TransactionOutcome` of each transaction: complete, waiting, abandoned or torn.

        Transaction 0 never counts as complete, because its beginning is not among these rows.
        """
        complete = self.flags & (BEGUN | ENDED | CONTINUED) == BEGUN | ENDED
        outcomes = np.where(complete, TransactionOutcome.COMPLETE, TransactionOutcome.TORN).astype(
            np.uint8
        )
        if self.is_open:
            outcomes[-1] = TransactionOutcome.WAITING
        # After WAITING: a restart may have abandoned the last transaction too.
        outcomes[self.flags & ABANDONED != 0] = TransactionOutcome.ABANDONED
        return outcomes

    @property
    def apart(self) -> Mask:
        """Return a mask of the separate rows, which may lie inside a transaction but do not belong to it."""
        is_apart: Mask = self.marks & APART != 0
        return is_apart

    @property
    def firsts(self) -> Longs:
        """Return the first row of transaction 1, of transaction 2, and so on."""
        return np.flatnonzero(self.starts)


def follow(marks: Octets, *, is_open: bool = False) -> FollowedTransactions:
    """Find the transactions of consecutive operations or trail records (rows) by their marks.

    ``marks`` has flags such as ``BEGINS`` for each row. With ``is_open``, a transaction is open
    before the first row.
    """
    count = len(marks)
    number, starts = np.empty(count, np.int64), np.empty(count, bool)
    faults, flags = np.empty(count, np.uint8), np.empty(count + 1, np.uint8)
    last, is_open = kernels.follow(marks, is_open, number, starts, faults, flags)
    return FollowedTransactions(
        marks=marks,
        number=number,
        starts=starts,
        faults=faults,
        flags=flags[: last + 1],
        is_open=bool(is_open),
    )


def transaction_indicators(first: Mask, last: Mask) -> Octets:
    """Return the transaction indicators of operations from masks of each transaction's first and last operation."""
    return LETTERS[first.astype(np.uint8) * 2 + last]


def indicator_marks(indicators: Octets) -> Octets:
    """Convert the transaction indicators of operations to marks for ``follow``."""
    marks: Octets = _MARKS_OF[indicators]
    return marks


def mask_begins(indicators: Octets) -> Mask:
    """Return a mask of the operations that begin a transaction."""
    begins: Mask = _MARKS_OF[indicators] & BEGINS != 0
    return begins


def mask_ends(indicators: Octets) -> Mask:
    """Return a mask of the operations that end a transaction."""
    ends: Mask = _MARKS_OF[indicators] & ENDS != 0
    return ends


def find_begin_rows(begins: Mask) -> Longs:
    """Return for each operation the row at which its transaction begins, or -1 if that is before all rows."""
    # begins 0 1 0 1 0 becomes -1 1 -1 3 -1, and its running maximum is -1 1 1 3 3.
    rows: Longs = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), -1))
    return rows


def begin_rows(opens: Mask) -> Longs | None:
    """Return for each operation of a batch the row of its transaction's first operation, by its begin indicator.

    The row is -1 if the transaction began in an earlier batch. `opens` marks the operations that
    begin a transaction. Returns None if all of them do.
    """
    return None if opens.all() else find_begin_rows(opens)


def first_values(values: pa.Array, begin: Longs | None, before: str | None) -> pa.Array:
    """Replace each operation's value, such as an id, by that of its transaction's first operation.

    `begin` is the result of `begin_rows`. `before` is the value for the transaction that is open
    before the first operation.
    """
    if begin is None:
        return values
    if begin[0] >= 0:
        # In most batches all values of a transaction are equal: then no copy is needed.
        alike = not values.null_count and find_different_row(values, begin) < 0
        return values if alike else take_text(values, begin)
    # Rows of the transaction that was open before have begin -1: take null, then fill in its value.
    taken = values.take(pa.array(begin, mask=begin < 0))
    return taken if before is None else pc.fill_null(taken, before)


def count_rows_to_last_end(indicators: Octets) -> int:
    """Count the operations up to the end of the last complete transaction, by their transaction indicators."""
    ends = np.flatnonzero(mask_ends(indicators))
    return int(ends[-1]) + 1 if len(ends) else 0


@dataclass(frozen=True, slots=True, eq=False)
class HeldOperation:
    """One operation that is held back until the next operation of its transaction is known.

    ``first`` means that it is the first remaining operation of its transaction.
    """

    block: ChangeBlock
    first: bool

    def release(self, *, last: bool) -> ChangeBlock:
        """Return the held operation with its indicator, as the first operation of a batch.

        ``last`` means that it is the last remaining operation of its transaction.
        """
        letter = LETTERS[2 * self.first + last]
        return replace(self.block, order=np.zeros(1, np.int64), tx_ind=np.full(1, letter, np.uint8))


@dataclass(frozen=True, slots=True)
class RemainingIndicators:
    """The operations that remain in transactions after others were dropped, with new indicators.

    A transaction's last operation is only known once the transaction ends, so one operation is
    held back between batches. ``released`` is the operation that an earlier batch held back and
    that must be written now, before all others. ``held`` is that operation if it must still wait.
    ``tx_ind`` are the indicators. ``last`` is the last remaining operation of the transaction that
    is open after the batch, or -1; the caller holds it back.
    """

    tx_ind: Octets
    released: ChangeBlock | None
    held: HeldOperation | None
    last: int


def repair_indicators(
    marks: Octets, keep: Mask, held: HeldOperation | None = None, *, ended_before: bool = False
) -> RemainingIndicators:
    """Return the new transaction indicators of operations if only the operations in ``keep`` remain.

    ``held`` is the operation held back from the transaction that is open before these. With
    ``ended_before``, that transaction has ended without another operation.
    """
    tx_ind = np.zeros(len(marks), np.uint8)
    last, before = kernels.mark_remaining(
        marks, keep, held is not None, ended_before, LETTERS, tx_ind
    )
    if held is None or before == kernels.STAYS:
        return RemainingIndicators(tx_ind, None, held, last)
    return RemainingIndicators(tx_ind, held.release(last=before == kernels.HAS_ENDED), None, last)


class OperationDropper:
    """Drops operations from consecutive batches and repairs the transaction indicators of the remaining operations."""

    def __init__(self) -> None:
        self._held: HeldOperation | None = None

    def take(self, batch: ChangeBatch, keep: Mask) -> ChangeBatch:
        """Return the kept operations of the next batch, after the operation that was held back from the previous one."""
        marks = indicator_marks(batch.tx_indicators())
        ended = bool(len(marks) and marks[0] & BEGINS)
        rest = repair_indicators(marks, keep, self._held, ended_before=ended)
        self._held = rest.held
        if rest.last >= 0:
            block, row = batch.find(rest.last)
            # It may turn out to be the last of its transaction: its indicator is set when that is
            # known.
            self._held = HeldOperation(block.take(np.array([row])), rest.tx_ind[rest.last] == BEGIN)
            keep = keep.copy()
            keep[rest.last] = False
        letters = rest.tx_ind[keep]
        kept = batch.where(keep)
        blocks = [replace(block, tx_ind=letters[block.order]) for block in kept.blocks]
        if rest.released is None:
            return ChangeBatch(blocks, kept.rows)
        # The released operation is number 0 of this batch.
        moved = [replace(block, order=block.order + 1) for block in blocks]
        return ChangeBatch([rest.released, *moved], kept.rows + 1)
