"""Note what is out of order: records that contradict the transactions around them, and CSNs that descend."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.model.kernels import ABANDONS, BEGINS_INSIDE, CONTINUES_NOTHING
from trailgate.model.transactions import Followed, follow
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.records import Inspected
from trailgate.trail.records.transactions import record_marks

DIGITS: Final = 19  # that an int64 may not hold


@dataclass(frozen=True, slots=True)
class TransactionState:
    """What earlier records mean for the next ones.

    ``is_open``: a transaction is not ended yet. ``elsewhere``: what comes first may belong to a transaction
    whose begin is not here. ``has_ids``: some transaction had a LOGCSN or TRANID. ``csn`` is the last one.
    """

    is_open: bool = False
    elsewhere: bool = False
    has_ids: bool = False
    csn: str | None = None


def follow_records(found: Inspected, state: TransactionState) -> tuple[Followed, TransactionState]:
    """Return the transactions of these records, and note what contradicts; the records follow each other."""
    followed = follow(record_marks(found.view, found.trans_ind), is_open=state.is_open)
    headless = np.flatnonzero(followed.faults == CONTINUES_NOTHING)
    unended = np.flatnonzero(followed.faults == BEGINS_INSIDE)
    own = np.flatnonzero(~followed.apart)
    if state.elsewhere and len(headless) and headless[0] == own[0]:
        # The very first one may have its begin in an earlier file.
        found.note(kinds.EARLIER, headless[:1])
        headless = headless[1:]
    found.note(kinds.HEADLESS, headless)
    found.note(kinds.UNENDED, unended)
    found.note(kinds.ABANDONED, followed.faults == ABANDONS)
    has_ids = state.has_ids or bool(len(found.csn[0]) or len(found.tx[0]))
    if has_ids and len(unended):
        found.note(kinds.TORN, np.setdiff1d(unended, np.union1d(found.csn[0], found.tx[0])))
    csn = found.csn[1][-1] if found.csn[1] else state.csn
    elsewhere = state.elsewhere and not len(own)
    return followed, TransactionState(followed.is_open, elsewhere, has_ids, csn)


def csn_key(csn: str) -> tuple[int, int | str]:
    """Return what CSNs are ordered by: digits as a number, other forms, of fixed width, as text."""
    return (0, int(csn)) if csn.isascii() and csn.isdigit() else (len(csn), csn)


def check_csns(found: Inspected, last: str | None) -> None:
    """Note records whose CSN is lower than the one before; ``last`` is that of earlier records."""
    rows, strings = found.csn
    if not strings:
        return
    before = [] if last is None else [last]
    numbers = _numbers(before + strings)
    rows = rows[1 - len(before) :]
    if numbers is not None:
        found.note(kinds.CSN_ORDER, rows[np.diff(numbers) < 0])
        return
    keys = [csn_key(text) for text in before + strings]
    compared = zip(rows.tolist(), pairwise(keys), strict=True)
    lower = [row for row, (one, two) in compared if one[0] == two[0] and two < one]
    found.note(kinds.CSN_ORDER, np.array(lower, np.int64))


def _numbers(csns: list[str]) -> Longs | None:
    """Return CSNs as numbers; None where some are not digits, or too many of them."""
    strings = pa.array(csns, pa.string())
    short = pc.less(pc.binary_length(strings), DIGITS)
    if not pc.all(pc.and_(pc.ascii_is_decimal(strings), short)).as_py():
        return None
    found: Longs = strings.cast(pa.int64()).to_numpy()
    return found
