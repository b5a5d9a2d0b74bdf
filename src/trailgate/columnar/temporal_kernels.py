"""Loops over columns of dates and times: parse text in a date format to microseconds or ISO text, and write times as text.

Times are microseconds since 1970 UTC.

A time with digits in pairs (``2024-02-03 10:20:30``) is read with three words of eight bytes. One
comparison with the layout's shape checks all its digits and separators, and the pairs are moved to
their offsets in ISO text without being converted to numbers. Other layouts are read part by part,
into ``part``: the numbers of year, month, day, hour, minute, second and fraction (in units of
10^-12).

To write a time, its day is converted to year, month and day (``civil``). Years are counted from
1 March, so that a leap day is the last day of a year.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from trailgate.arrays import Longs, Mask, Octets, Offsets, Words
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.word_kernels import load8, store8

ZERO: Final = ord("0")
# The parts of a time, as numbered in the fields of a layout. A fraction is in units of 10^-12.
YEAR, MONTH, DAY, HOUR, MINUTE, SECOND, FRACTION = range(7)
CUT: Final = 7  # after the parts: the first row with digits beyond microseconds, or -1
PARTS: Final = 8
LAYOUT: Final = 12  # numbers per layout
SHAPE: Final = 9  # words per layout
SHAPED: Final = 24  # bytes of a value that these words describe
SEVEN_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
SIXES: Final = np.uint64(0x0606060606060606)
THREES: Final = np.uint64(0x3030303030303030)
PIVOT: Final = 50  # two-digit years 00-49 are 20xx, 50-99 are 19xx (capture properties §4.1)
FRACTION_DIGITS: Final = 12
TEN: Final = np.uint64(10)
# Subtracting it from a byte gives more than 9 (as uint8) for anything but a digit.
DIGIT: Final = np.uint8(48)
STARTS: Final = 6  # index of the offset of the year in a layout's numbers; month to second follow
SECONDS: Final = 19  # characters of ISO text up to the seconds
TWO_BYTES, LOW_BITS, EIGHT = np.uint64(0xFFFF), np.uint64(15), np.uint64(8)
# The digits of parts that a layout lacks, in the form of ``pair_at``: those of 1970-01-01 00:00:00.
NINETEEN, SEVENTY = np.uint64(0x3931), np.uint64(0x3037)
ONE, NOUGHT = np.uint64(0x3130), np.uint64(0x3030)
# The separators of ISO text, in little-endian words of eight bytes: YYYY-MM-, DD HH:MI, :SS.ffff
DATE_MARKS: Final = np.uint64(0x2D00002D00000000)
TIME_MARKS: Final = np.uint64(0x00003A0000200000)
LAST_MARKS: Final = np.uint64(0x303030302E00003A)

# For writing times.
MICROS_OF_SECOND: Final = 1_000_000
MICROS_OF_DAY: Final = 86_400 * MICROS_OF_SECOND
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
WHOLE: Final = 19  # characters up to the seconds
LONGEST: Final = 26  # with a point and six digits
DATE, CLOCK = 7, 12  # characters of YYYYDDD and HHMMSSffffff


class LayoutTables(NamedTuple):
    """The layouts of a date format as arrays, for the kernels that parse times.

    ``layouts`` has ``LAYOUT`` numbers per layout: its length; the first and the end index of its
    fields, then of its literals; the index of its first literal that allows only one byte; and the
    offsets of year, month, day, hour, minute and second in a value (-1 if it has none). ``fields``
    has four numbers per field: part, start, width, and 1 if it consists of letters. ``literals``
    has four numbers per literal: its offset, and the three bytes that are allowed there. ``shapes``
    has nine words per layout, for the first 24 bytes of a value: three words of a mask, three of
    the expected bytes under the mask, and three of a mask of the digits. They are all 0 if the
    layout does not consist of digit pairs.
    """

    layouts: Longs
    fields: Longs
    literals: Longs
    shapes: Words
    months: Octets


@kernel(writes=("part", "micros", "iso", "wrong"))
def read_times(
    data: Octets,
    offsets: Offsets,
    tables: LayoutTables,
    size: int,
    part: Longs,
    micros: Longs,
    iso: Octets,
    wrong: Mask,
) -> int:
    """Parse times of a date format. Return the first row that is not a time, or whose digits do not fit in the ISO text, or -1.

    A value is read by the first layout with the same length, digits, letters and literals. Blanks
    around a value are ignored. 24:00:00 is midnight of the next day. If ``size`` is not 0, ISO text
    of that many characters is written to ``iso``, which has ``SPARE`` more bytes. Otherwise
    microseconds since 1970 are written to ``micros``: digits beyond microseconds are dropped, and
    part[CUT] becomes the first row in which they are not zeros, or -1. ``part`` is working memory
    of ``PARTS`` numbers.

    ``wrong`` is empty, or has an item for each row: then bad rows are marked in it and skipped, and
    the result is -1.
    """
    # Example: 2024-02-03 10:20 and a layout with year 0, month 5, day 8, hour 11, minute 14, no second.
    # Its shape fits, so century = "20", years = "24", month = "02" and so on are words of two bytes, and
    # second = "00". ISO text of 19 characters is three stores (_ is a zero byte):
    #   DATE_MARKS "____-__-" | "2024" | "02" << 5 bytes  ->  "2024-02-"
    #   TIME_MARKS "__ __:__" | "03" | "10" << 3 bytes | "20" << 6 bytes  ->  "03 10:20"
    #   LAST_MARKS ":__.0000" | "00" << 1 byte  ->  ":00.0000", of which the next row overwrites ".0000"
    layouts, fields, literals, shapes, months = tables
    if 0 < len(wrong) < len(offsets) - 1:
        return 0
    part[CUT] = -1
    for row in range(len(offsets) - 1):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if begin < 0 or end > len(data):
            return row
        while begin < end and is_blank(data[begin]):
            begin += 1
        while end > begin and is_blank(data[end - 1]):
            end -= 1
        matches = paired = False
        which = 0
        for at in range(0, len(layouts), LAYOUT):
            if layouts[at] == end - begin:
                which, shape = at + STARTS, at // LAYOUT * SHAPE
                paired = shapes[shape] != 0 and begin + SHAPED + 8 <= len(data)
                if paired:
                    matches = has_shape(data, begin, shapes, shape) and has_literals(
                        data, begin, literals, layouts[at + 3], layouts[at + 5]
                    )
                else:
                    matches = has_literals(
                        data, begin, literals, layouts[at + 3], layouts[at + 4]
                    ) and read_parts(data, begin, layouts, at, fields, months, part)
                if matches:
                    break
        if not matches:
            if not len(wrong):
                return row
            wrong[row] = True
            continue
        if paired:
            century = pair_at(data, begin, layouts[which + YEAR], NINETEEN)
            years = pair_at(data, begin + 2, layouts[which + YEAR], SEVENTY)
            month = pair_at(data, begin, layouts[which + MONTH], ONE)
            day = pair_at(data, begin, layouts[which + DAY], ONE)
            hour = pair_at(data, begin, layouts[which + HOUR], NOUGHT)
            minute = pair_at(data, begin, layouts[which + MINUTE], NOUGHT)
            second = pair_at(data, begin, layouts[which + SECOND], NOUGHT)
            part[YEAR], part[MONTH] = 100 * read_pair(century) + read_pair(years), read_pair(month)
            part[DAY], part[HOUR] = read_pair(day), read_pair(hour)
            part[MINUTE], part[SECOND], part[FRACTION] = read_pair(minute), read_pair(second), 0
        if part[HOUR] == 24 and layouts[which + DAY] >= 0:
            paired = False
            carry_midnight(part)
        if not is_time(part):
            if not len(wrong):
                return row
            wrong[row] = True
            continue
        if size == 0:
            if part[FRACTION] % 1_000_000 and part[CUT] < 0:
                part[CUT] = row
            micros[row] = since_1970(part)
        elif paired and size >= SECONDS:
            to = row * size
            store8(iso, to, DATE_MARKS | century | shift_pair(years, 2) | shift_pair(month, 5))
            store8(iso, to + 8, TIME_MARKS | day | shift_pair(hour, 3) | shift_pair(minute, 6))
            store8(iso, to + 16, LAST_MARKS | shift_pair(second, 1))
            for at in range(to + 24, to + size):
                iso[at] = ZERO
        elif not write_iso(part, iso, row * size, size):
            if not len(wrong):
                return row
            wrong[row] = True
    return -1


@kernel(writes=("part", "micros"))
def read_iso(data: Octets, offsets: Offsets, width: int, part: Longs, micros: Longs) -> int:
    """Parse ISO strings, YYYY-MM-DD HH:MI:SS.fffffffff cut to ``width`` characters, to microseconds since 1970.

    Returns the first row that is not exactly such a string, or -1. ``part`` has room for seven
    numbers.
    """
    for row in range(len(offsets) - 1):
        begin, end = np.int64(offsets[row]), np.int64(offsets[row + 1])
        if begin < 0 or end > len(data) or end - begin != width:
            return row
        if not read_iso_parts(data, begin, width, part) or not is_time(part):
            return row
        micros[row] = since_1970(part)
    return -1


@inner
def read_iso_parts(data: Octets, begin: int, width: int, part: Longs) -> bool:
    """Store year, month and so on of an ISO string in ``part``. Return whether the string is valid.

    It must have exactly the form of ``width`` characters, and only zeros beyond microseconds.
    Whether the day and the time of day exist is not checked.
    """
    part[MONTH], part[DAY], part[HOUR], part[MINUTE], part[SECOND] = 1, 1, 0, 0, 0
    # Good lengths: 10 (2026-11-28), 19 (with 12:30:05 after a blank), and above 20 (with a point
    # and digits). 20 would be a point without digits.
    good = (
        (width == 10 or width == 19 or width > 20)
        and is_pair(data, begin)
        and is_pair(data, begin + 2)
    )
    if not good:
        return False
    part[YEAR] = 100 * read_two(data, begin) + read_two(data, begin + 2)
    # Month to second are three bytes apart, each after its separator: the month at 5, the day at 8,
    # the hour at 11. The separators are "-" before month and day, " " before the hour, else ":".
    for which in range(MONTH, SECOND + 1):
        at = 2 + 3 * which
        if at < width:
            before = 45 if which < HOUR else 32 if which == HOUR else 58
            good = good and data[begin + at - 1] == before and is_pair(data, begin + at)
            part[which] = read_two(data, begin + at)
    # The first six digits are microseconds. Fewer are filled with zeros: .5 becomes 500000. Further
    # digits have to be zeros. The fraction is kept in units of 10^-12, hence the last factor.
    number = np.int64(0)
    for at in range(20, min(width, 26)):
        digit = data[begin + at] - DIGIT
        good = good and digit < 10
        number = np.int64(number * 10 + digit)
    for _ in range(max(width, 20), 26):
        number *= 10
    for at in range(26, width):
        good = good and data[begin + at] == ZERO
    if width > 19:
        good = good and data[begin + 19] == 46
    part[FRACTION] = number * 1_000_000
    return bool(good)


@inner
def is_pair(data: Octets, at: int) -> bool:
    """Return whether the two bytes at an offset are digits, as in a part of a time."""
    return bool(data[at] - DIGIT < 10 and data[at + 1] - DIGIT < 10)


@inner
def is_blank(byte: int) -> bool:
    """Return whether a byte is a blank, tab or line end, which may surround a time."""
    return bool(byte == 32 or byte == 9 or byte == 13 or byte == 10)


@inner
def has_shape(data: Octets, begin: int, shapes: Words, shape: int) -> bool:
    """Return whether a value has the digits and one-byte literals of a date layout, comparing eight bytes at a time."""
    wrong = np.uint64(0)
    for word in range(SHAPED // 8):
        word_of_value = load8(data, begin + 8 * word)
        wrong |= (word_of_value & shapes[shape + word]) ^ shapes[shape + 3 + word]
        # A byte is a digit if its high half is 3, and still is after adding 6: 39 + 6 = 3F, 3A + 6 = 40.
        digits = shapes[shape + 6 + word]
        wrong |= ((word_of_value & SEVEN_BITS) + SIXES ^ THREES) & digits
    return wrong == 0


@inner
def has_literals(data: Octets, begin: int, literals: Longs, start: int, stop: int) -> bool:
    """Return whether a value has an allowed byte at each of the literals ``start`` to ``stop`` - 1."""
    for row in range(4 * start, 4 * stop, 4):
        byte = data[begin + literals[row]]
        if byte != literals[row + 1] and byte != literals[row + 2] and byte != literals[row + 3]:
            return False
    return True


@inner
def pair_at(data: Octets, begin: int, offset: int, otherwise: np.uint64) -> np.uint64:
    """Load the two digits at an offset of a time's text as bytes, the first one lowest. If the offset is -1, return ``otherwise``."""
    return load8(data, begin + offset) & TWO_BYTES if offset >= 0 else otherwise


