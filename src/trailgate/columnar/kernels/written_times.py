"""Loops that write date times as text: in ISO form, or with other marks, and as days and times of day.

Times are microseconds since 1970 UTC. Days are counted from 1 March, so that a leap day is the last
day of a year (``civil``, ``since_march``).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
WHOLE: Final = 19  # characters up to the seconds
LONGEST: Final = 26  # with a point and six digits
DATE, CLOCK = 7, 12  # characters of YYYYDDD and HHMMSSffffff
ZERO: Final = ord("0")


@kernel(writes=("offsets", "out"))
def write_times(micros: Longs, marks: Octets, trimmed: bool, offsets: Offsets, out: Octets) -> int:
    """Write YYYY-MM-DD?HH?MI?SS?ffffff for each time. Return the first row outside the years 1 to 9999, or -1.

    ``marks`` are the characters before hours, minutes, seconds and the fraction. With ``trimmed``,
    a fraction of zeros is omitted. ``out`` has ``LONGEST`` bytes per row.
    """
    to = np.int64(0)
    offsets[0] = 0
    for row in range(len(micros)):
        value = micros[row]
        if value < YEAR_1 or value >= YEAR_10000:
            return row
        # Operations of one transaction have the same time: copy the text of the row before.
        if row and value == micros[row - 1]:
            size = to - np.int64(offsets[row - 1])
            for at in range(size):
                out[to + at] = out[to + at - size]
        else:
            size = write_time(value, marks, trimmed, out, to)
        to += size
        offsets[row + 1] = to
    return -1


@kernel(writes=("dates", "clocks"))
def write_ordinals(micros: Longs, dates: Octets, clocks: Octets) -> int:
    """Write YYYYDDD and HHMMSSffffff for each time. Return the first row outside the years 1 to 9999, or -1.

    ``dates`` has ``DATE`` bytes per row, and ``clocks`` has ``CLOCK``.
    """
    for row in range(len(micros)):
        value = micros[row]
        if value < YEAR_1 or value >= YEAR_10000:
            return row
        # As in the row before.
        if row and value == micros[row - 1]:
            for at in range(DATE):
                dates[row * DATE + at] = dates[row * DATE + at - DATE]
            for at in range(CLOCK):
                clocks[row * CLOCK + at] = clocks[row * CLOCK + at - CLOCK]
            continue
        days = value // DAY
        year, _, _ = civil(days)
        # The day of the year counts from 1: 2024-03-01 is day 31 + 29 + 1 = 61.
        first = since_march(year, 1, 1)
        digits(year, dates, row * DATE, 4)
        digits(days - first + 1, dates, row * DATE + 4, 3)
        rest = value - days * DAY
        seconds = rest // SECOND
        digits(seconds // 3600, clocks, row * CLOCK, 2)
        digits(seconds // 60 % 60, clocks, row * CLOCK + 2, 2)
        digits(seconds % 60, clocks, row * CLOCK + 4, 2)
        digits(rest - seconds * SECOND, clocks, row * CLOCK + 6, 6)
    return -1


@inner
def write_time(value: int, marks: Octets, trimmed: bool, out: Octets, to: int) -> int:
    """Write the text of one time in the form of ``write_times``. Return its size."""
    # // rounds down, so the rest is positive before 1970 too: -1 microsecond is day -1, and
    # 23:59:59.999999 of it.
    days = value // DAY
    rest = value - days * DAY
    seconds = rest // SECOND
    fraction = rest - seconds * SECOND
    year, month, day = civil(days)
    digits(year, out, to, 4)
    out[to + 4] = 45
    digits(month, out, to + 5, 2)
    out[to + 7] = 45
    digits(day, out, to + 8, 2)
    out[to + 10] = marks[0]
    digits(seconds // 3600, out, to + 11, 2)
    out[to + 13] = marks[1]
    digits(seconds // 60 % 60, out, to + 14, 2)
    out[to + 16] = marks[2]
    digits(seconds % 60, out, to + 17, 2)
    if trimmed and fraction == 0:
        return WHOLE
    out[to + WHOLE] = marks[3]
    digits(fraction, out, to + WHOLE + 1, 6)
    return LONGEST


@inner
def digits(number: int, out: Octets, to: int, width: int) -> None:
    """Write a part of a time as a number with ``width`` digits."""
    rest = np.uint32(number)
    for place in range(width - 1, -1, -1):
        quotient = rest // np.uint32(10)
        out[to + place] = ZERO + rest - quotient * np.uint32(10)
        rest = quotient


@inner
def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the proleptic Gregorian calendar for days since 1970."""
    # Years begin in March, so that the leap day is their last; an era has 400 of them.
    shifted = days + 719_468
    era = shifted // 146_097
    of_era = shifted - era * 146_097
    # Without the leap days before it, a day of the era is in year (day // 365): every 4 years there
    # is one, except every 100, but every 400.
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    # From March on the months have 31 30 31 30 31 days, and again: 153 days in five months.
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    after = 1 if month >= 10 else 0
    return year + era * 400 + after, month + 3 - 12 * after, day


@inner
def since_march(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date of the Gregorian calendar; the inverse of ``civil``."""
    past = 1 if month <= 2 else 0
    years = year - past
    # ``past`` moves January and February to the year before, so that a year begins in March and
    # ends with the leap day. 719,468 days are from 0000-03-01 to 1970-01-01.
    days = 365 * years + years // 4 - years // 100 + years // 400
    return days + (153 * (month + 12 * past - 3) + 2) // 5 + day - 1 - 719_468
