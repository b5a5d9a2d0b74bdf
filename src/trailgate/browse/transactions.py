"""What the index keeps of transactions: how many have how many operations and last how long, and the longest ones.

The records of a chunk are those of the transaction that is open before it (number 0), of whole ones, and of one that may continue in the next chunk.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.storage.files.trail_files import TrailPlace

LONGEST: Final = 20  # transactions that are listed
SIZES: Final = 40  # of transactions: powers of two
SECOND: Final = 1_000_000
# Microseconds at which the bins of durations begin, but for the first one, which has those of no duration.
DURATIONS: Final = (1, 1000, 10_000, 100_000, *(n * SECOND for n in (1, 10, 60, 600, 3600, 36_000)))


@dataclass(slots=True)
class Transaction:
    """A transaction: its begin, its ids, and what is known of its extent; times are microseconds."""

    begin: TrailPlace
    id: str = ""
    csn: str = ""
    operations: int = 0
    bytes: int = 0
    first_time: int = 0
    last_time: int = 0

    @property
    def duration(self) -> int:
        """Return the microseconds between its first and its last operation."""
        return max(0, self.last_time - self.first_time)

    def extend(self, more: Transaction) -> None:
        """Add what another chunk has of it."""
        self.id, self.csn = self.id or more.id, self.csn or more.csn
        self.operations += more.operations
        self.bytes += more.bytes
        self.last_time = more.last_time


class Ids(NamedTuple):
    """The first id of each of some transactions of a chunk, by their numbers, which ascend."""

    numbers: Longs
    strings: list[str]

    def of(self, number: int) -> str:
        """Return the id of a transaction; empty where it has none."""
        at = int(np.searchsorted(self.numbers, number))
        known = at < len(self.numbers) and self.numbers[at] == number
        return self.strings[at] if known else ""


class Extents(NamedTuple):
    """What a chunk has of each of its transactions: operations, their bytes, and the times of the first and the last one."""

    operations: Longs
    bytes: Longs
    first: Longs
    last: Longs


class Begins(NamedTuple):
    """Where each transaction of a chunk begins, in a file of a number, and their ids."""

    file: int
    offsets: Longs
    tx: Ids
    csn: Ids


@dataclass(slots=True)
class Transactions:
    """How many transactions there are, by the powers of two of their operations and by ``DURATIONS``, and the longest ones."""

    count: int = 0
    sizes: Longs = field(default_factory=lambda: np.zeros(SIZES, np.int64))
    durations: Longs = field(default_factory=lambda: np.zeros(len(DURATIONS) + 1, np.int64))
    by_operations: list[Transaction] = field(default_factory=list)
    by_duration: list[Transaction] = field(default_factory=list)
    open: Transaction | None = None

    def follow(self, begins: Begins, found: Extents) -> None:
        """Add the transactions that end in a chunk, and keep the one that is open after it."""
        counts = found.operations

        def made(own: int) -> Transaction:
            begin = TrailPlace(begins.file, int(begins.offsets[own]))
            columns = (int(column[own]) for column in found)
            return Transaction(begin, begins.tx.of(own), begins.csn.of(own), *columns)

        if counts[0]:
            before = made(0)
            if self.open is None:
                self.open = before
            else:
                self.open.extend(before)
        final = len(counts) - 1
        if final == 0:
            return
        self.finish(is_open=False)
        complete = np.flatnonzero(counts[1:final]) + 1
        counted, durations = counts[complete], np.maximum(found.last - found.first, 0)[complete]
        longest = {
            *_largest(counted, self.by_operations, "operations"),
            *_largest(durations, self.by_duration, "duration"),
        }
        self._add([made(int(complete[at])) for at in sorted(longest)], counted, durations)
        self.open = made(final) if counts[final] else None

    def finish(self, *, is_open: bool) -> None:
        """Count the last transaction, unless it is open."""
        last = self.open
        if last is not None and not is_open:
            self._add([last], np.array([last.operations]), np.array([last.duration]))
            self.open = None

    def _add(self, ended: list[Transaction], sizes: Longs, durations: Longs) -> None:
        """Count transactions by sizes and durations; ``ended`` are those that may be among the longest."""
        if not len(sizes):
            return
        self.count += len(sizes)
        self.sizes += np.bincount(np.log2(sizes).astype(np.int64), minlength=SIZES)
        bins = np.searchsorted(DURATIONS, durations, "right")
        self.durations += np.bincount(bins, minlength=len(self.durations))
        for kept, measure in (
            (self.by_operations, attrgetter("operations")),
            (self.by_duration, attrgetter("duration")),
        ):
            kept[:] = sorted([*kept, *ended], key=measure, reverse=True)[:LONGEST]


def _largest(values: Longs, kept: list[Transaction], measure: str) -> list[int]:
    """Return which of the values are so large that they would be among those kept."""
    least = getattr(kept[-1], measure) if len(kept) == LONGEST else -1
    found = np.flatnonzero(values > least)
    if len(found) > LONGEST:
        found = found[np.argpartition(values[found], -LONGEST)[-LONGEST:]]
    rows: list[int] = found.tolist()
    return rows
