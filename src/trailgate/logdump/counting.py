"""COUNT: records, bytes and types of a file, in columns, portion by portion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from trailgate.errors import OptionError
from trailgate.logdump.large_transactions import LargeTransactions
from trailgate.logdump.portions import Portion
from trailgate.logdump.results import Tally
from trailgate.logdump.transaction_numbers import BEFORE
from trailgate.trail.record_types import (
    IO_METADATA,
    IO_RESTART_ABEND,
    IO_RESTART_OK,
    type_name,
)

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
MICROSECONDS: Final = 60_000_000  # of a minute
MOST_INTERVALS: Final = 10_000  # what a person may read; damaged times make no more
TYPES: Final = 256
IO_COMMENT: Final = 205
_IN_TRANSACTIONS: Final = np.ones(TYPES, bool)
_IN_TRANSACTIONS[[IO_METADATA, IO_RESTART_ABEND, IO_RESTART_OK, IO_COMMENT]] = False
_IN_TRANSACTIONS.setflags(write=False)


@dataclass(slots=True)
class Sums:
    """Sums that grow."""

    records: int = 0
    data_bytes: int = 0
    befores: int = 0
    types: Longs = field(default_factory=lambda: np.zeros(TYPES, np.int64))

    def add(self, types: npt.NDArray[np.uint8], data: Longs, before: Mask) -> None:
        """Add records."""
        self.records += len(types)
        self.data_bytes += int(data.sum())
        self.befores += int(np.count_nonzero(before))
        self.types += np.bincount(types, minlength=TYPES)

    def tally(self, name: str, begin: int | None = None, end: int | None = None) -> Tally:
        """Return the sums as a value."""
        codes = np.flatnonzero(self.types).tolist()
        named = {_label(code): int(self.types[code]) for code in codes}
        afters = self.records - self.befores
        return Tally(name, self.records, self.data_bytes, named, self.befores, afters, begin, end)


def _label(code: int) -> str:
    name = type_name(code)
    return f"{name} {code}" if name == "unknown" else name


class Counting:
    """Counts portions as they come; what it keeps grows with tables and intervals only."""

    def __init__(
        self, *, tables: bool, minutes: int | None, large: LargeTransactions | None = None
    ) -> None:
        self.total = Sums()
        self.suppressed = self.transactions = self.files = 0
        self._by_table: dict[str, Sums] | None = {} if tables else None
        self._interval = None if minutes is None else minutes * MICROSECONDS
        self._by_interval: dict[int, Sums] = {}
        self._open: frozenset[str] = frozenset()  # tables of the transaction that is open
        self._large = large

    def add(self, portion: Portion, mask: Mask) -> None:
        """Count the records of a portion that a mask leaves."""
        rows = np.flatnonzero(mask)
        self.suppressed += len(portion) - len(rows)
        everything = len(rows) == len(portion)
        types = np.ascontiguousarray(portion.heads["io_type"])
        data, before = portion.data_length, portion.is_before
        if not everything:
            types, data, before = types[rows], data[rows], before[rows]
        self.total.add(types, data, before)
        if self._by_table is not None:
            codes = portion.names.codes[rows]
            for code in np.unique(codes).tolist():
                same = codes == code
                sums = self._by_table.setdefault(portion.names.texts[code], Sums())
                sums.add(types[same], data[same], before[same])
        if self._interval is not None:
            self._add_intervals(portion.io_time[rows] // self._interval, (types, data, before))
        self._add_transactions(portion, rows)
        if self._large is not None:
            self._large.add(portion, mask)

    def tables(self) -> tuple[Tally, ...]:
        """Return the counts of each table, by name."""
        found = sorted((self._by_table or {}).items())
        return tuple(sums.tally(name) for name, sums in found)

    def intervals(self) -> tuple[Tally, ...]:
        """Return the counts of each interval, by time."""
        step = self._interval or 0
        return tuple(
            sums.tally("", at * step, (at + 1) * step)
            for at, sums in sorted(self._by_interval.items())
        )

    def _add_intervals(self, buckets: Longs, of: tuple[npt.NDArray[np.uint8], Longs, Mask]) -> None:
        types, data, before = of
        for bucket in np.unique(buckets).tolist():
            same = buckets == bucket
            sums = self._by_interval.setdefault(bucket, Sums())
            sums.add(types[same], data[same], before[same])
            if len(self._by_interval) > MOST_INTERVALS:
                problem = f"these are more than {MOST_INTERVALS} intervals"
                raise OptionError(problem, hint="Take longer ones, or START and END")

    def _add_transactions(self, portion: Portion, rows: Longs) -> None:
        """Count transactions, and how many tables each of them has."""
        rows = rows[_IN_TRANSACTIONS[portion.heads["io_type"][rows]]]
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
