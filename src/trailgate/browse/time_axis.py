"""Choose the labels of a time axis, at most eight round times from full seconds to years, and the times at which bars begin.

Months are calendar months in UTC. They are numbered from January of the year 0, so that years begin
at multiples of 12.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs

LABELS: Final = 8  # the most labels of an axis
SECOND: Final = 1_000_000  # microseconds
HOUR: Final = 3600
DAY: Final = 24 * HOUR
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)  # seconds
STEPS_OF_HOURS: Final = tuple(HOUR * hours for hours in (1, 2, 3, 6, 12, 24, 48, 24 * 7, 24 * 14))
MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600)
BAR_STEPS: Final = STEPS + STEPS_OF_HOURS[:-1]  # seconds; longer bars are months
MONDAY: Final = 4 * DAY  # the first Monday after 1970-01-01, which weeks are counted from
FIRST_MONTH: Final = 1970 * 12  # the number of January 1970
LAST_DAY: Final = 48_000  # days since 1970, in 2101: after all times that are counted


class BinWidth(NamedTuple):
    """The width of a bin or bar of time: a number of microseconds, or of calendar months."""

    length: int
    in_months: bool = False

    def number_of(self, time: int) -> int:
        """Return the number of the bin that a time is in. Bin 0 begins in 1970, or for months in the year 0."""
        return (_month(time) if self.in_months else time) // self.length

    def begin_of(self, number: int) -> int:
        """Return the time at which the bin with a number begins."""
        first = number * self.length
        return _microseconds(_first_day(first)) if self.in_months else first

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
    """Return the month number of each time. It is only correct for times between 1970 and 2100."""
    found: Longs = np.take(_months_of_days(), times // (DAY * SECOND), mode="clip")
    return found


@cache
def _months_of_days() -> Longs:
    """Return the month number of each day from 1970-01-01 on."""
    return np.arange(LAST_DAY).astype("M8[D]").astype("M8[M]").astype(np.int64) + FIRST_MONTH


def round_times(begin: int, end: int) -> list[tuple[int, str]]:
    """Choose round times for the labels of a time axis between two times (microseconds since 1970, UTC).

    Labels are times of day such as 12:30 (with seconds if they are less than a minute apart), dates
    at midnights, or months or years on a long axis. The first time of day has the date too.
    """
    length = (end - begin) / SECOND
    for step in STEPS + STEPS_OF_HOURS:
        if length / step <= LABELS:
            return list(_labelled(_multiples(begin, end, step), step))
    # 30 days a month are close enough, since LABELS is only the number that is readable.
    months = next((one for one in MONTHS if length / (30 * DAY * one) <= LABELS), MONTHS[-1])
    return [
        (at, f"{moment:%Y}" if months >= 12 else f"{moment:%Y-%m}")
        for at, moment in _months(begin, end, months)
    ]


def bar_edges(begin: int, end: int, width: BinWidth, most: int) -> list[int]:
    """Choose the times at which a chart's bars begin (microseconds), and the end of the last bar.

    Bars are as short as possible, but there are at most ``most``. A bar is from a second to a week
    long, or it is a calendar month, a quarter, or one or more years. It consists of complete bins
    of a ``TimeHistogram`` whose bins have the given ``width``.
    """
    # A bar is a whole number of bins, as counts within a bin cannot be divided.
    for step in BAR_STEPS:
        edges = _covering(begin, end, step)
        if width.divides(BinWidth(step * SECOND)) and len(edges) - 1 <= most:
            return list(edges)
    bar = BinWidth(1, in_months=True)
    while True:
        first, last = bar.number_of(begin), bar.number_of(end - 1)
        if width.divides(bar) and last - first < most:
            begins: list[int] = bar.edges(first, last - first + 1).tolist()
            return begins
        bar = wider(bar)


def _covering(begin: int, end: int, step: int) -> range:
    """Return the multiples of ``step`` seconds that cover a time range, as edges of a chart's bars.

    The first is at or before ``begin``, and the last at or after ``end`` (both in microseconds).
    """
    origin, width = _origin(step), step * SECOND
    first = begin - (begin - origin) % width
    # ``-(x) % width`` is the distance up to the next multiple: for 7 and a width of 5 it is 3.
    return range(first, end + -(end - origin) % width + 1, width)


def _multiples(begin: int, end: int, step: int) -> list[int]:
    """Return the multiples of ``step`` seconds within a time range, for labels (all in microseconds)."""
    origin, width = _origin(step), step * SECOND
    first = origin - (origin - begin) // width * width  # the double minus rounds up
    return list(range(first, end, width))


def _labelled(times: list[int], step: int) -> Iterator[tuple[int, str]]:
    of_day = "%H:%M:%S" if step < 60 else "%H:%M"
    for number, at in enumerate(times):
        moment = _moment(at)
        if step >= DAY:
            yield at, f"{moment:%Y-%m-%d}"
        elif at % (DAY * SECOND) == 0:
            yield at, f"{moment:%m-%d}"
        else:
            yield at, moment.strftime(of_day if number else f"%m-%d {of_day}")


def _origin(step: int) -> int:
    """Return the time (microseconds) from which the multiples of a step of a time axis are counted.

    For steps of more than a day it is a Monday, otherwise 1970-01-01.
    """
    return (MONDAY if step > DAY else 0) * SECOND


def _months(begin: int, end: int, months: int) -> Iterator[tuple[int, datetime]]:
    """Yield the beginning of every ``months``-th month within a time range, as microseconds and as a date."""
    for number in range(-(-_month(begin) // months) * months, _month(end) + 1, months):
        moment = _first_day(number)
        at = _microseconds(moment)
        if begin <= at < end:
            yield at, moment


def _month(microseconds: int) -> int:
    moment = _moment(microseconds)
    return moment.year * 12 + moment.month - 1


def _first_day(month: int) -> datetime:
    return datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND


def _moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
