"""Counts over time whose range is not known before: a fixed number of bins, whose width doubles as often as needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.kernels import count_times

BINS: Final = 256
NARROWEST: Final = 1_000_000  # microseconds of a bin at first
BEFORE_ALL: Final = -(1 << 61)


class TimeHistogram:
    """Counts of several kinds in bins of time, in the same memory however many and however far apart they are.

    Bins begin at multiples of their width, so counts of two bins become those of one without knowing their values. With 4 bins of one second, a
    count at 00:00:09 after one at 00:00:00 gives bins of four seconds: 1, 0, 1, 0.
    """

    def __init__(self, kinds: int, bins: int = BINS) -> None:
        self.counts = np.zeros((kinds, bins), np.int64)
        self.width = NARROWEST
        self.first: int | None = None  # number of the first bin since 1970, in widths

    def add(self, times: Longs, kinds: Longs, bounds: tuple[int, int]) -> None:
        """Count times in microseconds, each of a kind, all within bounds; those of kind -1 are left out, and may be any."""
        self.fit(*bounds)
        _count(times, kinds, [self] * len(self.counts), self.counts.reshape(-1))

    def fit(self, low: int, high: int) -> None:
        """Widen or move the bins until they have both times, and what is counted already."""
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
            self.counts = np.roll(self.counts, self.first - begin, axis=1)
            self.first = begin

    def _double(self) -> None:
        self.width *= 2
        if self.first is None:
            return
        kinds, bins = self.counts.shape
        odd = self.first % 2
        padded = np.zeros((kinds, bins + 2), np.int64)
        padded[:, odd : odd + bins] = self.counts
        self.counts[:] = 0
        halved = padded.reshape(kinds, -1, 2).sum(axis=2)
        self.counts[:, : halved.shape[1]] = halved[:, :bins]
        self.first //= 2

    def used(self) -> tuple[int, Longs]:
        """Return when the first bin begins that is used, in microseconds, and the counts by kind from there to the last one."""
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is None or not len(used):
            return 0, self.counts[:, :0]
        return (self.first + int(used[0])) * self.width, self.counts[:, used[0] : used[-1] + 1]


def add_each(found: Sequence[TimeHistogram], times: Longs, slots: Longs) -> None:
    """Count times in histograms of one kind, which fit them; a time's slot is the index of its histogram, -1 for none."""
    if not found:
        return
    counts = np.zeros((len(found), found[0].counts.shape[1]), np.int64)
    _count(times, slots, found, counts.reshape(-1))
    for one, own in zip(found, counts, strict=True):
        one.counts[0] += own


def _count(times: Longs, slots: Longs, rows: Sequence[TimeHistogram], counts: Longs) -> None:
    """Add times to ``counts``, which has the bins of each slot's histogram in a row."""
    first = np.array([one.first or 0 for one in rows], np.int64)
    width = np.array([one.width for one in rows], np.int64)
    begins = np.full(len(rows), BEFORE_ALL, np.int64)
    bins = len(counts) // len(rows)
    count_times(times, slots, first, width, bins, begins, np.zeros_like(first), counts)
