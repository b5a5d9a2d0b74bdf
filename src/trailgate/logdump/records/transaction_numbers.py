"""Which transaction each record belongs to, by TransInd alone.

0 opens a transaction, 1 and 2 continue the one that is open, 3 is one of its own. Metadata, DDL and notes are
apart: they may lie inside a transaction and neither end nor open it (trail format §8 and §12). Unlike readers, Logdump numbers
these too, each as a transaction of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.trail.records.transactions import FIRST, LAST, MIDDLE, ONLY

BEFORE: Final = 0  # number of the transaction that is open before the records
NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Numbers:
    """The number of each record's transaction, and of the one that is open after them, or NONE.

    ``firsts`` are the first records of transactions 1, 2, ...; an ``orphan`` is one whose begin is missing.
    """

    number: Longs
    open: int
    firsts: Longs
    orphan: Mask


def number_transactions(indicator: Octets, apart: Mask) -> Numbers:
    """Return the transactions of records that follow each other.

    How records are cut into portions changes nothing: a record that continues though nothing is open is an
    orphan, at the first record of a portion as anywhere.
    """
    row = np.arange(len(indicator))
    opens = indicator == FIRST
    continues = (indicator == MIDDLE) | (indicator == LAST)
    closes = ((indicator == LAST) | (indicator == ONLY)) & ~apart
    last_open = np.maximum.accumulate(np.where(opens, row, NONE))
    last_close = np.maximum.accumulate(np.where(closes, row, NONE))
    closed_before = np.append(NONE, last_close[:-1])
    orphan = continues & (closed_before > last_open)
    orphan_rows = np.flatnonzero(orphan)
    # Orphans after the same end of a transaction are one.
    orphan_begins = orphan_rows[np.diff(closed_before[orphan_rows], prepend=NONE) != 0]
    begins = opens | (indicator == ONLY)
    begins[orphan_begins] = True
    own = np.cumsum(begins)
    number = np.where(continues, np.where(last_open < 0, BEFORE, own[last_open]), own)
    group = np.searchsorted(orphan_begins, orphan_rows, "right") - 1
    number[orphan_rows] = own[orphan_begins][group]
    firsts = np.flatnonzero(begins)
    still_open = _open_after(number, last_open, last_close, orphan_rows)
    return Numbers(number, still_open, firsts, continues[firsts])


def _open_after(number: Longs, last_open: Longs, last_close: Longs, orphans: Longs) -> int:
    if not len(number) or last_open[-1] == last_close[-1]:
        return BEFORE
    if last_open[-1] > last_close[-1]:
        return int(number[last_open[-1]])
    if len(orphans) and orphans[-1] > last_close[-1]:
        return int(number[orphans[-1]])
    return NONE


def open_at(indicator: Octets, apart: Mask) -> int | None:
    """Return the record that opened what is open after these, NONE for nothing, None for earlier."""
    deciding = np.flatnonzero(~apart & (indicator != MIDDLE))
    if not len(deciding):
        return None
    last = int(deciding[-1])
    return last if indicator[last] == FIRST else NONE
