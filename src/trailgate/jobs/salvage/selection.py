"""Choose, portion by portion, the records of whole transactions, and write them to files of their own.

Nothing behind a transaction is written before it is known whether that transaction is whole, so order stays as it was. What is
held back is places, not bytes: memory stays flat however long a transaction is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.jobs.checking.file_walk import FileBegun, FileEnded, Gap, Portion, Step
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.findings import Kind, Severity
from trailgate.trail.checking.transactions import is_apart
from trailgate.trail.format.record_types import Role
from trailgate.trail.format.transactions import begins_of

SUSPECT: Final = "the next record goes on with the transaction behind its end"


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes [start, end) of a source file; what stands ``apart`` (metadata, DDL) stays whatever becomes of the transaction around it."""

    number: int
    start: int
    end: int
    apart: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Bytes that are not part of the new trail, and why."""

    number: int
    offset: int
    length: int
    reason: str
    transaction: str | None = None


@dataclass(slots=True)
class _Pending:
    """A group of records whose end, or what follows its end, is not known yet."""

    transaction: str | None
    headed: bool
    closed: bool = False
    counted: bool = True  # a restart record is no transaction
    fault: str = ""
    parts: list[Part] = field(default_factory=list)


Write = Callable[[int, Sequence[memoryview]], None]
Copy = Callable[[Part], None]


@dataclass(slots=True)
class Rescue:
    """Takes the steps of a check in order.

    ``write`` is given bytes of a file in order, ``copy`` parts of source files, ``leave`` what is left out.
    """

    write: Write
    copy: Copy
    leave: Callable[[LeftOut], None]
    transactions: int = 0
    _pending: _Pending | None = None
    _adjacent: bool = False
    _number: int = -1

    def take(self, step: Step) -> None:
        """Take one step."""
        if isinstance(step, Portion):
            self._portion(step)
            self._adjacent = True
        elif isinstance(step, Gap):
            self._settle(kinds.BROKEN.statement)
            self._adjacent = False
            if step.end > step.start:
                self.leave(LeftOut(step.number, step.start, step.end - step.start, step.problem))
        elif isinstance(step, FileBegun):
            if step.file.number != self._number + 1:
                self._adjacent = False
            self._number = step.file.number
        else:
            assert isinstance(step, FileEnded)

    def finish(self) -> None:
        """Settle what is left at the end of the trail."""
        self._settle(kinds.OPEN.statement)

    def _portion(self, step: Portion) -> None:
        groups = _Groups.of(step)
        first = groups.first_row
        self._extend(step, groups, (0, first))
        if not len(groups.firsts):
            return
        suspect = self._adjacent and bool(groups.headless[0])
        self._settle(groups.why_open(0), suspect=suspect)
        last = int(groups.firsts[-1])
        self._choose(step, groups, (first, last))
        self._pending = _Pending(
            _transaction(step, last, last),
            bool(groups.headed[-1]),
            counted=bool(groups.counted[-1]),
        )
        self._extend(step, groups, (last, len(step.found)))

    def _extend(self, step: Portion, groups: _Groups, span: tuple[int, int]) -> None:
        """Add records to what is pending; what stands apart needs no transaction."""
        start, stop = span
        if start == stop:
            return
        rows = np.arange(start, stop)
        good = rows[~groups.dropped_apart[start:stop]]
        self._leave_apart(step, groups, span)
        pending = self._pending
        if pending is None:
            # In front of the first group there is only what stands apart.
            pending = self._pending = _Pending(None, headed=True, closed=True)
        if pending.transaction is None:
            pending.transaction = _transaction(step, stop - 1, start)
        for part in _parts(step, good, groups.apart):
            pending.parts.append(part)
        own = rows[~groups.apart[start:stop]]
        if len(own):
            pending.closed = bool(groups.closes[own[-1]])
            faulty = own[groups.reason[own] >= 0]
            if len(faulty) and not pending.fault:
                pending.fault = groups.why(int(faulty[0]))

    def _choose(self, step: Portion, groups: _Groups, span: tuple[int, int]) -> None:
        """Write the whole groups that begin and end in a span of records."""
        start, stop = span
        if start == stop:
            return
        whole = groups.whole[:-1]
        self.transactions += int((whole & groups.counted[:-1]).sum())
        kept = np.repeat(whole, np.diff(groups.firsts))
        apart = groups.apart[start:stop]
        kept = np.where(apart, ~groups.dropped_apart[start:stop], kept)
        self._leave_apart(step, groups, span)
        rows = start + np.flatnonzero(kept)
        view = step.data.data
        parts = _runs(step, rows)
        self.write(step.number, [view[one:two] for one, two in parts])
        for group in np.flatnonzero(~whole).tolist():
            first, behind = int(groups.firsts[group]), int(groups.firsts[group + 1])
            own = first + np.flatnonzero(~groups.apart[first:behind])
            left = LeftOut(
                step.number,
                step.base + int(step.found.view.offsets[first]),
                int(step.found.view.lengths[own].sum()),
                groups.why_dropped(group),
                _transaction(step, int(own[-1]), first),
            )
            self.leave(left)

    def _leave_apart(self, step: Portion, groups: _Groups, span: tuple[int, int]) -> None:
        start, stop = span
        for row in (start + np.flatnonzero(groups.dropped_apart[start:stop])).tolist():
            place = step.base + int(step.found.view.offsets[row])
            length = int(step.found.view.lengths[row])
            self.leave(LeftOut(step.number, place, length, groups.why(row)))

    def _settle(self, open_because: str, *, suspect: bool = False) -> None:
        """Write what is pending if it is whole, else what stands apart alone."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        reason = pending.fault or ("" if pending.headed else kinds.HEADLESS.statement)
        reason = reason or ("" if pending.closed else open_because)
        reason = reason or (SUSPECT if suspect else "")
        own = [part for part in pending.parts if not part.apart]
        if not reason and own:
            self.transactions += pending.counted
        for part in pending.parts:
            if part.apart or not reason:
                self.copy(part)
        if reason:
            for number in sorted({part.number for part in own}):
                here = [part for part in own if part.number == number]
                length = sum(part.end - part.start for part in here)
                left = LeftOut(number, here[0].start, length, reason, pending.transaction)
                self.leave(left)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The groups of a portion by their first records, and what is known of each record.

    What stands in front of the first group belongs to the one that is pending.
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
    def of(cls, step: Portion) -> _Groups:
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
            firsts,
            headed & ~headless,
            whole & ~suspect,
            headless,
            ~restart[firsts],
            restart[firsts],
            closes,
            apart,
            apart & bad,
            reason,
            bad,
            tuple(kind for kind, _ in errors),
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
        first, behind = self.firsts[group : group + 2].tolist()
        rows = first + np.flatnonzero(~self.apart[first:behind])
        faulty = rows[self.reason[rows] >= 0]
        if len(faulty):
            return self.why(int(faulty[0]))
        if not self.headed[group]:
            return kinds.HEADLESS.statement
        return SUSPECT if self.closes[rows[-1]] else self.why_open(group + 1)


def _counts(kind: Kind) -> bool:
    return kind.severity is Severity.ERROR and kind is not kinds.UNENDED


def _runs(step: Portion, rows: Longs) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of records, those that follow each other as one."""
    if not len(rows):
        return
    starts = step.found.view.offsets[rows]
    ends = starts + step.found.view.lengths[rows]
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    firsts = np.concatenate([[0], breaks])
    lasts = np.concatenate([breaks, [len(rows)]]) - 1
    yield from zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)


def _parts(step: Portion, rows: Longs, apart: Mask) -> Iterator[Part]:
    """Yield the byte ranges of records in the source file, those that stand apart by themselves, in order."""
    if not len(rows):
        return
    which = apart[rows]
    borders = np.flatnonzero(which[1:] != which[:-1]) + 1
    for piece in np.split(rows, borders):
        for start, end in _runs(step, piece):
            yield Part(step.number, step.base + start, step.base + end, bool(apart[piece[0]]))


def _transaction(step: Portion, row: int, since: int) -> str | None:
    """Return the last transaction id that the records [since, row] carry."""
    rows, texts = step.found.tx
    at = int(np.searchsorted(rows, row, "right"))
    return texts[at - 1] if at and rows[at - 1] >= since else None
