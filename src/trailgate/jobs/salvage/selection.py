"""Choose, portion by portion, the records of whole transactions, and write them to files of their own.

Nothing after a transaction is written before it is known whether that transaction is whole, so order stays as it was.
Places are held back, not bytes: memory stays flat however long a transaction is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trailgate.jobs.checking.file_walk import FileBegun, FileEnded, Gap, Portion, Step
from trailgate.jobs.salvage.left_out import ByteRange, LeftOut
from trailgate.jobs.salvage.record_groups import (
    SUSPECT,
    RecordGroups,
    byte_ranges,
    runs,
    transaction_in,
)
from trailgate.trail.checking import findings as kinds


@dataclass(slots=True)
class Pending:
    """A group of records whose end, or what follows its end, is not known yet."""

    transaction: str | None
    headed: bool
    closed: bool = False
    counted: bool = True  # a restart record is not a transaction
    fault: str = ""
    parts: list[ByteRange] = field(default_factory=list)


Write = Callable[[int, Sequence[memoryview]], None]
Copy = Callable[[ByteRange], None]


@dataclass(slots=True)
class Selection:
    """Takes the steps of a check in order.

    ``write`` is given bytes of a file in order, ``copy`` ranges of source files, ``leave`` what is left out.
    """

    write: Write
    copy: Copy
    leave: Callable[[LeftOut], None]
    transactions: int = 0
    _pending: Pending | None = None
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
        groups = RecordGroups.of(step)
        first = groups.first_row
        self._extend(step, groups, range(first))
        if not len(groups.firsts):
            return
        suspect = self._adjacent and bool(groups.headless[0])
        self._settle(groups.why_open(0), suspect=suspect)
        last = int(groups.firsts[-1])
        self._choose(step, groups, range(first, last))
        self._pending = Pending(
            transaction_in(step, last, last),
            bool(groups.headed[-1]),
            counted=bool(groups.counted[-1]),
        )
        self._extend(step, groups, range(last, len(step.found)))

    def _extend(self, step: Portion, groups: RecordGroups, span: range) -> None:
        """Add records to what is pending; records that are apart need no transaction."""
        start, stop = span.start, span.stop
        if start == stop:
            return
        rows = np.arange(start, stop)
        good = rows[~groups.dropped_apart[start:stop]]
        self._leave_apart(step, groups, span)
        pending = self._pending
        if pending is None:
            # Before the first group there are only records that are apart.
            pending = self._pending = Pending(None, headed=True, closed=True)
        if pending.transaction is None:
            pending.transaction = transaction_in(step, stop - 1, start)
        for part in byte_ranges(step, good, groups.apart):
            pending.parts.append(part)
        own = rows[~groups.apart[start:stop]]
        if len(own):
            pending.closed = bool(groups.closes[own[-1]])
            faulty = own[groups.reason[own] >= 0]
            if len(faulty) and not pending.fault:
                pending.fault = groups.why(int(faulty[0]))

    def _choose(self, step: Portion, groups: RecordGroups, span: range) -> None:
        """Write the whole groups that begin and end in a span of records."""
        start, stop = span.start, span.stop
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
        parts = runs(step, rows)
        self.write(step.number, [view[one:two] for one, two in parts])
        for group in np.flatnonzero(~whole).tolist():
            first, end = int(groups.firsts[group]), int(groups.firsts[group + 1])
            own = first + np.flatnonzero(~groups.apart[first:end])
            left = LeftOut(
                step.number,
                step.base + int(step.found.view.offsets[first]),
                int(step.found.view.lengths[own].sum()),
                groups.why_dropped(group),
                transaction_in(step, int(own[-1]), first),
            )
            self.leave(left)

    def _leave_apart(self, step: Portion, groups: RecordGroups, span: range) -> None:
        start, stop = span.start, span.stop
        for row in (start + np.flatnonzero(groups.dropped_apart[start:stop])).tolist():
            place = step.base + int(step.found.view.offsets[row])
            length = int(step.found.view.lengths[row])
            self.leave(LeftOut(step.number, place, length, groups.why(row)))

    def _settle(self, open_because: str, *, suspect: bool = False) -> None:
        """Write what is pending if it is whole, else only the records that are apart."""
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
