"""Build the charts of pages: operations over time, and transactions by size and by duration.

A time axis has at most eight labels at round times, from full seconds to years, and bars that begin
at round times and consist of complete bins of a histogram. Calendar months are those of UTC.
Templates draw a chart as SVG.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs
from trailgate.browse.histogram import (
    DAY,
    HOUR,
    SECOND,
    BinWidth,
    TimeHistogram,
    empty_runs,
    first_day,
    month_of,
    to_microseconds,
    to_moment,
    wider,
)
from trailgate.browse.index import KINDS
from trailgate.browse.pages import KIND_NAMES, UNITS, Link, iso_times, moment, time_text
from trailgate.browse.transactions import DURATIONS, SIZES
from trailgate.errors import count_noun

BARS: Final = 64  # the most bars of a chart
SCALE: Final = 1000  # the height of the highest bar on a logarithmic scale
GAP: Final = 3  # empty bars that are shaded
WIDTH: Final = 960  # the width of a chart, in its own units
HEIGHT: Final = 160  # its height
WIDEST: Final = 64  # the largest width of a bar
LABELS: Final = 8  # the most labels of an axis
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)  # seconds
STEPS_OF_HOURS: Final = tuple(HOUR * hours for hours in (1, 2, 3, 6, 12, 24, 48, 24 * 7, 24 * 14))
MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600)
# Two weeks, the last step, is for labels only: the next bars after a week are months.
BAR_STEPS: Final = STEPS + STEPS_OF_HOURS[:-1]  # seconds; longer bars are months
MONDAY: Final = 4 * DAY  # the first Monday after 1970-01-01, which weeks are counted from


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a chart: its slot on the axis (``left`` edge and width, ``step``), stacked parts, title, count and link."""

    left: float
    step: float
    parts: tuple[tuple[str, float, float], ...]  # class, top and height
    title: str
    count: int
    link: str = ""
    times: str = ""  # its begin and its end, for the script that adds local times

    @property
    def width(self) -> float:
        """The width of the bar, which is limited if a chart has few bars."""
        return min(max(self.step - 1, 1), WIDEST)

    @property
    def x(self) -> float:
        """The left edge of the chart's bar, which is centred in its slot."""
        return self.left + (self.step - self.width) / 2


class Tick(NamedTuple):
    """A label of a chart's axis. ``at`` is its distance from the left or the top, in percent of the axis.

    On a time axis, ``title`` is the complete time of the label, and ``times`` the same time for the
    script that adds local times (``iso_times``).
    """

    at: float
    label: str
    title: str = ""
    times: str = ""


class Gap(NamedTuple):
    """A period without operations in a chart. ``left`` and ``width`` are in percent of the axis."""

    left: float
    width: float
    title: str
    times: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A bar chart on a page: its description, bars, labels of both axes, and largest count."""

    label: str
    bars: tuple[Bar, ...]
    start: str = ""
    end: str = ""
    most: int = 0
    note: str = ""
    ticks: tuple[Tick, ...] = ()
    levels: tuple[Tick, ...] = ()
    gaps: tuple[Gap, ...] = ()


def time_chart(
    histogram: TimeHistogram,
    label: str,
    link: Link,
    within: tuple[int | None, int | None] = (None, None),
    **query: object,
) -> Chart:
    """Build the chart of operations over time, with bars stacked by operation type.

    Bars begin at round times. A bar links to the page of the operations in its time, limited to
    the times ``within`` (first and last microsecond).
    """
    earliest, latest = within
    bins, counts = histogram.filled_bins()
    if not counts.shape[1]:
        return Chart(label, ())
    edges = bar_edges(int(bins[0]), int(bins[-1]), histogram.width, BARS)
    # A bin belongs to the last bar that begins at or before it.
    counts = _sum_bins(counts, np.searchsorted(edges, bins[:-1], "right") - 1, len(edges) - 1)
    most = int(counts.sum(axis=0).max())
    classes = [f"k-{kind}" for kind in KINDS] if len(counts) > 1 else ["k-all"]
    bars = []
    first, last = edges[0], edges[-1]
    scale = WIDTH / (last - first)
    for (at, end), stack in zip(itertools.pairwise(edges), counts.T.tolist(), strict=True):
        if not sum(stack):
            continue
        named = [
            f"{count:,} {KIND_NAMES[kind]}"
            # A histogram without types has a single row, so the stack may be shorter than KINDS.
            for kind, count in zip(KINDS, stack, strict=False)
            if count and len(stack) > 1
        ]
        title = f"{_period(at, end)}: {count_noun(sum(stack), 'operation')}"
        times = {
            "from_time": time_text(at if earliest is None else max(at, earliest)),
            # The last microsecond of the bar, because the filter of the page includes its bounds.
            "to_time": time_text(end - 1 if latest is None else min(end - 1, latest)),
        }
        bars.append(
            Bar(
                left=(at - first) * scale,
                step=(end - at) * scale,
                parts=_stack_bars(classes, stack, most),
                title=", ".join([title, *named]),
                count=sum(stack),
                link=link("operations", **{**query, **times}),
                times=iso_times(at, end),
            )
        )
    return Chart(
        label,
        tuple(bars),
        moment(first) + " UTC",
        moment(last),
        most,
        ticks=tuple(
            Tick(round(100 * (at - first) / (last - first), 2), text, time_text(at), iso_times(at))
            for at, text in round_times(first, last)
        ),
        levels=tuple(Tick(round(100 - 100 * one / most, 2), f"{one:,}") for one in _levels(most)),
        gaps=tuple(_gaps(counts, edges)),
    )


def _levels(most: int) -> Iterable[int]:
    """Return at most four round counts up to ``most``, for the labels of a chart's vertical axis: 200, 400, 600 for 700."""
    step = next(
        one * 10**power
        for power in itertools.count()
        for one in (1, 2, 5)
        if most < 5 * one * 10**power
    )
    return range(step, most + 1, step)


