"""Follow transactions through records by TransInd: where each begins, and what is out of order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.records import UNKNOWN, Inspected
from trailgate.trail.format.record_types import Role
from trailgate.trail.records.record_view import begins_of, ends_of, stands_apart

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


@dataclass(frozen=True, slots=True)
class Followed:
    """Groups of records: ``rows`` are all records but those that are apart, ``starts`` those that begin a group.

    A group is a transaction, or what is there of one. ``headless`` are groups' first records whose begin is missing.
    """

    rows: Longs
    starts: Mask
    closed: Mask
    headless: Mask
    state: TransactionState


def follow(found: Inspected, state: TransactionState) -> Followed:
    """Return the groups of these records and note what contradicts; the records follow each other."""
    rows = np.flatnonzero(~is_apart(found))
    indicator, role = found.trans_ind[rows], found.view.role[rows]
    unknown = indicator == UNKNOWN
    restart = role == Role.ABEND
    is_open = (indicator < 2) & ~restart & ~unknown
    was_open = np.concatenate([[state.is_open], is_open[:-1]]) if len(rows) else is_open
    opens = begins_of(indicator) | restart
    headless = ~opens & ~was_open & ~restart & ~unknown
    _note(found, rows, state, headless)
    unended = opens & was_open & ~restart
    found.note(kinds.UNENDED, rows[unended])
    found.note(kinds.ABANDONED, rows[restart & was_open])
    has_ids = state.has_ids or bool(len(found.csn[0]) or len(found.tx[0]))
    if has_ids and unended.any():
        with_ids = np.union1d(found.csn[0], found.tx[0])
        found.note(kinds.TORN, np.setdiff1d(rows[unended], with_ids))
    starts = opens | ~was_open | unknown
    csn = found.csn[1][-1] if found.csn[1] else state.csn
    state = replace(state, has_ids=has_ids, csn=csn)
    if len(rows):
        state = replace(state, is_open=bool(is_open[-1]), elsewhere=False)
    closed = (ends_of(indicator) & ~unknown) | restart
    return Followed(rows, starts, closed, headless, state)


def is_apart(found: Inspected) -> Mask:
    """Return which records may come within a transaction without being part of it."""
    # A transaction continues after RestartOK, which a writer writes that ended in order; RestartAbend ends it.
    apart: Mask = stands_apart(found.view) & (found.view.role != Role.ABEND)
    return apart


def _note(found: Inspected, rows: Longs, state: TransactionState, headless: Mask) -> None:
    """Note records without a begin; those at the very first may have it in an earlier file."""
    if state.elsewhere and len(rows) and headless[0]:
        found.note(kinds.EARLIER, rows[:1])
        headless = headless.copy()
        headless[0] = False
    found.note(kinds.HEADLESS, rows[headless])


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
