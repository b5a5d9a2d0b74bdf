"""Counts over time whose range is not known before: a fixed number of bins, whose width doubles as often as needed."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs

BINS: Final = 256
NARROWEST: Final = 1_000_000  # microseconds of a bin at first


class TimeHistogram:
    """Counts of several kinds in bins of time, in the same memory however many and however far apart they are.

    Bins begin at multiples of their width, so counts of two bins become those of one without knowing their values. With 4 bins of one second, a
    count at 00:00:09 after one at 00:00:00 gives bins of four seconds: 1, 0, 1, 0.
    """

    def __init__(self, kinds: int, bins: int = BINS) -> None:
        self.counts = np.zeros((kinds, bins), np.int64)
        self.width = NARROWEST
        self.first: int | None = None  # number of the first bin since 1970, in widths

    def add(self, times: Longs, kinds: Longs) -> None:
        """Count times in microseconds, each of a kind."""
        if not len(times):
            return
        low, high = int(times.min()), int(times.max())
        if self.first is not None:
            low = min(low, self.first * self.width)
        self._fit(low, high)
        assert self.first is not None
        bins = times // self.width - self.first
        flat = kinds * self.counts.shape[1] + bins
        self.counts += np.bincount(flat, minlength=self.counts.size).reshape(self.counts.shape)

    def _fit(self, low: int, high: int) -> None:
        """Widen or move the bins until they have both times, and what is counted already."""
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
