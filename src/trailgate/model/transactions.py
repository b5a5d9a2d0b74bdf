"""Transactions: where each begins and ends among operations or records, and what becomes of it.

Operations of messages and records of trails are followed alike. Whoever has them states by a mark a row what it does: it begins a transaction, ends it, is apart from the one
around it (as metadata are), or undoes the one that is open (a restart). Transactions are contiguous, so one bit is all that is known between two
rows: whether a transaction is open. ``follow`` gives each row the number of its transaction, and notes where a row contradicts the one before. However rows are cut into
batches, the result is the same: transaction 0 of a batch is the one that is open before it.

Each transaction then has one fate. It is whole, or it is waiting for rows that have not come, a restart abandoned it and it is left out, or it is torn: its begin or its end is
missing.

Where operations are left out, the others get indicators that fit (``remain``). The last one of an open transaction is held until it is known whether
another one follows: one operation is held at most, however long the transaction is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.model import kernels
from trailgate.model.changes import BEGIN, END, LETTERS, WHOLE, ChangeBatch, ChangeBlock
from trailgate.model.kernels import ABANDONED, APART, BEGINS, BEGUN, CONTINUED, ENDED, ENDS

BEFORE: Final = 0  # the number of the transaction that is open before the rows
_MARKS_OF: Final = np.zeros(256, np.uint8)
_MARKS_OF[[BEGIN, WHOLE]] |= BEGINS
_MARKS_OF[[END, WHOLE]] |= ENDS
_MARKS_OF.setflags(write=False)


class Fate(IntEnum):
    """What becomes of a transaction."""

    WHOLE = 0
    WAITING = 1
    LEFT_OUT = 2
    TORN = 3


@dataclass(frozen=True, slots=True)
class Followed:
    """The transactions of rows.

    ``number`` is that of each row's transaction; rows that are apart have that of the transaction around them, and a restart has one of its own. ``starts`` marks the
    first rows that there are of transactions 1, 2, ..., and ``faults`` the rows that contradict those before. ``flags`` has one slot a transaction, and one for number 0.
    ``is_open``: the last one is.
    """

    marks: Octets
    number: Longs
    starts: Mask
    faults: Octets
    flags: Octets
    is_open: bool

    @property
    def fates(self) -> Octets:
        """Return what becomes of each transaction; number 0 is known only with the rows before."""
        whole = self.flags & (BEGUN | ENDED | CONTINUED) == BEGUN | ENDED
        fates = np.where(whole, Fate.WHOLE, Fate.TORN).astype(np.uint8)
        if self.is_open:
            fates[-1] = Fate.WAITING
        fates[self.flags & ABANDONED != 0] = Fate.LEFT_OUT
        return fates

    @property
    def apart(self) -> Mask:
        """Return which rows are not part of the transaction around them."""
        found: Mask = self.marks & APART != 0
        return found

    @property
    def firsts(self) -> Longs:
        """Return the first rows that there are of transactions 1, 2, ..."""
        return np.flatnonzero(self.starts)


def follow(marks: Octets, *, is_open: bool = False) -> Followed:
    """Return the transactions of rows; ``is_open``: one is open before them."""
    count = len(marks)
    number, starts = np.empty(count, np.int64), np.empty(count, bool)
    faults, flags = np.empty(count, np.uint8), np.empty(count + 1, np.uint8)
    last, is_open = kernels.follow(marks, is_open, number, starts, faults, flags)
    return Followed(marks, number, starts, faults, flags[: last + 1], bool(is_open))


def indicator_marks(indicators: Octets) -> Octets:
    """Return the marks of operations by their indicators."""
    found: Octets = _MARKS_OF[indicators]
    return found


def begins_of(indicators: Octets) -> Mask:
    """Return which operations begin a transaction, by their indicators."""
    found: Mask = _MARKS_OF[indicators] & BEGINS != 0
    return found


def ends_of(indicators: Octets) -> Mask:
    """Return which operations end a transaction, by their indicators."""
    found: Mask = _MARKS_OF[indicators] & ENDS != 0
    return found


def begin_rows(begins: Mask) -> Longs:
    """Return for each row the one that its transaction begins with, -1 where that is before all."""
    found: Longs = np.maximum.accumulate(np.where(begins, np.arange(len(begins)), -1))
    return found


def rows_to_last_end(indicators: Octets) -> int:
    """Return how many operations there are up to the end of the last transaction that ends among them, 0 for none."""
    ends = np.flatnonzero(ends_of(indicators))
    return int(ends[-1]) + 1 if len(ends) else 0


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A block of one operation, which waits for the next one of its transaction; ``first``: it is the first that remains of it."""

    block: ChangeBlock
    first: bool

    def release(self, *, last: bool) -> ChangeBlock:
        """Return the operation with its indicator, as the first one of a batch."""
        letter = LETTERS[2 * self.first + last]
        return replace(self.block, order=np.zeros(1, np.int64), tx_ind=np.full(1, letter, np.uint8))


@dataclass(frozen=True, slots=True)
class Remaining:
    """What remains of transactions of which operations are left out.

    ``tx_ind`` are the indicators of those that remain. ``released`` was held before, and comes first; ``held`` is held on. ``last`` is the last operation that remains of the
    transaction that is open after all, -1 for none.
    """

    tx_ind: Octets
    released: ChangeBlock | None
    held: Held | None
    last: int


def remain(
    marks: Octets, keep: Mask, held: Held | None = None, *, ended_before: bool = False
) -> Remaining:
    """Return what remains of operations with these marks where only some are kept.

    ``held`` is what is held of the transaction that is open before; ``ended_before``: that has ended already.
    """
    tx_ind = np.zeros(len(marks), np.uint8)
    last, before = kernels.mark_remaining(
        marks, keep, held is not None, ended_before, LETTERS, tx_ind
    )
    if held is None or before == kernels.STAYS:
        return Remaining(tx_ind, None, held, last)
    return Remaining(tx_ind, held.release(last=before == kernels.HAS_ENDED), None, last)


class RemainingOperations:
    """Leaves operations out of consecutive batches; what remains of each transaction has indicators that fit."""

    def __init__(self) -> None:
        self._held: Held | None = None

    def take(self, batch: ChangeBatch, keep: Mask) -> ChangeBatch:
        """Return what is kept of the next operations, and what was held of those before."""
        marks = indicator_marks(batch.tx_indicators())
        ended = bool(len(marks) and marks[0] & BEGINS)
        rest = remain(marks, keep, self._held, ended_before=ended)
        self._held = rest.held
        if rest.last >= 0:
            block, row = batch.find(rest.last)
            self._held = Held(block.take(np.array([row])), rest.tx_ind[rest.last] == BEGIN)
            keep = keep.copy()
            keep[rest.last] = False
        letters = rest.tx_ind[keep]
        kept = batch.where(keep)
        blocks = [replace(block, tx_ind=letters[block.order]) for block in kept.blocks]
        if rest.released is None:
            return ChangeBatch(blocks, kept.rows)
        moved = [replace(block, order=block.order + 1) for block in blocks]
        return ChangeBatch([rest.released, *moved], kept.rows + 1)