@inner
def read_two(data: Octets, at: int) -> int:
    """Return the number of the two digits at an offset, such as the month of a time."""
    return 10 * (np.int64(data[at]) & 15) + (np.int64(data[at + 1]) & 15)


@inner
def read_pair(digits: np.uint64) -> int:
    """Return the number that the two lowest digits of a word form, such as the month or hour of a time."""
    return np.int64(TEN * (digits & LOW_BITS) + (digits >> EIGHT & LOW_BITS))


@inner
def shift_pair(digits: np.uint64, place: int) -> np.uint64:
    """Move the two digits of a part of a time to byte ``place`` of a word of ISO text."""
    return digits << np.uint64(8 * place)


@inner
def read_parts(
    data: Octets,
    begin: int,
    layouts: Longs,
    row: int,
    fields: Longs,
    months: Octets,
    part: Longs,
) -> bool:
    """Parse one date or time by a layout, and store its year, month and so on in ``part``.

    Return False if a field is neither digits nor, if the layout has one, the name of a month.
    """
    # Example: the fields of DD.MM.YY are (DAY, 0, 2), (MONTH, 3, 2), (YEAR, 6, 2), so "03.02.24" gives day 3,
    # month 2 and, with the pivot, year 2024. A fraction 123 of three digits becomes 123 * 10^9.
    part[YEAR], part[MONTH], part[DAY] = 1970, 1, 1
    part[HOUR] = part[MINUTE] = part[SECOND] = part[FRACTION] = 0
    for at in range(layouts[row + 1], layouts[row + 2]):
        good = True
        which, start, width = fields[4 * at], begin + fields[4 * at + 1], fields[4 * at + 2]
        number = np.int64(0)
        if fields[4 * at + 3]:
            number = np.int64(month_of(data, start, months))
            if number == 0:
                return False
        else:
            first, second = data[start] - DIGIT, data[start + width - 1] - DIGIT
            good = first < 10 and second < 10
            number = np.int64(first)
            for digit_at in range(start + 1, start + width - 1):
                digit = data[digit_at] - DIGIT
                good = good and digit < 10
                number = np.int64(number * 10 + digit)
            if width > 1:
                number = np.int64(number * 10 + second)
        if not good:
            return False
        if which == YEAR and width == 2:
            number += 2000 if number < PIVOT else 1900
        if which == FRACTION:
            for _ in range(width, FRACTION_DIGITS):
                number *= 10
        part[which] = number
    return True


