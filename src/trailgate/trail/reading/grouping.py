"""Which records make one operation: images joined, pieces and fragments given to their change.

An operation is a change record; or a before and an after image that follow each other (format
trail format §10.3); each with the fragments and pieces of large objects behind it (trail format §11).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.trail.format.record_header import Heads, Source
from trailgate.trail.format.record_types import IO_UPDATE, Role

CONTINUED_AT: Final = 40  # in a record


@dataclass(frozen=True, slots=True)
class Operations:
    """Operations of consecutive records, in indexes of ``heads``.

    ``first`` is each operation's first record and ``after`` the record of its after image (the
    same one, but for two-record updates). ``owner`` is the operation of each record, -1 for a
    note in front of the first one. ``begins`` and ``ends`` say whether it is its transaction's
    first and last operation. ``records`` counts the records taken.
    """

    heads: Heads
    first: Longs
    after: Longs
    owner: Longs
    begins: Mask
    ends: Mask
    records: int

    def __len__(self) -> int:
        return len(self.first)

    def of_role(self, role: Role) -> Longs:
        """Return the records of a role."""
        return np.flatnonzero(self.heads.role[: self.records] == role)


def group(source: Source, heads: Heads, *, more: bool) -> Operations:
    """Return the operations of these records; with ``more`` others may follow.

    A before image without its after image is left for later, and with ``more`` also the last
    operation of a transaction that is not over, since pieces of it may follow.
    """
    changes = np.flatnonzero(heads.role == Role.CHANGE)
    count = len(heads.offsets)
    if len(changes) and _is_before(heads, changes[-1:])[0]:
        count, more = int(changes[-1]), False
    operations = _grouped(source, heads, count)
    if more and count and _goes_on(source, heads, count):
        # Without an operation there are notes alone: the first of them may begin the transaction of what follows.
        first = operations.first[-1:]
        return _grouped(source, heads, int(first[0]) if len(first) else 0)
    return operations


def continued(source: Source, heads: Heads) -> Mask:
    """Return which records say that a further one goes on with them (trail format §5)."""
    found: Mask = source.data[heads.offsets + CONTINUED_AT] != 0
    return found


def last_change(operations: Operations, records: Longs) -> Longs:
    """Return the change in front of each of these records, which are no changes themselves."""
    changes = operations.of_role(Role.CHANGE)
    return changes[np.searchsorted(changes, records) - 1]


def _goes_on(source: Source, heads: Heads, count: int) -> bool:
    last = heads.offsets[count - 1] + CONTINUED_AT
    return bool(heads.trans_ind[count - 1] < 2 or source.data[last])


def _is_before(heads: Heads, records: Longs) -> Mask:
    """Return which records are before images of updates, of which the after image follows."""
    found: Mask = (heads.io_type[records] == IO_UPDATE) & heads.is_before[records]
    return found


def _grouped(source: Source, heads: Heads, count: int) -> Operations:
    changes = np.flatnonzero(heads.role[:count] == Role.CHANGE)
    paired = _pairs(source, heads, changes)
    is_first = np.ones(len(changes), bool)
    is_first[paired + 1] = False
    first = changes[is_first]
    after = first.copy()
    after[np.searchsorted(first, changes[paired])] = changes[paired + 1]
    owner = np.searchsorted(first, np.arange(count), "right") - 1
    _check_orphans(source, heads, owner)
    begins, ends = _borders(heads, count, first)
    return Operations(heads, first, after, owner, begins, ends, count)


def _pairs(source: Source, heads: Heads, changes: Longs) -> Longs:
    """Return which changes are before images; the next one is the after image of each."""
    before = np.flatnonzero(_is_before(heads, changes))
    one, two = changes[before], changes[before + 1]
    good = (heads.io_type[two] == IO_UPDATE) & ~heads.is_before[two]
    good &= heads.table[two] == heads.table[one]
    good &= (heads.trans_ind[one] < 2) & np.isin(heads.trans_ind[two], (1, 2))
    if not good.all():
        bad = int(heads.offsets[one[int(np.argmin(good))]])
        raise source.error(
            "a before image must be followed by the after image of the same update",
            (bad, bad + 64),
        )
    return before


def _check_orphans(source: Source, heads: Heads, owner: Longs) -> None:
    role = heads.role[: len(owner)]
    piece = (role == Role.LARGE_OBJECT) | (role == Role.FRAGMENT)
    if not piece.any():
        return
    orphan = (owner < 0) & piece
    if orphan.any():
        at = int(heads.offsets[int(np.argmax(orphan))])
        problem = "a piece of a change stands without the change it belongs to"
        raise source.error(problem, (at, at + 64))
    _check_tables(source, heads, np.flatnonzero(piece))


def _check_tables(source: Source, heads: Heads, pieces: Longs) -> None:
    """Check that pieces name the table of the change in front of them, or none."""
    changes = np.flatnonzero(heads.role == Role.CHANGE)
    owners = changes[np.searchsorted(changes, pieces) - 1]
    names = np.array([table.name for table in heads.tables], object)
    named = names[heads.table[pieces]]
    bad = (named != names[heads.table[owners]]) & (named != "")
    if bad.any():
        at = int(heads.offsets[pieces[int(np.argmax(bad))]])
        problem = "a piece of a change is of another table than its change"
        raise source.error(problem, (at, at + 64))


def _borders(heads: Heads, count: int, first: Longs) -> tuple[Mask, Mask]:
    """Return which operations are the first and the last of their transactions.

    TransInd is 0 first, 1 middle, 2 last, 3 only record (trail format §5), of all records, so an
    operation has what its records have together, and notes in front of it count too.
    """
    trans_ind, role = heads.trans_ind[:count], heads.role[:count]
    begins = (trans_ind == 0) | (trans_ind == 3)
    ends = trans_ind >= 2
    if len(first) == len(trans_ind):
        return begins, ends
    if not len(first):
        none = np.zeros(0, bool)
        return none, none
    # No piece begins anything: it would count for the operation behind it.
    begins = begins & ((role == Role.CHANGE) | (role == Role.NOTE))
    behind = np.concatenate([[0], first[:-1] + 1])
    return _any_between(begins, behind, first + 1), _any_between(ends, first, _next(first, ends))


def _next(first: Longs, ends: Mask) -> Longs:
    return np.concatenate([first[1:], [len(ends)]])


def _any_between(marks: Mask, starts: Longs, stops: Longs) -> Mask:
    total = np.concatenate([[0], np.cumsum(marks)])
    found: Mask = total[stops] > total[starts]
    return found
