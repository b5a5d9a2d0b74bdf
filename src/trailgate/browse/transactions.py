"""Statistics of transactions for the index: counts by size and by duration, and the longest ones.

Within a chunk, transaction 0 is the transaction that was open before it, the next ones begin and
end in it, and the last one may continue in the next chunk. So statistics can be added chunk by
chunk: only the open transaction is passed from one to the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.index_kernels import TransactionExtents
from trailgate.storage.files.trail_files import TrailPosition

LONGEST: Final = 20  # transactions listed as the longest
SIZES: Final = 40  # bins of transaction sizes: powers of two
SECOND: Final = 1_000_000
# The lower bounds of the bins of durations, in microseconds. A first bin before them is for duration 0.
DURATIONS: Final = (1, 1000, 10_000, 100_000, *(n * SECOND for n in (1, 10, 60, 600, 3600, 36_000)))


@dataclass(slots=True)
class IndexedTransaction:
    """A transaction in the index's list of the longest: its position, ids, size and times.

    Times are microseconds since 1970.
    """

    begin: TrailPosition
    id: str = ""
    csn: str = ""
    operations: int = 0
    bytes: int = 0
    first_time: int = 0
    last_time: int = 0

    @property
    def duration(self) -> int:
        """The microseconds between the first and the last operation of the indexed transaction."""
        return max(0, self.last_time - self.first_time)

    def extend(self, more: IndexedTransaction) -> None:
        """Add the transaction's operations in another chunk of the trail."""
        self.id, self.csn = self.id or more.id, self.csn or more.csn
        self.operations += more.operations
        self.bytes += more.bytes
        self.last_time = more.last_time


class TransactionIds(NamedTuple):
    """The ids (TRANID or CSN) of the transactions in a chunk of records.

    ``numbers`` are the numbers of the transactions that have an id, ascending, and ``strings`` are
    their ids.
    """

    numbers: Longs
    strings: list[str]

    def of(self, number: int) -> str:
        """Return the id of the transaction with this number in the chunk, or "" if it has none."""
        at = int(np.searchsorted(self.numbers, number))
        known = at < len(self.numbers) and self.numbers[at] == number
        return self.strings[at] if known else ""


class TransactionBegins(NamedTuple):
    """The positions (file and offset) at which the transactions of a chunk begin, with their ids."""

    file: int
    offsets: Longs
    tx: TransactionIds
    csn: TransactionIds


@dataclass(slots=True)
class TransactionStatistics:
    """The index's counts of transactions by size (bins of powers of two) and by duration, and the longest transactions."""

    count: int = 0
    sizes: Longs = field(default_factory=lambda: np.zeros(SIZES, np.int64))
    durations: Longs = field(default_factory=lambda: np.zeros(len(DURATIONS) + 1, np.int64))
    by_operations: list[IndexedTransaction] = field(default_factory=list)
    by_duration: list[IndexedTransaction] = field(default_factory=list)
    open: IndexedTransaction | None = None

    def follow(self, begins: TransactionBegins, extents: TransactionExtents) -> None:
        """Count the transactions of a chunk except the last one, which is kept because it may continue in the next chunk."""
        counts = extents.operations

        def made(number: int) -> IndexedTransaction:
            begin = TrailPosition(begins.file, int(begins.offsets[number]))
            columns = (int(column[number]) for column in extents)
            return IndexedTransaction(begin, begins.tx.of(number), begins.csn.of(number), *columns)

        # transaction 0 continues the open one
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
        counted, durations = counts[complete], np.maximum(extents.last - extents.first, 0)[complete]
        # Only candidates for the lists of the longest become objects; the others are only counted.
        longest = {
            *_largest(counted, self.by_operations, "operations"),
            *_largest(durations, self.by_duration, "duration"),
        }
        self._add([made(int(complete[at])) for at in sorted(longest)], counted, durations)
        self.open = made(final) if counts[final] else None

    def finish(self, *, is_open: bool) -> None:
        """Count the last transaction that was followed, unless it is open (``is_open``)."""
        last = self.open
        if last is not None and not is_open:
            self._add([last], np.array([last.operations]), np.array([last.duration]))
            self.open = None

    def _add(self, ended: list[IndexedTransaction], sizes: Longs, durations: Longs) -> None:
        """Count ended transactions by their sizes and durations. ``ended`` are the candidates for the lists of the longest."""
        if not len(sizes):
            return
        self.count += len(sizes)
        # log2 gives the bin of a size: 1 → 0, 2 and 3 → 1, 4 to 7 → 2
        self.sizes += np.bincount(np.log2(sizes).astype(np.int64), minlength=SIZES)
        bins = np.searchsorted(DURATIONS, durations, "right")
        self.durations += np.bincount(bins, minlength=len(self.durations))
        for kept, measure in (
            (self.by_operations, attrgetter("operations")),
            (self.by_duration, attrgetter("duration")),
        ):
            kept[:] = sorted([*kept, *ended], key=measure, reverse=True)[:LONGEST]


def _largest(values: Longs, kept: list[IndexedTransaction], measure: str) -> list[int]:
    """Return the indexes of the sizes or durations that are large enough for ``kept``, a list of the longest transactions.

    ``measure`` is the attribute by which the list is sorted, such as "duration".
    """
    least = getattr(kept[-1], measure) if len(kept) == LONGEST else -1
    candidates = np.flatnonzero(values > least)
    if len(candidates) > LONGEST:
        candidates = candidates[np.argpartition(values[candidates], -LONGEST)[-LONGEST:]]
    rows: list[int] = candidates.tolist()
    return rows
