"""Choose the labels of a time axis: at most eight round times, from full seconds to years."""

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
MONDAY: Final = 4 * DAY  # the first Monday after 1970-01-01, which weeks are counted from


def round_times(begin: int, end: int) -> list[tuple[int, str]]:
    """Return round times between two times (microseconds since 1970, UTC), and their labels.

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


def _multiples(begin: int, end: int, step: int) -> list[int]:
    """Return the multiples of a step in seconds; steps of weeks begin on a Monday."""
    origin = (MONDAY if step > DAY else 0) * SECOND
    width = step * SECOND
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


def _months(begin: int, end: int, months: int) -> Iterator[tuple[int, datetime]]:
    """Yield the first days of every ``months``-th month."""
    moment = _moment(begin)
    number = -(-(moment.year * 12 + moment.month - 1) // months) * months
    while True:
        year, month = divmod(number, 12)
        moment = datetime(year, month + 1, 1, tzinfo=UTC)
        at = round(moment.timestamp()) * SECOND
        if at >= end:
            return
        if at >= begin:
            yield at, moment
        number += months


def _moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