def _gaps(counts: Longs, edges: list[int]) -> Iterator[Gap]:
    """Yield the gaps of a chart over time: the runs of at least ``GAP`` empty bars."""
    scale = WIDTH / (edges[-1] - edges[0])
    for first, last in empty_runs(counts):
        if last - first >= GAP:
            at, end = edges[first], edges[last]
            title = f"{_period(at, end)}: no operations"
            yield Gap((at - edges[0]) * scale, (end - at) * scale, title, iso_times(at, end))


def _period(begin: int, end: int) -> str:
    return f"{time_text(begin)} to {time_text(end)}"


def _sum_bins(counts: Longs, bar: Longs, bars: int) -> Longs:
    """Add up the bins of a histogram for each bar of a chart. ``bar`` has the number of each bin's bar."""
    sums = np.zeros((len(counts), bars), np.int64)
    # ``sums.T[bar] += counts.T`` would add only one of several bins of the same bar.
    np.add.at(sums.T, bar, counts.T)
    return sums


def _stack_bars(
    classes: list[str], counts: list[int], most: int
) -> tuple[tuple[str, float, float], ...]:
    parts, top = [], float(HEIGHT)
    for name, count in zip(classes, counts, strict=True):
        if count:
            # SVG's y axis points down, so the first part ends at the bottom
            height = HEIGHT * count / most
            top -= height
            parts.append((name, round(top, 2), round(height, 2)))
    return tuple(parts)


def size_chart(sizes: Longs) -> Chart:
    """Build the chart of transactions by number of operations: 1, 2 to 3, 4 to 7, and so on."""
    more = (f"{1 << at:,} to {(2 << at) - 1:,} operations" for at in range(1, SIZES))
    return _bin_chart("Transactions by operations", sizes, ["1 operation", *more])


def duration_chart(durations: Longs) -> Chart:
    """Build the chart of transactions by duration."""
    bounds = [_round_duration(one) for one in DURATIONS]
    between = (f"{one} to {two}" for one, two in itertools.pairwise(bounds))
    names = ["no time", *between, f"{bounds[-1]} or more"]
    return _bin_chart("Transactions by duration", durations, names)


def _round_duration(microseconds: int) -> str:
    """Format a duration as one number in the largest unit that divides it, such as "10 ms"."""
    size, unit = next(one for one in UNITS if microseconds % one[0] == 0)
    return f"{microseconds // size} {unit}"


def _bin_chart(label: str, counts: Longs, names: list[str]) -> Chart:
    """Build a chart of transactions with one bar for each bin, which ``names`` describe, up to the last that is not empty."""
    used: list[int] = np.flatnonzero(counts).tolist()
    if not used:
        return Chart(label, ())
    most, step = int(counts.max()), WIDTH / (used[-1] + 1)
    bars = []
    for at in used:
        count = int(counts[at])
        title = f"{names[at]}: {count_noun(count, 'transaction')}"
        # A logarithmic scale, because there are a few large transactions and very many small ones.
        # One is added because log(1) is 0: a bar of one transaction would have no height.
        height = round(SCALE * math.log(1 + count) / math.log(1 + most))
        parts = _stack_bars(["k-all"], [height], SCALE)
        bars.append(Bar(at * step, step, parts, title, count))
    # The powers of ten up to ``most``, of which at most five get a label: with ``most`` 250,000
    # there are six, and the step 2 leaves 1, 100 and 10,000.
    powers = [10**power for power in range(len(str(most)))]
    levels = tuple(
        Tick(round(100 - 100 * math.log(1 + one) / math.log(1 + most), 2), f"{one:,}")
        for one in powers[:: 1 + len(powers) // 5]
    )
    return Chart(
        label,
        tuple(bars),
        start=names[0],
        end=names[used[-1]],
        most=most,
        note=", on a logarithmic scale",
        levels=levels,
    )


def round_times(begin: int, end: int) -> list[tuple[int, str]]:
    """Choose round times for the labels of a chart's time axis between two times (microseconds since 1970, UTC).

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
        moment = to_moment(at)
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
    # The double minus rounds up, to the first multiple of ``months`` in or after that month.
    for number in range(-(-month_of(begin) // months) * months, month_of(end) + 1, months):
        moment = first_day(number)
        at = to_microseconds(moment)
        if begin <= at < end:
            yield at, moment
