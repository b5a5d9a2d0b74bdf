"""The loops that build text: from code pages, positions, times and numbers, and in lines of a given width."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Octets, Offsets
from trailgate.columnar.compiling import inner, kernel
from trailgate.columnar.kernels.words import SPARE, copy_value, last_mark, load8, store8

GAP = 2  # columns between two strings of a line
_BLANK: Final = 0x20
_WORD: Final = 8  # bytes
_BYTE: Final = np.uint64(0xFF)
_BYTES: Final = np.uint64(0x0101010101010101)
_NOT_ASCII: Final = np.uint64(0x8080808080808080)
_ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE_BYTE: Final = 1 << 32  # in ``characters``: multiplied by the number of a character's bytes
_MOST: Final = 4  # bytes of a character in UTF-8
NO_CHARACTER, NO_ROOM = -1, -2
JOINED, SPACED, BROKEN = 0, 1, 2  # before a string: nothing, a gap, or a line break

HALF: Final = (
    5  # digits per half of a number: 32-bit divisions are several times as fast as 64-bit ones
)
DIGITS: Final = 2 * HALF
LIMIT: Final = 10**HALF
ZERO: Final = ord("0")
POINT: Final = ord(".")
OUTSIDE: Final = -1
MOST: Final = 2**31 - 1  # Arrow's string offsets are int32
TEN: Final = np.uint32(10)

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
YEAR_1, YEAR_10000 = -62_135_596_800_000_000, 253_402_300_800_000_000
WHOLE: Final = 19  # characters up to the seconds
LONGEST: Final = 26  # with a point and six digits
DATE, CLOCK = 7, 12  # characters of YYYYDDD and HHMMSSffffff


@kernel(writes=("offsets", "out"))
def translate_rows(
    data: Octets,
    step: int,
    size: int,
    ascii_of: Octets,
    characters: Longs,
    blank: int,
    left: bool,
    right: bool,
    offsets: Offsets,
    out: Octets,
) -> int:
    """Decode rows of a single-byte code page to UTF-8, trimmed on the left or right. Return the size of the text in bytes.

    Row i is the ``size`` bytes from ``i * step`` on. ``ascii_of`` has the ASCII character of each
    byte, or 128 and more if it has none. ``characters`` has for each byte the UTF-8 bytes of its
    character, the first one lowest, plus ``ONE_BYTE`` times their number; 0 means that the byte has
    no character. ``blank`` is the byte of a blank. Returns NO_CHARACTER if a byte has no character,
    and NO_ROOM if ``out`` may be too short.
    """
    # Example: the EBCDIC row C1 C2 40 40, trimmed on the right. Its last eight bytes, XORed with blanks (40),
    # are 0 in the last two, so ``end`` becomes 2. Then up to eight bytes are translated at once; if all of
    # them are ASCII, they are one store ("AB"), otherwise each character is written with its bytes.
    spare, room, done = len(data) - _WORD, len(out) - SPARE, 0
    blanks = np.uint64(blank) * _BYTES
    offsets[0] = 0
    for row in range(len(offsets) - 1):
        begin, end = row * step, row * step + size
        if right:
            while end > begin and end >= _WORD:
                # The last eight bytes of the row. Bytes before its beginning are shifted out: they count as blank.
                before = np.uint64(8 * max(_WORD - (end - begin), 0))
                others = (load8(data, end - _WORD) ^ blanks) >> before << before
                if others:
                    end -= _WORD - 1 - (last_mark(others) >> 3)
                    break
                end = max(end - _WORD, begin)
            while end > begin and ascii_of[data[end - 1]] == _BLANK:
                end -= 1
        if left:
            while begin < end and ascii_of[data[begin]] == _BLANK:
                begin += 1
        for at in range(begin, end, _WORD):
            if done + _MOST * _WORD > room:
                return NO_ROOM
            count = min(_WORD, end - at)
            if at <= spare:
                word, text = load8(data, at), np.uint64(0)
                if count < _WORD:
                    # Replace the bytes after the row with blanks, so that they do not count as non-ASCII.
                    others = _ALL << np.uint64(8 * count)
                    word = word & ~others | blanks & others
                for byte in range(_WORD):
                    shift = np.uint64(8 * byte)
                    text |= np.uint64(ascii_of[word >> shift & _BYTE]) << shift
                if not text & _NOT_ASCII:
                    store8(out, done, text)
                    done += count
                    continue
            for place in range(at, at + count):
                character = characters[data[place]]
                if character < ONE_BYTE:
                    return NO_CHARACTER
                for _ in range(character // ONE_BYTE):
                    out[done] = character & 0xFF
                    character >>= 8
                    done += 1
        offsets[row + 1] = done
    return done


@kernel(writes=("sizes",))
def measure_ascii(data: Octets, offsets: Offsets, sizes: Longs) -> int:
    """Write the number of characters of each text, or -1 if it is not printable ASCII.

    Returns the number of texts that are not printable ASCII.
    """
    others = 0
    for row in range(len(sizes)):
        size = offsets[row + 1] - offsets[row]
        for place in range(offsets[row], offsets[row + 1]):
            if data[place] < 32 or data[place] > 126:
                size = -1
                break
        sizes[row] = size
        others += size < 0
    return others


@kernel(writes=("before", "trimmed", "fits"))
def flow_strings(
    sizes: Longs,
    starts: Longs,
    width: int,
    indent: int,
    before: Octets,
    trimmed: Octets,
    fits: Octets,
) -> int:
    """Lay out each row's strings in lines of ``width``, of which ``indent`` are used before the first string of a line.

    Returns the number of rows that do not fit. Row r has the strings starts[r] to starts[r + 1] -
    1, with their widths in ``sizes``. For each string, ``before`` becomes its separator from the
    string before it: ``JOINED`` (none), ``SPACED`` or ``BROKEN`` (a new line). ``trimmed`` marks
    the string that ends a row's first line. ``fits`` is 0 for a row that does not fit: a string is
    longer than a line, or its size is unknown (-1).
    """
    # Example: strings of 4, 5 and 6 columns, width 12, no indent: the second one is SPACED (4 + 2 + 5 = 11),
    # the third one BROKEN (11 + 2 + 6 exceeds 12), so the second one ends the first line.
    wrong = 0
    for row in range(len(fits)):
        used = indent
        begun = False
        first = True
        fits[row] = 1
        for part in range(starts[row], starts[row + 1]):
            size = sizes[part]
            before[part] = JOINED
            if begun and used + GAP + size > width:
                before[part] = BROKEN
                used = indent
                if first:
                    trimmed[part - 1] = 1
                first = False
            elif begun:
                before[part] = SPACED
                used += GAP
            if size < 0 or used + size > width:
                fits[row] = 0
                wrong += 1
                break
            used += size
            begun = True
        if begun and first:
            trimmed[starts[row + 1] - 1] = 1
    return wrong


@inner
def _write_number(number: int, strings: Octets, place: int) -> None:
    """Write a number of a trail position as ten digits."""
    # Two halves of five digits: 32-bit divisions are faster than 64-bit ones. Both halves are
    # written in one loop, so that the processor can overlap them.
    upper = np.uint32(np.uint64(number) // np.uint64(LIMIT))
    lower = np.uint32(np.uint64(number) - np.uint64(upper) * np.uint64(LIMIT))
    for digit in range(HALF - 1, -1, -1):
        rest = upper // TEN
        strings[place + digit] = ZERO + upper - rest * TEN
        upper = rest
        rest = lower // TEN
        strings[place + HALF + digit] = ZERO + lower - rest * TEN
        lower = rest


@kernel(writes=("strings",))
def write_positions(numbers: Longs, offsets: Longs, strings: Octets) -> int:
    """Write trail positions: file number and offset as ten digits each. Return the first row in which one has more digits, or -1."""
    for row in range(len(numbers)):
        number, offset = numbers[row], offsets[row]
        if min(number, offset) < 0 or max(number, offset) >= LIMIT * LIMIT:
            return row
        place = 2 * DIGITS * row
        # The rows of one file have the same number: copy its digits from the row before.
        if row and number == numbers[row - 1]:
            for digit in range(DIGITS):
                strings[place + digit] = strings[place + digit - 2 * DIGITS]
        else:
            _write_number(number, strings, place)
        _write_number(offset, strings, place + DIGITS)
    return -1


@kernel(writes=("placed", "out"))
def append_numbers(
    data: Octets, offsets: Offsets, numbers: Longs, placed: Offsets, out: Octets
) -> int:
    """Copy each string, and append a dot and a number of ten digits. Return the total size, or ``OUTSIDE``.

    ``placed`` becomes the offsets, with one item more than strings. ``out`` has ``SPARE`` more
    bytes than the result.
    """
    # Example: the strings A and BC with the numbers 7 and 12 become A.0000000007BC.0000000012, and
    # placed = 0 12 25.
    to = np.int64(0)
    placed[0] = 0
    for row in range(len(numbers)):
        start = np.int64(offsets[row])
        size = np.int64(offsets[row + 1]) - start
        last = to + size + 1 + DIGITS
        if start < 0 or size < 0 or start + size > len(data) or last > min(len(out) - SPARE, MOST):
            return OUTSIDE
        copy_value(data, start, size, out, to)
        out[to + size] = POINT
        _write_number(numbers[row], out, to + size + 1)
        to = last
        placed[row + 1] = to
    return int(to)


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
