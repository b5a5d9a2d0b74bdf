"""The marks of a trail's records, by which ``model.transactions`` follows them.

TransInd is 0 first, 1 middle, 2 last, 3 only record (trail format §5). Records of one transaction are contiguous
(trail format §8), but for those that are apart: metadata, orderly restarts, and notes such as DDL that are a
transaction of their own. A RestartAbend record undoes what is open before it (trail format §13).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Mask, Octets
from trailgate.model.kernels import APART, BEGINS, ENDS, UNDOES, UNKNOWN
from trailgate.trail.format.record_types import IO_DELETE, IO_RESTART_OK, ROLE_OF, Role
from trailgate.trail.records.record_view import RecordView

FIRST, MIDDLE, LAST, ONLY_RECORD = range(4)
CLOSES: Final = ENDS | UNKNOWN  # readers end a transaction where it is not known that it continues


def _marks() -> Octets:
    table = np.full(256, UNKNOWN, np.uint8)
    table[[FIRST, MIDDLE, LAST, ONLY_RECORD]] = BEGINS, 0, ENDS, BEGINS | ENDS
    table.setflags(write=False)
    return table


def _restarts() -> Mask:
    table = np.asarray(ROLE_OF == Role.ABEND)
    table[IO_RESTART_OK] = True
    table.setflags(write=False)
    return table


INDICATORS: Final = _marks()  # the mark of each TransInd
_RESTART: Final = _restarts()


def is_restart(view: RecordView) -> Mask:
    """Return which records a writer wrote when it started again."""
    found: Mask = _RESTART[view.io_type] & (view.role >= Role.METADATA)
    return found


def is_apart(view: RecordView) -> Mask:
    """Return which records are not part of the transaction around them, whatever their indicator."""
    notes = (view.role == Role.NOTE) & (view.indicator == ONLY_RECORD)
    found: Mask = is_restart(view) | (view.role == Role.METADATA) | notes
    return found


def indicator_marks(indicators: Octets, apart: Mask) -> Octets:
    """Return the marks of records by their indicators alone, and of those that are apart."""
    marks = INDICATORS[indicators]
    marks[apart] = APART
    return marks


def record_marks(view: RecordView, indicators: Octets) -> Octets:
    """Return the marks of records; ``indicators`` are theirs as far as they are known."""
    if view.only_changes:
        return INDICATORS[indicators]
    marks = indicator_marks(indicators, is_apart(view))
    marks[view.role == Role.ABEND] = UNDOES
    return marks


def change_marks(view: RecordView, *, after_before: bool = False) -> Octets:
    """Return the marks of records so that what belongs to one operation is never torn apart; ``after_before``: they follow a before image.

    Whatever their indicators say, both records of an update are together, and so are a change and the fragments and pieces of
    large objects that follow it.
    """
    marks = record_marks(view, view.indicator)
    if not after_before and _is_usual(view):
        return marks
    piece = (view.role == Role.LARGE_OBJECT) | (view.role == Role.FRAGMENT)
    before = is_before_update(view, marks)
    follows = np.append(after_before, before[:-1])[: len(view)]
    inside = piece | (follows & ~view.is_before)
    marks[inside] &= ~np.uint8(BEGINS)
    more = before | (view.continued != 0) | np.append(piece[1:], [False])[: len(view)]
    marks[more] &= ~np.uint8(CLOSES)
    return marks


def is_before_update(view: RecordView, marks: Octets) -> Mask:
    """Return which records are before images of updates: the after image follows."""
    found: Mask = view.is_before & (view.io_type != IO_DELETE) & (marks & (APART | UNDOES) == 0)
    return found


def _is_usual(view: RecordView) -> bool:
    """Return whether each record is an operation of its own: nothing but its indicator counts then."""
    return view.only_changes and not view.is_before.any() and not view.continued.any()