@inner
def month_of(data: Octets, start: int, months: Octets) -> int:
    """Parse the three letters of a month in a date, in either case, to its number, or return 0."""
    for month in range(12):
        same = True
        for at in range(3):
            same = same and data[start + at] & 0xDF == months[3 * month + at]
        if same:
            return month + 1
    return 0


@inner
def is_time(part: Longs) -> bool:
    """Return whether the parts of a time are a valid day and time of day."""
    year, month, day = part[YEAR], part[MONTH], part[DAY]
    if year < 1 or month < 1 or month > 12 or day < 1 or day > 31:
        return False
    # Every month has at least 28 days, so only later days depend on the month.
    if day > 28:
        last = 31
        if month == 2:
            leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
            last = 29 if leap else 28
        elif month == 4 or month == 6 or month == 9 or month == 11:
            last = 30
        if day > last:
            return False
    return bool(part[HOUR] < 24 and part[MINUTE] < 60 and part[SECOND] < 60)


@inner
def carry_midnight(part: Longs) -> None:
    """Change 24:00:00 of a day to 00:00:00 of the next day. Other times with hour 24 stay, and are invalid.

    Db2's highest time of day is 24.00.00 and XML Schema's is 24:00:00; both define it in this way.
    9999-12-31 24:00:00 gets the year 0, which is invalid.
    """
    if part[MINUTE] or part[SECOND] or part[FRACTION]:
        return
    part[HOUR] = 0
    if not is_time(part):  # not a day of the calendar
        part[HOUR] = 24
        return
    # The next day is in the same month, or the first of the next month, or January 1. Example:
    # 2024-02-29 24:00:00 is 2024-03-01 00:00:00.
    part[DAY] += 1
    if is_time(part):
        return
    part[DAY] = 1
    part[MONTH] += 1
    if part[MONTH] > 12:
        part[MONTH] = 1
        part[YEAR] = part[YEAR] + 1 if part[YEAR] < 9999 else 0


