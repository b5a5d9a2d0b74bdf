"""Dates and times from text, whole columns at once: to ISO text, and to microseconds."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets, Words
from trailgate.columnar.datetime_formats import (
    DEFAULT_FORMAT,
    DateFormat,
    Field,
    Layout,
    Part,
    compile_format,
)
from trailgate.columnar.gather import NO_NULLS, column
from trailgate.columnar.kernels import dates as kernels
from trailgate.columnar.kernels.words import SPARE
from trailgate.columnar.numbers import parse_integers
from trailgate.columnar.rows import over_nulls, row_error, text_view
from trailgate.columnar.views import octets
from trailgate.errors import OptionError

__all__ = [
    "DEFAULT_FORMAT",
    "DateFormat",
    "compile_format",
    "iso_to_timestamp",
    "parse_datetimes",
    "parse_timestamps",
]


# Assumptions: the documentation leaves these open (capture properties §4.1, §13.6 and §13.11);
# a missing year, month or day is that of 1970-01-01, as the kernel has it.
COMMIT_ZONE: Final = "UTC"  # commit times without a zone
# A time without a format is JMSTimestamp's form, milliseconds since 1970: 10 to 17 digits.
EPOCH_DIGITS: Final = (10, 17)
UNFORMATTED: Final = (
    "Without a format of its own a date is year, month and day, and may have a time"
)
_LAST_MILLISECOND: Final = 253_402_300_799_999  # 9999-12-31 23:59:59.999

# A value of these lengths ends with a whole part: year, month, day, hour, minute, second.
_WHOLE_WIDTHS: Final[tuple[int, ...]] = (4, 7, 10, 13, 16, 19, *range(21, 30))
_PARTS: Final = {part: number for number, part in enumerate(Part)}
_MONTHS: Final = b"JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
_NO_TIMES: Final = np.zeros(0, np.int64)
_NO_TEXT: Final = np.zeros(0, np.uint8)


def parse_datetimes(values: pa.StringArray, fmt: DateFormat, width: int) -> pa.StringArray:
    """Return ISO text, YYYY-MM-DD HH:MI:SS.ffffff, of the width (external length) given.

    Width 10 holds a date, 19 a time to the second, 20 + n one with n fraction digits (at most 9).
    Nulls stay null. Raises DecodeError, with the row as its record, for a value that does not
    match the format or has other than zeros where the width would cut it.
    """
    size = iso_width(width)

    def convert(dense: pa.Array) -> pa.Array:
        out = np.empty(len(dense) * size + SPARE, np.uint8)
        _read(dense, fmt, size, _NO_TIMES, out)
        offsets = np.arange(len(dense) + 1, dtype=np.int32) * np.int32(size)
        return column(offsets, out, NO_NULLS, text=True)

    return over_nulls(convert, values)


def iso_width(width: int) -> int:
    """Return how many characters of ISO text a datetime column of that external length holds."""
    fitting = [whole for whole in _WHOLE_WIDTHS if whole <= width]
    if not fitting:
        raise OptionError(f"a datetime column cannot be {width} characters wide")
    return fitting[-1]


def parse_timestamps(values: pa.StringArray, fmt: DateFormat | None) -> tuple[Longs, int]:
    """Return microseconds since 1970 UTC, one a row; without a format, from epoch milliseconds.

    Fraction digits beyond microseconds are dropped; the number is that of the first row where they are not zeros, or -1.
    Raises DecodeError, with the row as its record, for a null or a value that does not match.
    """
    if values.null_count:
        row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
        raise row_error("the commit time is null", values, row)
    return (_epoch_milliseconds(values), -1) if fmt is None else _microseconds(values, fmt)


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


def _microseconds(values: pa.StringArray, fmt: DateFormat) -> tuple[Longs, int]:
    out = np.empty(len(values), np.int64)
    return out, _read(values, fmt, 0, out, _NO_TEXT)


def _read(values: pa.StringArray, fmt: DateFormat, size: int, micros: Longs, iso: Octets) -> int:
    """Write the values as microseconds or as ISO text; return the first row that microseconds cut.

    Raises DecodeError for the first bad row.
    """
    offsets, data = text_view(values)
    tables, part = _tables(fmt), np.empty(kernels.PARTS, np.int64)
    row = kernels.read_times(data, offsets, *tables, size, part, micros, iso)
    if row >= 0:
        hint = UNFORMATTED if fmt is DEFAULT_FORMAT else _configured(fmt)
        raise row_error(_wrong(fmt), values, row, hint)
    return int(part[kernels.CUT])


def _wrong(fmt: DateFormat) -> str:
    return f"not a date in the form {fmt.text}, or digits that would be lost"


def _configured(fmt: DateFormat) -> str:
    return f"The form is that of {fmt.origin}" if fmt.origin else ""


@cache
def _tables(fmt: DateFormat) -> tuple[Longs, Longs, Longs, Words, Octets]:
    """Return the layouts of a format, their fields, literals and shapes, as the kernel takes them."""
    layouts: list[tuple[int, ...]] = []
    fields: list[tuple[int, ...]] = []
    literals: list[tuple[int, ...]] = []
    for layout in fmt.layouts:
        before = len(fields), len(literals)
        fields += [(_PARTS[f.part], f.start, f.width, f.letters) for f in layout.fields]
        several = [row for row in layout.literals if len(row[1]) > 1]
        single = [row for row in layout.literals if len(row[1]) == 1]
        literals += [(at, *(allowed * 3)[:3]) for at, allowed in several + single]
        places = {field.part: field.start for field in layout.fields}
        starts = (places.get(part, -1) for part in list(Part)[:6])
        ends = (before[0], len(fields), before[1], len(literals), before[1] + len(several))
        layouts.append((layout.length, *ends, *starts))
    rows = [np.array(table, np.int64).ravel() for table in (layouts, fields, literals)]
    shapes = np.concatenate([_shape(layout) for layout in fmt.layouts]).view(np.uint64)
    return rows[0], rows[1], rows[2], shapes, octets(_MONTHS)


def _shape(layout: Layout) -> Octets:
    """Return the bytes of a layout's shape; zeros where its parts are not pairs of digits."""
    mask, left, digits = shape = np.zeros((3, kernels.SHAPED), np.uint8)
    if layout.length > kernels.SHAPED or not all(map(_is_pairs, layout.fields)):
        return shape.ravel()
    for field in layout.fields:
        within = slice(field.start, field.start + field.width)
        mask[within], left[within], digits[within] = 0xF0, 0x30, 0xF0
    for place, allowed in layout.literals:
        if len(allowed) == 1:
            mask[place], left[place] = 0xFF, allowed[0]
    return shape.ravel()


def _is_pairs(field: Field) -> bool:
    """Return whether a field is one or two pairs of digits."""
    width = 4 if field.part is Part.YEAR else 2
    return field.width == width and not field.letters and field.part is not Part.FRACTION


def iso_to_timestamp(values: pa.StringArray, width: int) -> pa.Array:
    """Return ISO text of that width as date32 (width 10) or naive timestamp[us].

    Raises DecodeError, with the row as its record, where digits beyond microseconds are not zero.
    """

    def convert(dense: pa.Array) -> pa.Array:
        offsets, data = text_view(dense)
        found, part = np.empty(len(dense), np.int64), np.empty(7, np.int64)
        if kernels.read_iso(data, offsets, width, part, found) >= 0:
            found, cut = _microseconds(dense, DEFAULT_FORMAT)
            if cut >= 0:
                hint = "Spark holds microseconds: read the column as text"
                raise row_error(_wrong(DEFAULT_FORMAT), dense, cut, hint)
        if width == 10:
            return pa.array((found // 86_400_000_000).astype(np.int32)).view(pa.date32())
        return pa.array(found).view(pa.timestamp("us"))

    return over_nulls(convert, values)
