"""Dates and times from text, whole columns at once: to ISO text, and to microseconds.

A group of values of one length is a byte matrix; each digit position is one line of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.datetime_formats import (
    DEFAULT_FORMAT,
    DateFormat,
    Layout,
    Part,
    compile_format,
)
from trailgate.columnar.numbers import parse_integers
from trailgate.columnar.rows import length_groups, over_nulls, row_error, strings_of, trimmed
from trailgate.errors import DecodeError, OptionError

__all__ = [
    "DEFAULT_FORMAT",
    "DateFormat",
    "compile_format",
    "iso_to_timestamp",
    "parse_datetimes",
    "parse_timestamps",
]


# Assumptions: the documentation leaves these open (capture properties §4.1, §13.6 and §13.11).
PIVOT: Final = 50  # two-digit years 00-49 are 20xx, 50-99 are 19xx
MISSING_YEAR: Final = b"1970"
MISSING_MONTH: Final = b"01"
MISSING_DAY: Final = b"01"
COMMIT_ZONE: Final = "UTC"  # commit times without a zone
# A time without a format is JMSTimestamp's form, milliseconds since 1970: 10 to 17 digits.
EPOCH_DIGITS: Final = (10, 17)
_LAST_MILLISECOND: Final = 253_402_300_799_999  # 9999-12-31 23:59:59.999

_ZERO: Final = ord("0")
_ISO: Final = np.frombuffer(b"0000-00-00 00:00:00.000000000", np.uint8)
# A value of these lengths ends with a whole part: year, month, day, hour, minute, second.
_WHOLE_WIDTHS: Final[tuple[int, ...]] = (4, 7, 10, 13, 16, 19, *range(21, 30))
_STARTS: Final = {
    Part.YEAR: 0,
    Part.MONTH: 5,
    Part.DAY: 8,
    Part.HOUR: 11,
    Part.MINUTE: 14,
    Part.SECOND: 17,
    Part.FRACTION: 20,
}
_DEFAULTS: Final = {Part.YEAR: MISSING_YEAR, Part.MONTH: MISSING_MONTH, Part.DAY: MISSING_DAY}
_MONTHS: Final = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
_MONTH_DAYS: Final = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.uint8)


class _Parts(NamedTuple):
    """The parts of a group of values: numbers, and digits as lines of a matrix."""

    numbers: dict[Part, npt.NDArray[np.int32]]
    fraction: Octets  # fraction digits (values 0 to 9) x rows
    good: Mask


def parse_datetimes(values: pa.StringArray, fmt: DateFormat, width: int) -> pa.StringArray:
    """Return ISO text, YYYY-MM-DD HH:MI:SS.ffffff, of the width (external length) given.

    Width 10 holds a date, 19 a time to the second, 20 + n one with n fraction digits (at most 9).
    Nulls stay null. Raises DecodeError, with the row as its record, for a value that does not
    match the format or has other than zeros where the width would cut it.
    """
    size = iso_width(width)

    def convert(dense: pa.Array) -> pa.Array:
        out = np.empty((len(dense), size), np.uint8)

        def write(rows: Longs | None, matrix: Octets, lines: Octets, layout: Layout) -> Mask:
            parts = _parts(lines, layout)
            iso = _iso(matrix, layout, parts, size)
            out[slice(None) if rows is None else rows] = iso
            return parts.good & ~_cut(parts, size)

        _grouped(dense, fmt, write)
        return strings_of(out)

    return over_nulls(convert, values)


def iso_width(width: int) -> int:
    """Return how many characters of ISO text a datetime column of that external length holds."""
    fitting = [whole for whole in _WHOLE_WIDTHS if whole <= width]
    if not fitting:
        raise OptionError(f"a datetime column cannot be {width} characters wide")
    return fitting[-1]


def parse_timestamps(values: pa.StringArray, fmt: DateFormat | None) -> Longs:
    """Return microseconds since 1970 UTC, one a row; without a format, from epoch milliseconds.

    Raises DecodeError, with the row as its record, for a null, a value that does not match, or
    fraction digits beyond microseconds that are not zero.
    """
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise row_error("the commit time is null", values, row)
    return _epoch_milliseconds(values) if fmt is None else _microseconds(values, fmt)


def _epoch_milliseconds(values: pa.StringArray) -> Longs:
    found = parse_integers(values, 0, 8, signed=True).to_numpy()
    low, _ = EPOCH_DIGITS
    bad = (found < 10 ** (low - 1)) | (found > _LAST_MILLISECOND)
    if bad.any():
        raise row_error(
            "not a time in milliseconds since 1970",
            values,
            int(np.argmax(bad)),
            "Set a timestamp format if the value is a date",
        )
    micros: Longs = found * 1000
    return micros


def _microseconds(values: pa.StringArray, fmt: DateFormat, unit_digits: int = 6) -> Longs:
    out = np.empty(len(values), np.int64)

    def write(rows: Longs | None, _: Octets, lines: Octets, layout: Layout) -> Mask:
        parts = _parts(lines, layout)
        out[slice(None) if rows is None else rows] = _since_1970(parts)
        return parts.good & ~parts.fraction[unit_digits:].any(axis=0)

    _grouped(trimmed(values), fmt, write)
    return out


def iso_to_timestamp(values: pa.StringArray, width: int) -> pa.Array:
    """Return ISO text of that width as date32 (width 10) or naive timestamp[us].

    Raises DecodeError, with the row as its record, where digits beyond microseconds are not zero.
    """

    def convert(dense: pa.Array) -> pa.Array:
        try:
            found = _microseconds(dense, DEFAULT_FORMAT)
        except DecodeError as error:
            error.hint = "Spark holds microseconds: read the column as text"
            raise
        if width == 10:
            return pa.array((found // 86_400_000_000).astype(np.int32)).view(pa.date32())
        return pa.array(found).view(pa.timestamp("us"))

    return over_nulls(convert, values)


_Write = Callable[[Longs | None, Octets, Octets, Layout], Mask]


def _grouped(values: pa.StringArray, fmt: DateFormat, write: _Write) -> None:
    """Give ``write`` each group of rows alike; raise DecodeError for the first bad row."""
    values = trimmed(values)
    bad = [
        row
        for length, rows, matrix in length_groups(values)
        for row in _group(matrix, rows, fmt.of_length(length), write)
    ]
    if bad:
        row = min(bad)
        raise row_error(
            f"not a date in the form {fmt.text}, or digits that would be lost", values, row
        )


def _group(
    matrix: Octets, rows: Longs | None, layouts: tuple[Layout, ...], write: _Write
) -> list[int]:
    """Write the rows of one length; return the first bad row as a list, or none."""
    for layout in layouts:
        lines = np.ascontiguousarray(matrix.T)
        fits = _fits(lines, layout)
        if fits.all():
            good = write(rows, matrix, lines, layout)
            return _first(~good, rows)
        if not fits.any():
            continue
        here = np.flatnonzero(fits)
        bad = _group(matrix[here], here if rows is None else rows[here], (layout,), write)
        others = np.flatnonzero(~fits)
        left = others if rows is None else rows[others]
        rest = layouts[layouts.index(layout) + 1 :]
        return bad + _group(matrix[others], left, rest, write)
    return _first(np.ones(len(matrix), bool), rows)


def _first(bad: Mask, rows: Longs | None) -> list[int]:
    if not bad.any():
        return []
    at = int(np.argmax(bad))
    return [at if rows is None else int(rows[at])]


def _fits(lines: Octets, layout: Layout) -> Mask:
    """Return which rows have digits, letters and literals where the layout has them."""
    bad = np.zeros(lines.shape[1], bool)
    for at, allowed in layout.literals:
        line = lines[at]
        bad |= np.logical_and.reduce([line != byte for byte in allowed])
    for _, start, width, letters in layout.fields:
        part = lines[start : start + width]
        if letters:
            bad |= _month_of(part) == 0
        else:
            bad |= (part - _ZERO > 9).any(axis=0)
    return ~bad


def _month_of(letters: Octets) -> npt.NDArray[np.int32]:
    """Return the months (1 to 12) of three lines of letters, without case; 0 where none."""
    upper = letters & 0xDF
    found = np.zeros(letters.shape[1], np.int32)
    for month in range(12):
        name = _MONTHS[3 * month : 3 * month + 3].encode()
        same = (upper[0] == name[0]) & (upper[1] == name[1]) & (upper[2] == name[2])
        found[same] = month + 1
    return found


def _number(digits: Octets) -> npt.NDArray[np.int32]:
    total: npt.NDArray[np.int32] = digits[0].astype(np.int32)
    for line in digits[1:]:
        total *= 10
        total += line
    return total


def _parts(lines: Octets, layout: Layout) -> _Parts:
    rows = lines.shape[1]
    numbers: dict[Part, npt.NDArray[np.int32]] = {}
    fraction = np.zeros((0, rows), np.uint8)
    for part, start, width, letters in layout.fields:
        text = lines[start : start + width]
        if part is Part.FRACTION:
            fraction = text - _ZERO
        elif letters:
            numbers[part] = _month_of(text)
        else:
            numbers[part] = _number(text - _ZERO)
            if part is Part.YEAR and width == 2:
                numbers[part] += np.where(numbers[part] < PIVOT, 2000, 1900).astype(np.int32)
    for part in list(Part)[:-1]:
        if part not in numbers:
            numbers[part] = np.full(rows, int(_DEFAULTS.get(part, b"0")), np.int32)
    return _Parts(numbers, fraction, _in_range(numbers))


def _in_range(numbers: dict[Part, npt.NDArray[np.int32]]) -> Mask:
    year, month, day = (numbers[part] for part in (Part.YEAR, Part.MONTH, Part.DAY))
    good: Mask = (year > 0) & (month > 0) & (month < 13) & (day > 0)
    last = _MONTH_DAYS[np.minimum(month, 12)]
    late = day > last
    if late.any():
        leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
        late &= ~(leap & (month == 2) & (day == 29))
    good &= ~late
    good &= (numbers[Part.HOUR] < 24) & (numbers[Part.MINUTE] < 60) & (numbers[Part.SECOND] < 60)
    return good


def _cut(parts: _Parts, size: int) -> Mask:
    """Return the rows in which other than defaults lie behind the width."""
    lost: Mask = np.logical_or.reduce(parts.fraction[max(0, size - 20) :], axis=0)
    for part, start in list(_STARTS.items())[1:-1]:
        if start >= size:
            lost |= parts.numbers[part] != int(_DEFAULTS.get(part, b"0"))
    return lost


def _iso(matrix: Octets, layout: Layout, parts: _Parts, size: int) -> Octets:
    """Return the ISO text of rows as a matrix of that many columns."""
    out = np.empty((len(matrix), size), np.uint8)
    aligned = [field[:2] for field in layout.fields] == [
        (part, _STARTS[part]) for part in list(Part)[: len(layout.fields)]
    ] and all(field.width != 1 or field.part is Part.FRACTION for field in layout.fields)
    if aligned:
        last = layout.fields[-1]
        shared = min(size, last.start + last.width)
        out[:, :shared] = matrix[:, :shared]
        out[:, shared:] = _ISO[shared:size]
    else:
        out[:] = _ISO[:size]
        _write_numbers(out, parts, size)
    for at in (4, 7, 10, 13, 16, 19):
        if at < size:
            out[:, at] = _ISO[at]
    given = {field.part for field in layout.fields}
    for part, text in _DEFAULTS.items():
        if _STARTS[part] < size and part not in given:
            out[:, _STARTS[part] : _STARTS[part] + len(text)] = np.frombuffer(text, np.uint8)
    return out


def _write_numbers(out: Octets, parts: _Parts, size: int) -> None:
    for part, start in list(_STARTS.items())[:-1]:
        if start < size:
            rest, width = parts.numbers[part], 4 if part is Part.YEAR else 2
            for at in range(start + width - 1, start - 1, -1):
                out[:, at] = rest % 10 + _ZERO
                rest = rest // 10
    digits = parts.fraction[: max(0, size - 20)]
    out[:, 20 : 20 + len(digits)] = digits.T + _ZERO


def _since_1970(parts: _Parts) -> Longs:
    """Return microseconds since 1970 of the proleptic Gregorian calendar."""
    numbers = parts.numbers
    year, month = numbers[Part.YEAR], numbers[Part.MONTH]
    # Days from a year that begins in March, so that the leap day is its last.
    past = (month <= 2).astype(np.int32)
    year = year - past
    days = 365 * year + year // 4 - year // 100 + year // 400
    days += (153 * (month + 12 * past - 3) + 2) // 5 + numbers[Part.DAY] - 1 - 719_468
    seconds = (numbers[Part.HOUR] * 60 + numbers[Part.MINUTE]) * 60 + numbers[Part.SECOND]
    total: Longs = (days.astype(np.int64) * 86_400 + seconds) * 1_000_000
    digits = parts.fraction[:6]
    if len(digits):
        total += _number(digits).astype(np.int64) * 10 ** (6 - len(digits))
    return total
