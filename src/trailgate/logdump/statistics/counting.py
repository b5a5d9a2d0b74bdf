"""COUNT: records, bytes and types of a file, in columns, portion by portion."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.records.transaction_numbers import BEFORE
from trailgate.logdump.statistics.large_transactions import LargeTransactions
from trailgate.logdump.statistics.sums import TYPES, Counted, Groups, Sums
from trailgate.logdump.statistics.tallies import Tally
from trailgate.trail.format.record_types import IO_METADATA, IO_RESTART_ABEND, IO_RESTART_OK

MICROSECONDS: Final = 60_000_000  # of a minute
# No more than a person may read, so that damaged times and names fill no memory.
MOST_INTERVALS: Final = 10_000
MOST_TABLES: Final = 100_000
IO_COMMENT: Final = 205
_IN_TRANSACTIONS: Final = np.ones(TYPES, bool)
_IN_TRANSACTIONS[[IO_METADATA, IO_RESTART_ABEND, IO_RESTART_OK, IO_COMMENT]] = False
_IN_TRANSACTIONS.setflags(write=False)


class Counting:
    """Counts portions as they come; what it keeps grows with tables and intervals only."""

    def __init__(
        self, *, tables: bool, minutes: int | None, large: LargeTransactions | None = None
    ) -> None:
        self.suppressed = self.transactions = self.files = 0
        self._total: Groups[str] = Groups(1, "files")
        self._by_table: Groups[str] | None = Groups(MOST_TABLES, "tables") if tables else None
        self._interval = None if minutes is None else minutes * MICROSECONDS
        self._by_interval: Groups[int] = Groups(MOST_INTERVALS, "intervals")
        self._open: frozenset[str] = frozenset()  # tables of the transaction that is open
        self._large = large

    def add(self, portion: Portion, mask: Mask) -> None:
        """Count the records of a portion that a mask leaves."""
        rows = np.flatnonzero(mask)
        self.suppressed += len(portion) - len(rows)
        types = portion.view.io_type
        counted = Counted(types[rows], portion.view.data_length[rows], portion.view.is_before[rows])
        self._total.add(np.zeros(len(rows), np.int64), ("",), counted)
        if self._by_table is not None:
            self._by_table.add(portion.names.codes[rows], portion.names.texts, counted)
        if self._interval is not None:
            steps, group = np.unique(
                portion.view.io_time[rows] // self._interval, return_inverse=True
            )
            self._by_interval.add(group, steps.tolist(), counted)
        self._add_transactions(portion, rows)
        if self._large is not None:
            self._large.add(portion, mask)

    def total(self) -> Tally:
        """Return the counts of all records."""
        return self._total.sums.get("", Sums()).tally("")

    def tables(self) -> tuple[Tally, ...]:
        """Return the counts of each table, by name."""
        found = sorted(self._by_table.sums.items()) if self._by_table else []
        return tuple(sums.tally(name) for name, sums in found)

    def intervals(self) -> tuple[Tally, ...]:
        """Return the counts of each interval, by time."""
        step = self._interval or 0
        found = sorted(self._by_interval.sums.items())
        return tuple(sums.tally("", at * step, (at + 1) * step) for at, sums in found)

    def _add_transactions(self, portion: Portion, rows: Longs) -> None:
        """Count transactions, and how many tables each of them has."""
        rows = rows[_IN_TRANSACTIONS[portion.view.io_type[rows]]]
        if not len(rows):
            return
        names, number = portion.names, portion.numbers.number
        keys = number[rows] * len(names.texts) + names.codes[rows]
        # Neighbours are mostly alike: what is sorted is little.
        keys = np.unique(keys[np.append(True, keys[1:] != keys[:-1])])
        owner = keys // len(names.texts)
        going_on = {names.texts[key] for key in keys[owner == BEFORE].tolist()}
        self.transactions += len(np.unique(owner)) - bool(going_on and self._open)
        self.files += int((owner > BEFORE).sum()) + len(going_on - self._open)
        last = portion.numbers.open
        own = {names.texts[key % len(names.texts)] for key in keys[owner == last].tolist()}
        self._open = frozenset(own | self._open if last == BEFORE else own)
