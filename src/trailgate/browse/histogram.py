"""Histograms over time whose range is not known in advance.

The number of bins is fixed. Whenever the times do not fit, the bins get the next width, each a
multiple of the one before, so that bins begin at full seconds, minutes, hours or days.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.kernels import count_times

BINS: Final = 1024
NARROWEST: Final = 1_000_000  # the initial width of a bin in microseconds
DAY: Final = 24 * 3600 * NARROWEST
# The widths up to a day, in seconds: each divides the next one. Wider bins are 2, 4, 8 and so on days.
WIDTHS: Final = (1, 5, 15, 60, 300, 900, 3600, 3 * 3600, 12 * 3600, 24 * 3600)
BEFORE_ALL: Final = -(1 << 61)


class TimeHistogram:
    """Counts of several operation types in bins of time, in constant memory.

    Bins start at multiples of their width, so when the width grows, neighbouring bins are added up
    and no value has to be known. With 4 bins of one second, a count at 00:00:09 after one at
    00:00:00 leads to bins of five seconds: 1, 1, 0, 0.
    """

    def __init__(self, kinds: int, bins: int = BINS) -> None:
        self.counts = np.zeros((kinds, bins), np.int64)
        self.width = NARROWEST
        self.first: int | None = None  # the start of the first bin, divided by the width

    def add(self, times: Longs, kinds: Longs, bounds: tuple[int, int]) -> None:
        """Count operations in the bins of their times (microseconds), which are all within ``bounds``.

        Type -1 is skipped, with any time.
        """
        self.fit(*bounds)
        _count(times, kinds, [self] * len(self.counts), self.counts.reshape(-1))

    def fit(self, low: int, high: int) -> None:
        """Widen or move the time bins until they contain both times and all earlier counts."""
        if self.first is not None:
            low = min(low, self.first * self.width)
        bins = self.counts.shape[1]
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is not None and len(used):
            high = max(high, (self.first + int(used[-1])) * self.width)
        while high // self.width - low // self.width >= bins:
            self._widen()
        begin = low // self.width
        if self.first is None or not len(used):
            self.first = begin
        elif begin < self.first:
            # Free bins at the end become the first ones. There are enough, because all bins in use
            # and the new first one fit after the widening above.
            self.counts = np.roll(self.counts, self.first - begin, axis=1)
            self.first = begin

    def _widen(self) -> None:
        """Give the bins the next width."""
        wider = next(
            (one * NARROWEST for one in WIDTHS if one * NARROWEST > self.width), 2 * self.width
        )
        together = wider // self.width
        self.width = wider
        if self.first is None:
            return
        kinds, bins = self.counts.shape
        # Bins are added up in groups that begin at a multiple of ``together``. Empty bins before
        # the first one and after the last one complete their groups.
        before = self.first % together
        padded = np.pad(self.counts, ((0, 0), (before, -(before + bins) % together)))
        sums = padded.reshape(kinds, -1, together).sum(axis=2)[:, :bins]
        self.counts[:] = 0
        self.counts[:, : sums.shape[1]] = sums
        self.first //= together

    def filled_bins(self) -> tuple[int, Longs]:
        """Return the start of the first non-empty bin, and the counts by type up to the last non-empty bin."""
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is None or not len(used):
            return 0, self.counts[:, :0]
        return (self.first + int(used[0])) * self.width, self.counts[:, used[0] : used[-1] + 1]


def empty_runs(counts: Longs) -> list[tuple[int, int]]:
    """Return the runs of empty bins between bins in use, as (first, end) with ``end`` excluded.

    ``counts`` has one row for each type.
    """
    bins = np.flatnonzero(counts.any(axis=0))
    # Example: the used bins 2, 3, 7 have one gap, after index 1: the run of bins 4 to 6, which is (4, 7).
    at = np.flatnonzero(np.diff(bins) > 1)
    return list(zip((bins[at] + 1).tolist(), bins[at + 1].tolist(), strict=True))


def add_each(histograms: Sequence[TimeHistogram], times: Longs, slots: Longs) -> None:
    """Count times in several histograms, all of one operation type, which already fit the times.

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
