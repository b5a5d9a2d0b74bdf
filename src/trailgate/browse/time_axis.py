"""Choose the labels of a time axis, at most eight round times from full seconds to years, and the times at which bars begin."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

LABELS: Final = 8  # the most labels of an axis
SECOND: Final = 1_000_000  # microseconds
HOUR: Final = 3600
DAY: Final = 24 * HOUR
STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)  # seconds
STEPS_OF_HOURS: Final = tuple(HOUR * hours for hours in (1, 2, 3, 6, 12, 24, 48, 24 * 7, 24 * 14))
MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600)
BAR_STEPS: Final = STEPS + STEPS_OF_HOURS[:-1]  # seconds; longer bars are months
MONDAY: Final = 4 * DAY  # the first Monday after 1970-01-01, which weeks are counted from


def round_times(begin: int, end: int) -> list[tuple[int, str]]:
    """Choose round times for the labels of a time axis between two times (microseconds since 1970, UTC).

    Both are years that a trail can have. A day is labelled as a date, a time of day as hours and minutes. The first label has the date too.
    """
    length = (end - begin) / SECOND
    for step in STEPS + STEPS_OF_HOURS:
        if length / step <= LABELS:
            return list(_labelled(_multiples(begin, end, step), step))
    months = next((one for one in MONTHS if length / (30 * DAY * one) <= LABELS), MONTHS[-1])
    return [
        (at, f"{moment:%Y}" if months >= 12 else f"{moment:%Y-%m}")
        for at, moment in _months(begin, end, months)
    ]


def bar_edges(begin: int, end: int, width: int, most: int) -> list[int]:
    """Choose the times at which a chart's bars begin (microseconds), and the end of the last bar.

    Bars are as short as possible, with at most ``most`` of them, and consist of whole bins of a
    ``TimeHistogram``, whose width is given: from a second to a month, or of some days if the bins
    are wider than a day.
    """
    # A bar is a whole number of bins, as counts within a bin cannot be divided.
    for step in BAR_STEPS:
        edges = _covering(begin, end, step)
        if step * SECOND % width == 0 and len(edges) - 1 <= most:
            return list(edges)
    # Months consist of whole days, so bins of at most a day fit into them.
    if DAY * SECOND % width == 0:
        first = _month(begin)
        last = _month(end - 1) + 1
        return [_microseconds(_first_day(number)) for number in range(first, last + 1)]
    while len(edges := range(begin // width * width, end + width, width)) - 1 > most:
        width *= 2
    return list(edges)


def _covering(begin: int, end: int, step: int) -> range:
    """Return the multiples of a step in seconds from the last one before a time to the first one after it."""
    origin, width = _origin(step), step * SECOND
    first = begin - (begin - origin) % width
    # ``-(x) % width`` is the distance up to the next multiple: for 7 and a width of 5 it is 3.
    return range(first, end + -(end - origin) % width + 1, width)


def _multiples(begin: int, end: int, step: int) -> list[int]:
    """Return the multiples of a step in seconds within a time."""
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
    """Return the time that the multiples of a step are counted from: those of weeks are Mondays."""
    return (MONDAY if step > DAY else 0) * SECOND


def _months(begin: int, end: int, months: int) -> Iterator[tuple[int, datetime]]:
    """Yield the first days of every ``months``-th month."""
    for number in range(-(-_month(begin) // months) * months, _month(end) + 1, months):
        moment = _first_day(number)
        at = _microseconds(moment)
        if begin <= at < end:
            yield at, moment


def _month(microseconds: int) -> int:
    """Return the number of a time's month, counted from the year 0."""
    moment = _moment(microseconds)
    return moment.year * 12 + moment.month - 1


def _first_day(month: int) -> datetime:
    return datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)


def _microseconds(moment: datetime) -> int:
    return round(moment.timestamp()) * SECOND


def _moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
