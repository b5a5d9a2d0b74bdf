"""What records say of transactions: which begin one, which end one, and which are not part of the one around them.

TransInd is 0 first, 1 middle, 2 last, 3 only record (trail format §5). Records of one transaction are contiguous
(trail format §8), but for those that are apart: metadata, restart records, and notes such as DDL that are a
transaction of their own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Mask, Octets
from trailgate.trail.format.record_types import IO_RESTART_OK, ROLE_OF, Role
from trailgate.trail.records.record_view import RecordView

FIRST, MIDDLE, LAST, ONLY = range(4)


def begins_of(indicators: Octets) -> Mask:
    """Return which indicators begin a transaction."""
    found: Mask = (indicators == FIRST) | (indicators == ONLY)
    return found


def ends_of(indicators: Octets) -> Mask:
    """Return which indicators end a transaction."""
    found: Mask = indicators >= LAST
    return found


def is_restart(view: RecordView) -> Mask:
    """Return which records a writer wrote when it started again."""
    found: Mask = _RESTART[view.io_type] & (view.role >= Role.METADATA)
    return found


def stands_apart(view: RecordView) -> Mask:
    """Return which records are not part of the transaction around them, whatever their indicator."""
    notes = (view.role == Role.NOTE) & (view.indicator == ONLY)
    found: Mask = is_restart(view) | (view.role == Role.METADATA) | notes
    return found


def _restarts() -> Mask:
    table = np.asarray(ROLE_OF == Role.ABEND)
    table[IO_RESTART_OK] = True
    table.setflags(write=False)
    return table


_RESTART: Final = _restarts()