@inner
def since_1970(part: Longs) -> int:
    """Convert the parts of a time to microseconds since 1970, in the proleptic Gregorian calendar."""
    # Days of a year that begins in March, so that the leap day is its last.
    past = 1 if part[MONTH] <= 2 else 0
    year = np.uint32(part[YEAR] - past)
    days = 365 * np.int64(year) + year // np.uint32(4) - year // np.uint32(100)
    days += np.int64(year // np.uint32(400))
    days += (153 * (part[MONTH] + 12 * past - 3) + 2) // 5 + part[DAY] - 1 - 719_468
    seconds = ((days * 24 + part[HOUR]) * 60 + part[MINUTE]) * 60 + part[SECOND]
    return int(seconds * 1_000_000 + part[FRACTION] // 1_000_000)


@inner
def write_iso(part: Longs, iso: Octets, to: int, size: int) -> bool:
    """Write the parts of a time as YYYY-MM-DD HH:MI:SS.ffffff, cut to ``size`` characters. Return whether nothing was lost.

    Nothing is lost if the cut parts are zeros, or 01 in a month or day.
    """
    year = np.uint32(part[YEAR])
    century = year // np.uint32(100)
    write_two(iso, to, century)
    write_two(iso, to + 2, year - century * np.uint32(100))
    for which in range(MONTH, SECOND + 1):
        at = 2 + 3 * which
        if at < size:
            iso[to + at - 1] = 45 if which < HOUR else 32 if which == HOUR else 58
            write_two(iso, to + at, part[which])
        # A part that is cut off loses nothing if it has its lowest value, as in 2026-11-01 00:00:00.
        elif part[which] != (1 if which < HOUR else 0):
            return False
    if size > 19:
        iso[to + 19] = 46
    rest = np.uint64(part[FRACTION])
    if rest == 0:
        for at in range(20, size):
            iso[to + at] = ZERO
        return True
    # From the last digit of the fraction to its first. Digits beyond ``size`` have to be zeros.
    for at in range(19 + FRACTION_DIGITS, 19, -1):
        digit = rest % TEN
        rest //= TEN
        if at < size:
            iso[to + at] = ZERO + digit
        elif digit:
            return False
    return True


@inner
def write_two(out: Octets, to: int, number: int) -> None:
    """Write a part of a time as two digits."""
    rest = np.uint32(number)
    tens = rest // np.uint32(10)
    out[to] = ZERO + tens
    out[to + 1] = ZERO + rest - tens * np.uint32(10)


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
        days = value // MICROS_OF_DAY
        year, _, _ = civil(days)
        # The day of the year counts from 1: 2024-03-01 is day 31 + 29 + 1 = 61.
        first = since_march(year, 1, 1)
        write_digits(year, dates, row * DATE, 4)
        write_digits(days - first + 1, dates, row * DATE + 4, 3)
        rest = value - days * MICROS_OF_DAY
        seconds = rest // MICROS_OF_SECOND
        write_digits(seconds // 3600, clocks, row * CLOCK, 2)
        write_digits(seconds // 60 % 60, clocks, row * CLOCK + 2, 2)
        write_digits(seconds % 60, clocks, row * CLOCK + 4, 2)
        write_digits(rest - seconds * MICROS_OF_SECOND, clocks, row * CLOCK + 6, 6)
    return -1


@inner
def write_time(value: int, marks: Octets, trimmed: bool, out: Octets, to: int) -> int:
    """Write the text of one time in the form of ``write_times``. Return its size."""
    # // rounds down, so the rest is positive before 1970 too: -1 microsecond is day -1, and
    # 23:59:59.999999 of it.
    days = value // MICROS_OF_DAY
    rest = value - days * MICROS_OF_DAY
    seconds = rest // MICROS_OF_SECOND
    fraction = rest - seconds * MICROS_OF_SECOND
    year, month, day = civil(days)
    write_digits(year, out, to, 4)
    out[to + 4] = 45
    write_digits(month, out, to + 5, 2)
    out[to + 7] = 45
    write_digits(day, out, to + 8, 2)
    out[to + 10] = marks[0]
    write_digits(seconds // 3600, out, to + 11, 2)
    out[to + 13] = marks[1]
    write_digits(seconds // 60 % 60, out, to + 14, 2)
    out[to + 16] = marks[2]
    write_digits(seconds % 60, out, to + 17, 2)
    if trimmed and fraction == 0:
        return WHOLE
    out[to + WHOLE] = marks[3]
    write_digits(fraction, out, to + WHOLE + 1, 6)
    return LONGEST


@inner
def write_digits(number: int, out: Octets, to: int, width: int) -> None:
    """Write a part of a time as a number with ``width`` digits."""
    rest = np.uint32(number)
    for place in range(width - 1, -1, -1):
        quotient = rest // np.uint32(10)
        out[to + place] = ZERO + rest - quotient * np.uint32(10)
        rest = quotient


@inner
def civil(days: int) -> tuple[int, int, int]:
    """Convert days since 1970 to year, month and day of the proleptic Gregorian calendar."""
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
    """Convert year, month and day to days since 1970: the inverse of ``civil``."""
    past = 1 if month <= 2 else 0
    years = year - past
    # ``past`` moves January and February to the year before, so that a year begins in March and
    # ends with the leap day. 719,468 days are from 0000-03-01 to 1970-01-01.
    days = 365 * years + years // 4 - years // 100 + years // 400
    return days + (153 * (month + 12 * past - 3) + 2) // 5 + day - 1 - 719_468
