"""Histograms over time whose range is not known in advance.

The number of bins is fixed. Their width doubles whenever the times do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.kernels import count_times

BINS: Final = 256
NARROWEST: Final = 1_000_000  # the initial width of a bin in microseconds
BEFORE_ALL: Final = -(1 << 61)


class TimeHistogram:
    """Counts of several operation types in bins of time, in constant memory.

    Bins start at multiples of their width, so when the width doubles, pairs of bins are added up
    and no value has to be known. With 4 bins of one second, a count at 00:00:09 after one at
    00:00:00 leads to bins of four seconds: 1, 0, 1, 0.
    """

    def __init__(self, kinds: int, bins: int = BINS) -> None:
        self.counts = np.zeros((kinds, bins), np.int64)
        self.width = NARROWEST
        self.first: int | None = None  # the start of the first bin, divided by the width

    def add(self, times: Longs, kinds: Longs, bounds: tuple[int, int]) -> None:
        """Count times (microseconds), all within ``bounds``, each for a type.

        Type -1 is skipped, with any time.
        """
        self.fit(*bounds)
        _count(times, kinds, [self] * len(self.counts), self.counts.reshape(-1))

    def fit(self, low: int, high: int) -> None:
        """Widen or move the bins until they contain both times and all earlier counts."""
        if self.first is not None:
            low = min(low, self.first * self.width)
        bins = self.counts.shape[1]
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is not None and len(used):
            high = max(high, (self.first + int(used[-1])) * self.width)
        while high // self.width - low // self.width >= bins:
            self._double()
        begin = low // self.width
        if self.first is None or not len(used):
            self.first = begin
        elif begin < self.first:
            # Free bins at the end become the first ones. There are enough, because all bins in use
            # and the new first one fit after the doubling above.
            self.counts = np.roll(self.counts, self.first - begin, axis=1)
            self.first = begin

    def _double(self) -> None:
        self.width *= 2
        if self.first is None:
            return
        kinds, bins = self.counts.shape
        # A pair is two bins of which the first has an even number. If the first bin is odd, an
        # empty bin before it completes its pair.
        odd = self.first % 2
        padded = np.zeros((kinds, bins + 2), np.int64)
        padded[:, odd : odd + bins] = self.counts
        self.counts[:] = 0
        halved = padded.reshape(kinds, -1, 2).sum(axis=2)
        self.counts[:, : halved.shape[1]] = halved[:, :bins]
        self.first //= 2

    def filled_bins(self) -> tuple[int, Longs]:
        """Return the start of the first non-empty bin, and the counts by type up to the last non-empty bin."""
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is None or not len(used):
            return 0, self.counts[:, :0]
        return (self.first + int(used[0])) * self.width, self.counts[:, used[0] : used[-1] + 1]


def empty_runs(counts: Longs) -> list[tuple[int, int]]:
    """Return the runs of empty bins between bins in use: the first bin and the one after the last.

    ``counts`` has one row for each type.
    """
    bins = np.flatnonzero(counts.any(axis=0))
    # Example: the used bins 2, 3, 7 have one gap, after index 1: the run of bins 4 to 6, which is (4, 7).
    at = np.flatnonzero(np.diff(bins) > 1)
    return list(zip((bins[at] + 1).tolist(), bins[at + 1].tolist(), strict=True))


def add_each(histograms: Sequence[TimeHistogram], times: Longs, slots: Longs) -> None:
    """Count times in several histograms of one type, which already fit them.

    A time's slot is the index of its histogram, or -1.
    """
    if not histograms:
        return
    counts = np.zeros((len(histograms), histograms[0].counts.shape[1]), np.int64)
    _count(times, slots, histograms, counts.reshape(-1))
    for one, row in zip(histograms, counts, strict=True):
        one.counts[0] += row


def _count(times: Longs, slots: Longs, rows: Sequence[TimeHistogram], counts: Longs) -> None:
    """Add times to ``counts``, which has one row of bins for each slot."""
    first = np.array([one.first or 0 for one in rows], np.int64)
    width = np.array([one.width for one in rows], np.int64)
    begins = np.full(len(rows), BEFORE_ALL, np.int64)
    bins = len(counts) // len(rows)
    count_times(times, slots, first, width, bins, begins, np.zeros_like(first), counts)
