"""Histograms over time whose range is not known in advance.

The number of bins is fixed. Whenever the times do not fit, the bins get the next width, which is a
multiple of the previous width, so that bins begin at full seconds, minutes, hours, days, months,
quarters or years.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.kernels import count_times
from trailgate.browse.time_axis import WIDTHS, month_numbers, wider

BINS: Final = 1024
BEFORE_ALL: Final = -(1 << 61)


class TimeHistogram:
    """Counts of several operation types in bins of time, in constant memory.

    ``counts`` has a row for each type and a column for each bin. Bins start at multiples of their
    width, so when the width grows, neighbouring bins are added up, and the single times need not be
    stored. With 4 bins of one second, a count at 00:00:09 after one at 00:00:00 leads to bins of
    five seconds: 1, 1, 0, 0.
    """

    def __init__(self, kinds: int, bins: int = BINS) -> None:
        self.counts = np.zeros((kinds, bins), np.int64)
        self.width = WIDTHS[0]
        self.first: int | None = None  # the number of the first bin: its start divided by the width

    def add(self, times: Longs, kinds: Longs, bounds: tuple[int, int]) -> None:
        """Count operations in the bins of their times (microseconds), all of which are within ``bounds``.

        Operations of type -1 are skipped, whatever their time.
        """
        self.fit(*bounds)
        _count(times, kinds, [self] * len(self.counts), self.counts.reshape(-1))

    def fit(self, low: int, high: int) -> None:
        """Widen or move the bins until they can count both times (microseconds) too, and still have all counts."""
        bins = self.counts.shape[1]
        number_of = self.width.number_of
        if (
            self.first is not None
            and self.first <= number_of(low) <= number_of(high) < self.first + bins
        ):
            return
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is not None and len(used):
            low = min(low, self.width.begin_of(self.first))
            high = max(high, self.width.begin_of(self.first + int(used[-1])))
        while self.width.number_of(high) - self.width.number_of(low) >= bins:
            self._widen()
        begin = self.width.number_of(low)
        if self.first is None or not len(used):
            self.first = begin
        elif begin < self.first:
            # Free bins at the end become the first ones. There are enough, because all bins in use
            # and the new first one fit after the widening above.
            self.counts = np.roll(self.counts, self.first - begin, axis=1)
            self.first = begin

    def _widen(self) -> None:
        """Change the histogram's bins to the next width, and add up their counts."""
        before, self.width = self.width, wider(self.width)
        if self.first is None:
            return
        bins = self.counts.shape[1]
        begins = before.edges(self.first, bins)[:-1]
        numbers = month_numbers(begins) if self.width.in_months else begins
        numbers = numbers // self.width.length
        # Example: the days 30, 31 of January and 1, 2 of February have the months 0, 0, 1, 1, so sums
        # of columns begin at the indexes 0 and 2.
        sums = np.add.reduceat(self.counts, np.flatnonzero(np.diff(numbers, prepend=-1)), axis=1)
        self.counts[:] = 0
        self.counts[:, : sums.shape[1]] = sums
        self.first = int(numbers[0])

    def filled_bins(self) -> tuple[Longs, Longs]:
        """Return the times at which the histogram's bins begin and the last one ends, and the counts by type.

        Empty bins at both ends are omitted.
        """
        used = np.flatnonzero(self.counts.any(axis=0))
        if self.first is None or not len(used):
            return np.zeros(1, np.int64), self.counts[:, :0]
        begin, end = int(used[0]), int(used[-1]) + 1
        return self.width.edges(self.first + begin, end - begin), self.counts[:, begin:end]


def empty_runs(counts: Longs) -> list[tuple[int, int]]:
    """Return the runs of empty bins of a histogram between bins in use, as (first, end) with ``end`` excluded.

    ``counts`` has one row for each type.
    """
    bins = np.flatnonzero(counts.any(axis=0))
    # Example: the used bins 2, 3, 7 have one gap, after index 1: the run of bins 4 to 6, which is (4, 7).
    at = np.flatnonzero(np.diff(bins) > 1)
    return list(zip((bins[at] + 1).tolist(), bins[at + 1].tolist(), strict=True))


def add_each(histograms: Sequence[TimeHistogram], times: Longs, slots: Longs) -> None:
    """Count each time in one of several histograms, which have only one operation type each.

    ``slots`` has the index of each time's histogram, or -1 to skip the time. The bins of the
    histograms must already cover the times (``fit``).
    """
    if not histograms:
        return
    counts = np.zeros((len(histograms), histograms[0].counts.shape[1]), np.int64)
    _count(times, slots, histograms, counts.reshape(-1))
    for one, row in zip(histograms, counts, strict=True):
        one.counts[0] += row


def _count(times: Longs, slots: Longs, rows: Sequence[TimeHistogram], counts: Longs) -> None:
    """Count times in the bins of histograms: in ``counts``, a flat table with one row of bins for each slot.

    ``rows[s]`` is the histogram that defines the bins of slot s.
    """
    first = np.array([one.first or 0 for one in rows], np.int64)
    width = np.array([one.width.length for one in rows], np.int64)
    begins, places = np.full(len(rows), BEFORE_ALL, np.int64), np.zeros_like(first)
    bins = len(counts) // len(rows)
    parts = [(times, slots)]
    if any(in_months := [one.width.in_months for one in rows]):
        monthly = np.array([*in_months, False])[slots]  # the last element is for slot -1
        parts = [
            (times, np.where(monthly, -1, slots)),
            (month_numbers(times), np.where(monthly, slots, -1)),
        ]
    for numbers, own in parts:
        count_times(numbers, own, first, width, bins, begins, places, counts)
