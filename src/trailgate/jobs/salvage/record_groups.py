"""The records of a portion by transactions: which are whole, and why the others are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.jobs.checking.file_walk import Portion
from trailgate.jobs.salvage.left_out import ByteRange
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.findings import Kind, Severity
from trailgate.trail.checking.transactions import is_apart
from trailgate.trail.format.record_types import Role
from trailgate.trail.records.transactions import begins_of

SUSPECT: Final = "the next record continues the transaction after its end"


@dataclass(frozen=True, slots=True)
class RecordGroups:
    """The groups of a portion by their first records, and what is known of each record.

    What precedes the first group belongs to the one that is pending.
    """

    firsts: Longs
    headed: Mask
    whole: Mask
    headless: Mask
    counted: Mask
    restart: Mask
    closes: Mask
    apart: Mask
    dropped_apart: Mask
    reason: Longs
    bad: Mask
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, step: Portion) -> RecordGroups:
        """Return the groups of a portion."""
        found, followed = step.found, step.followed
        count = len(found)
        errors = [(kind, rows) for kind, rows in found.faults if _counts(kind)]
        reason = np.full(count, -1)
        for number, (_, rows) in reversed(list(enumerate(errors))):
            reason[rows] = number
        apart = is_apart(found)
        at = np.flatnonzero(followed.starts)
        firsts = followed.rows[at]
        closes = np.zeros(count, bool)
        closes[followed.rows] = followed.closed
        lasts = followed.rows[np.append(at[1:], len(followed.rows)) - 1] if len(at) else firsts
        bad = reason >= 0
        faulty = np.logical_or.reduceat(bad[followed.rows], at) if len(at) else np.zeros(0, bool)
        restart = found.view.role == Role.ABEND
        headed = begins_of(found.trans_ind[firsts]) | restart[firsts]
        headless = followed.headless[at]
        whole = headed & closes[lasts] & ~faulty
        suspect = np.append(headless[1:], [False]) if len(at) else headless
        return cls(
            firsts=firsts,
            headed=headed & ~headless,
            whole=whole & ~suspect,
            headless=headless,
            counted=~restart[firsts],
            restart=restart[firsts],
            closes=closes,
            apart=apart,
            dropped_apart=apart & bad,
            reason=reason,
            bad=bad,
            kinds=tuple(kind for kind, _ in errors),
        )

    @property
    def first_row(self) -> int:
        """Return the first record of the first group, or how many records there are."""
        return int(self.firsts[0]) if len(self.firsts) else len(self.reason)

    def why(self, row: int) -> str:
        """Return what is wrong with a record."""
        return self.kinds[int(self.reason[row])].statement

    def why_open(self, group: int) -> str:
        """Return why a transaction is not ended where this group begins."""
        return (kinds.ABANDONED if self.restart[group] else kinds.UNENDED).statement

    def why_dropped(self, group: int) -> str:
        """Return why a group is left out; another one follows it."""
        first, end = self.firsts[group : group + 2].tolist()
        rows = first + np.flatnonzero(~self.apart[first:end])
        faulty = rows[self.reason[rows] >= 0]
        if len(faulty):
            return self.why(int(faulty[0]))
        if not self.headed[group]:
            return kinds.HEADLESS.statement
        return SUSPECT if self.closes[rows[-1]] else self.why_open(group + 1)


def _counts(kind: Kind) -> bool:
    return kind.severity is Severity.ERROR and kind is not kinds.UNENDED


def runs(step: Portion, rows: Longs) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of records, those that follow each other as one."""
    if not len(rows):
        return
    starts = step.found.view.offsets[rows]
    ends = starts + step.found.view.lengths[rows]
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(rows)]]) - 1
    yield from zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)


def byte_ranges(step: Portion, rows: Longs, apart: Mask) -> Iterator[ByteRange]:
    """Yield the byte ranges of records in the source file, those that are apart by themselves, in order."""
    if not len(rows):
        return
    which = apart[rows]
    borders = np.flatnonzero(which[1:] != which[:-1]) + 1
    for piece in np.split(rows, borders):
        for start, end in runs(step, piece):
            yield ByteRange(step.number, step.base + start, step.base + end, bool(apart[piece[0]]))


def transaction_in(step: Portion, row: int, since: int) -> str | None:
    """Return the last transaction id that the records [since, row] carry."""
    rows, texts = step.found.tx
    at = int(np.searchsorted(rows, row, "right"))
    return texts[at - 1] if at and rows[at - 1] >= since else None
