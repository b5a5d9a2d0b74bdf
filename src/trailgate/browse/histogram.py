"""Histograms over time whose range is not known in advance.

The number of bins is fixed. Whenever the times do not fit, the bins get the next width, which is a
multiple of the previous width, so that bins begin at full seconds, minutes, hours, days, months,
quarters or years.

Months are calendar months in UTC. They are numbered from January of the year 0, so that years begin
at multiples of 12.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.index_kernels import count_times

SECOND: Final = 1_000_000  # microseconds
HOUR: Final = 3600
DAY: Final = 24 * HOUR
FIRST_MONTH: Final = 1970 * 12  # the number of January 1970
LAST_DAY: Final = 48_000  # days since 1970, in 2101: after all times that are counted
BINS: Final = 1024
BEFORE_ALL: Final = -(1 << 61)


class BinWidth(NamedTuple):
    """The width of a bin or bar of time: a number of microseconds, or of calendar months."""

    length: int
    in_months: bool = False

    def number_of(self, time: int) -> int:
        """Return the number of the bin that a time is in. Bin 0 begins in 1970, or for months in the year 0."""
        return (month_of(time) if self.in_months else time) // self.length

    def begin_of(self, number: int) -> int:
        """Return the time at which the bin with a number begins."""
        first = number * self.length
        return to_microseconds(first_day(first)) if self.in_months else first

    def edges(self, first: int, bins: int) -> Longs:
        """Return the times at which consecutive bins begin, and the end of the last one."""
        numbers = np.arange(first, first + bins + 1) * self.length
        if not self.in_months:
            return numbers
        begins: Longs = (numbers - FIRST_MONTH).astype("M8[M]").astype("M8[us]").astype(np.int64)
        return begins

    def divides(self, other: BinWidth) -> bool:
        """Return whether the other width is a multiple of this one, so that bins can be combined."""
        if self.in_months != other.in_months:
            return not self.in_months and DAY * SECOND % self.length == 0
        return other.length % self.length == 0


# The widths of bins: each divides the next one, and a day. Longer bins are calendar months, quarters and years.
WIDTHS: Final = (
    *(
        BinWidth(seconds * SECOND)
        for seconds in (1, 5, 15, 60, 300, 900, HOUR, 3 * HOUR, 12 * HOUR, DAY)
    ),
    *(BinWidth(months, in_months=True) for months in (1, 3, 12)),
)


NEXT_WIDTHS: Final = dict(pairwise(WIDTHS))


def wider(width: BinWidth) -> BinWidth:
    """Return the next wider width of a histogram's bins: after years, twice the width."""
    return NEXT_WIDTHS.get(width) or BinWidth(2 * width.length, width.in_months)


def month_numbers(times: Longs) -> Longs:
    """Return the number of the calendar month of each time, for bins of months. It is only correct for times between 1970 and 2100."""
    found: Longs = np.take(_months_of_days(), times // (DAY * SECOND), mode="clip")
    return found


@cache
def _months_of_days() -> Longs:
    """Return the month number of each day from 1970-01-01 on."""
    return np.arange(LAST_DAY).astype("M8[D]").astype("M8[M]").astype(np.int64) + FIRST_MONTH


def month_of(microseconds: int) -> int:
    """Return the number of the calendar month that a time is in, counted from January of the year 0."""
    moment = to_moment(microseconds)
    return moment.year * 12 + moment.month - 1


def first_day(month: int) -> datetime:
    """Return the beginning of the calendar month with a number."""
    return datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)


def to_microseconds(moment: datetime) -> int:
    """Convert the time at which a bin or bar begins to microseconds since 1970."""
    return round(moment.timestamp()) * SECOND


def to_moment(microseconds: int) -> datetime:
    """Convert a time of a histogram, in microseconds since 1970, to a date and time in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


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
    """Count each time in one of several time histograms, which have only one operation type each.

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
