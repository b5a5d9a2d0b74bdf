"""Translate the indicator TransInd to the marks that ``model.transactions`` uses to follow transactions.

TransInd is 0 for the first record, 1 for a middle, 2 for the last and 3 for the only record of a
transaction (trail format §5). The records of a transaction are contiguous (trail format §8), except
for separate records between them: metadata, orderly restarts, and notes such as DDL that are
separate transactions. A RestartAbend record undoes the open transaction before it (trail format
§13).

A mark is a byte of bits: TransInd 0, 1, 2 becomes BEGINS, 0, ENDS.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, byte_mask, byte_table
from trailgate.model.kernels import (
    APART,
    BEGINS,
    BEGINS_INSIDE,
    CONTINUES_NOTHING,
    ENDS,
    UNDOES,
    UNKNOWN,
)
from trailgate.model.transactions import FollowedTransactions
from trailgate.trail.format.record_types import IO_DELETE, IO_RESTART_OK, ROLE_OF, RecordRole
from trailgate.trail.records.record_view import RecordColumns

FIRST, MIDDLE, LAST, ONLY_RECORD = range(4)
CLOSES: Final = ENDS | UNKNOWN  # readers end a transaction if its indicator is unknown


# By TransInd.
INDICATORS: Final = byte_table(
    {FIRST: BEGINS, MIDDLE: 0, LAST: ENDS, ONLY_RECORD: BEGINS | ENDS}, UNKNOWN
)
# By IOType: whether the record marks a restart of the writer.
_RESTART: Final = byte_mask([*np.flatnonzero(ROLE_OF == RecordRole.ABEND).tolist(), IO_RESTART_OK])


def is_restart_record(view: RecordColumns) -> Mask:
    """Return a mask of the restart records among trail records, which belong to no transaction. A writer writes one when it starts again."""
    # The role excludes records whose type byte may be damaged.
    restarts: Mask = _RESTART[view.io_type] & (view.role >= RecordRole.METADATA)
    return restarts


def is_separate(view: RecordColumns) -> Mask:
    """Return a mask of the records that do not belong to the transaction around them.

    These are restart and metadata records, whatever their indicator, and records such as DDL that
    change no rows and are a transaction of their own (TransInd 3).
    """
    notes = (view.role == RecordRole.NOTE) & (view.indicator == ONLY_RECORD)
    separate: Mask = is_restart_record(view) | (view.role == RecordRole.METADATA) | notes
    return separate


def indicator_marks(indicators: Octets, apart: Mask) -> Octets:
    """Convert the transaction indicators (TransInd) of trail records to the marks of ``model.transactions``.

    ``apart`` is a mask of the records that do not belong to the transaction around them.
    """
    marks = INDICATORS[indicators]
    marks[apart] = APART
    return marks


def record_marks(view: RecordColumns, indicators: Octets) -> Octets:
    """Convert the indicators of trail records to transaction marks.

    ``indicators`` are their TransInd bytes; bytes other than 0 to 3 count as unknown.
    """
    if view.only_changes:
        return INDICATORS[indicators]
    marks = indicator_marks(indicators, is_separate(view))
    marks[view.role == RecordRole.ABEND] = UNDOES
    return marks


def change_marks(view: RecordColumns, *, after_before: bool = False) -> Octets:
    """Return the transaction marks of records, corrected so that no transaction ends inside an operation.

    Whatever their indicators are, the two images of an update stay together, and so do a change and
    the fragments and large objects after it. With ``after_before``, the record before the first one
    is the before image of an update.
    """
    marks = record_marks(view, view.indicator)
    if not after_before and _is_usual(view):
        return marks
    piece = (view.role == RecordRole.LARGE_OBJECT) | (view.role == RecordRole.FRAGMENT)
    # Rows within an operation (pieces, and what follows a before image) cannot begin a transaction;
    # rows that are followed by one of these cannot end it.
    before = is_before_update(view, marks)
    follows = np.append(after_before, before[:-1])[: len(view)]
    inside = piece | (follows & ~view.is_before)
    marks[inside] &= ~np.uint8(BEGINS)
    more = before | (view.continued != 0) | np.append(piece[1:], [False])[: len(view)]
    marks[more] &= ~np.uint8(CLOSES)
    return marks


def find_contradictions(followed: FollowedTransactions) -> tuple[Longs, Longs]:
    """Return the rows before which records must be missing: records that continue no transaction, and records that begin one while another is open.

    Every check and reader calls this function to decide this.
    """
    return (
        np.flatnonzero(followed.faults == CONTINUES_NOTHING),
        np.flatnonzero(followed.faults == BEGINS_INSIDE),
    )


def is_before_update(view: RecordColumns, marks: Octets) -> Mask:
    """Return a mask of the before images of updates in two records: no transaction can end between them and their after images.

    ``marks`` are the transaction marks of the records: separate records and restarts are excluded.
    """
    selected: Mask = view.is_before & (view.io_type != IO_DELETE) & (marks & (APART | UNDOES) == 0)
    return selected


def _is_usual(view: RecordColumns) -> bool:
    """Return whether every record is a complete operation, which is the usual case.

    If so, the indicators of the records are enough to find the beginnings and ends of transactions.
    """
    return view.only_changes and not view.is_before.any() and not view.continued.any()
