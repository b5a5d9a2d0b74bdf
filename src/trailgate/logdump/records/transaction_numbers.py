"""Which transaction each record belongs to, told by TransInd alone.

0 opens a transaction, 1 and 2 go on with the one that is open, 3 is one of its own. Metadata, DDL and notes stand
aside: they may lie inside a transaction and neither end nor open it (trail format §8 and §12).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask, Octets
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.record_header import swapped_indicators
from trailgate.trail.format.record_types import IO_DDL, ROLE_OF, Role

FIRST, MIDDLE, LAST, ONLY = range(4)  # TransInd
BEFORE: Final = 0  # number of the transaction that is open in front of the records
NONE: Final = -1


def _asides() -> Mask:
    table = np.isin(ROLE_OF, (Role.METADATA, Role.NOTE, Role.ABEND))
    table[IO_DDL] = True
    table.setflags(write=False)
    return table


_ASIDE: Final = _asides()


@dataclass(frozen=True, slots=True)
class Numbers:
    """The number of each record's transaction, and of the one that is open behind them, or NONE.

    ``firsts`` are the first records of transactions 1, 2, ...; an ``orphan`` is one whose begin is missing.
    """

    number: Longs
    open: int
    firsts: Longs
    orphan: Mask


def indicators(heads: npt.NDArray[np.void], order: ByteOrder) -> Octets:
    """Return TransInd, found four bytes earlier where the byte itself holds none (trail format §5)."""
    found = np.ascontiguousarray(heads["trans_ind"])
    strange = found > ONLY
    if strange.any():
        swapped = swapped_indicators(heads, order)
        found = np.where(strange & (swapped <= ONLY), swapped, found)
    return found


def asides(heads: npt.NDArray[np.void], indicator: Octets) -> Mask:
    """Tell which records stand aside of transactions."""
    found: Mask = _ASIDE[heads["io_type"]] & (indicator == ONLY)
    return found


def number_transactions(indicator: Octets, aside: Mask) -> Numbers:
    """Return the transactions of records that follow each other.

    How records are cut into portions changes nothing: what goes on though nothing is open is an
    orphan, at the begin of a portion as anywhere.
    """
    row = np.arange(len(indicator))
    opens = indicator == FIRST
    goes_on = (indicator == MIDDLE) | (indicator == LAST)
    closes = ((indicator == LAST) | (indicator == ONLY)) & ~aside
    last_open = np.maximum.accumulate(np.where(opens, row, NONE))
    last_close = np.maximum.accumulate(np.where(closes, row, NONE))
    closed_before = np.append(NONE, last_close[:-1])
    orphan = goes_on & (closed_before > last_open)
    orphan_rows = np.flatnonzero(orphan)
    # Orphans behind the same end of a transaction are one.
    orphan_begins = orphan_rows[np.diff(closed_before[orphan_rows], prepend=NONE) != 0]
    begins = opens | (indicator == ONLY)
    begins[orphan_begins] = True
    own = np.cumsum(begins)
    number = np.where(goes_on, np.where(last_open < 0, BEFORE, own[last_open]), own)
    group = np.searchsorted(orphan_begins, orphan_rows, "right") - 1
    number[orphan_rows] = own[orphan_begins][group]
    firsts = np.flatnonzero(begins)
    still_open = _open_behind(number, last_open, last_close, orphan_rows)
    return Numbers(number, still_open, firsts, goes_on[firsts])


def _open_behind(number: Longs, last_open: Longs, last_close: Longs, orphans: Longs) -> int:
    if not len(number) or last_open[-1] == last_close[-1]:
        return BEFORE
    if last_open[-1] > last_close[-1]:
        return int(number[last_open[-1]])
    if len(orphans) and orphans[-1] > last_close[-1]:
        return int(number[orphans[-1]])
    return NONE


def open_at(indicator: Octets, aside: Mask) -> int | None:
    """Return the record that opened what is open behind these, NONE for nothing, None for earlier."""
    deciding = np.flatnonzero(~aside & (indicator != MIDDLE))
    if not len(deciding):
        return None
    last = int(deciding[-1])
    return last if indicator[last] == FIRST else NONE
