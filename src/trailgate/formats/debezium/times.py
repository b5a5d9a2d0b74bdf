"""Convert dates and times of Debezium change events to ISO text.

In events they are numbers since 1970 or since midnight, in units from days to nanoseconds, or ISO
text. The result is in UTC without a zone, unless the column has a zone (`zoned_strings`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs
from trailgate.columnar.gather import gather
from trailgate.columnar.numbers import parse_integers
from trailgate.columnar.rows import convert_valid_rows, row_error
from trailgate.columnar.strings import text_view
from trailgate.columnar.temporal import DEFAULT_FORMAT, parse_timestamps
from trailgate.errors import DecodeError
from trailgate.formats.json.images import JsonValues
from trailgate.formats.json.scanner_kernels import NUMBER, STRING
from trailgate.model.changes import YEAR_1, YEAR_10000

Decode = Callable[[JsonValues], pa.Array]
DAY: Final = 86_400_000_000  # microseconds


# PostgreSQL's driver has these milliseconds for infinity and -infinity; Debezium may write microseconds.
_INFINITIES: Final = frozenset(
    sign * unit for sign in (9223372036825200, -9223372036832400) for unit in (1, 1000)
)
_INFINITY: Final = "It is PostgreSQL's infinity, which a trail does not have. Replace it before the capture, for example in a transformation"
_HOUR: Final = 3_600_000  # milliseconds
# MySQL's TIME may be a span from -838:59:59 to 838:59:59 (MySQL reference, the TIME type).
_MOST_HOURS: Final = 838
_RANGE: Final = "The range is -838:59:59 to 838:59:59, that of MySQL's TIME"

# The zone offset at the end of an ISO time written by Java: +05:30, -11:00, +01:02:03.
_OFFSET: Final = (
    r"(?P<sign>[+-])(?P<hours>[0-9]{2}):?(?P<minutes>[0-9]{2})?:?(?P<seconds>[0-9]{2})?$"
)
_ZONED: Final = r"^(?P<time>[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(?P<fraction>\.[0-9]+)?" + _OFFSET  # fmt: skip
_MOST_OFFSET: Final = 18 * 3600  # seconds: the largest offset in Java
_SECOND: Final = 1_000_000


def dates(values: JsonValues) -> pa.Array:
    """Convert Debezium's days since 1970 to ISO dates."""
    values.require_types(NUMBER)
    return _times(values, lambda days: days * DAY, 10)


def timestamps(units: int) -> Decode:
    """Create a decoder of Debezium's times since 1970 to ISO date times.

    `units` is the number of units per millisecond: 1, 1000 or 1,000,000.
    """

    def decode(values: JsonValues) -> pa.Array:
        values.require_types(NUMBER)
        if units <= 1000:
            return _times(values, lambda numbers: numbers * (1000 // units), 26)
        return _nanoseconds(values)

    return decode


def _times(values: JsonValues, micros: Callable[[pa.Array], pa.Array], width: int) -> pa.Array:
    def convert(dense: pa.Array) -> pa.Array:
        numbers = parse_integers(dense, 0, 8, signed=True).to_numpy()
        # The product may overflow 64 bits; `numbers` itself is checked against the range too.
        with np.errstate(over="ignore"):
            microseconds = micros(numbers)
        bad = (
            (microseconds < YEAR_1) | (microseconds >= YEAR_10000) | (np.abs(numbers) > YEAR_10000)
        )
        if bad.any():
            row = int(np.argmax(bad))
            hint = _INFINITY if int(numbers[row]) in _INFINITIES else ""
            raise row_error("not a time in the years 1 to 9999", dense, row, hint)
        text = pc.cast(pa.array(microseconds).view(pa.timestamp("us")), pa.string())
        return text if width == 26 else pc.utf8_slice_codeunits(text, 0, width)

    return convert_valid_rows(convert, values.strings)


def _nanoseconds(values: JsonValues) -> pa.Array:
    def convert(dense: pa.Array) -> pa.Array:
        numbers = parse_integers(dense, 0, 8, signed=True)
        return pc.cast(numbers.view(pa.timestamp("ns")), pa.string())

    return convert_valid_rows(convert, values.strings)


def times_of_day(units: int) -> Decode:
    """Create a decoder of Debezium's times since midnight to HH:MI:SS.ffffff.

    `units` is the number of units per millisecond.

    MySQL's times may be negative or longer than a day: `-01:30:00.000000`, `25:00:00.000000`.
    """

    def decode(values: JsonValues) -> pa.Array:
        values.require_types(NUMBER)
        return convert_valid_rows(convert, values.strings)

    def convert(dense: pa.Array) -> pa.Array:
        numbers = parse_integers(dense, 0, 8, signed=True).to_numpy()
        hour = _HOUR * units
        most = (_MOST_HOURS + 1) * hour
        bad = (numbers <= -most) | (numbers >= most)
        if bad.any():
            raise row_error("not a time of day", dense, int(np.argmax(bad)), _RANGE)
        # `_clock` formats times of one day. Only if a value of the batch is outside of that, hours
        # and sign are written separately.
        spans = (numbers < 0) | (numbers >= 24 * hour)
        if not spans.any():
            return _clock(numbers, units)
        size = np.abs(numbers)
        hours = pc.utf8_lpad(pc.cast(pa.array(size // hour), pa.string()), 2, "0")
        signs = pc.if_else(pa.array(numbers < 0), "-", "")
        # Replace the two digits of the hour, as `_clock` formats only the time within the hour.
        rest = pc.utf8_slice_codeunits(_clock(size % hour, units), 2)
        return pc.binary_join_element_wise(signs, hours, rest, "")

    return decode


def _clock(numbers: Longs, units: int) -> pa.Array:
    """Format Debezium's times of day as HH:MI:SS.ffffff; nanoseconds have nine digits of fraction."""
    # `units` is the number of units in a millisecond: 1 for milliseconds, 1000 for microseconds.
    # Arrow's time64 has only microseconds and nanoseconds, so milliseconds become microseconds.
    kind = pa.time64("ns") if units > 1000 else pa.time64("us")
    scaled = numbers if units >= 1000 else numbers * (1000 // units)
    return pc.cast(pa.array(scaled).view(kind), pa.string())


def iso_strings(values: JsonValues) -> pa.Array:
    """Convert Debezium's ISO times to UTC, without a zone.

    The final Z is removed, and other offsets are subtracted. Times without a zone are not changed.
    """
    values.require_types(STRING)

    def convert(dense: pa.Array) -> pa.Array:
        plain = _without_letter(dense)
        if plain is not None:
            return plain
        bare = pc.replace_substring_regex(dense, r"(Z|[+-]00:00)$", "")
        zoned = np.asarray(pc.match_substring_regex(bare, _ZONED))
        if not zoned.any():
            return bare
        rows = np.flatnonzero(zoned)
        converted = _in_utc(bare, rows)
        return pc.replace_with_mask(bare, pa.array(zoned), converted)

    return convert_valid_rows(convert, values.strings)


def _in_utc(values: pa.StringArray, rows: Longs) -> pa.StringArray:
    """Convert the ISO times in the given rows, which all have an offset, to UTC.

    The fraction is copied unchanged, because offsets are whole seconds.
    """
    part = pc.extract_regex(values.take(pa.array(rows)), _ZONED)
    hours, minutes, seconds = (
        pc.cast(_or_zero(part.field(name)), pa.int64()).to_numpy()
        for name in ("hours", "minutes", "seconds")
    )
    offset = hours * 3600 + minutes * 60 + seconds
    try:
        local, _ = parse_timestamps(part.field("time"), DEFAULT_FORMAT)
    except DecodeError as error:
        raise row_error(error.problem, values, int(rows[error.where.record or 0])) from None
    # 12:00+02:00 is 10:00 in UTC: offsets to the east are subtracted.
    east = np.asarray(pc.equal(part.field("sign"), "+"))
    micros = local - np.where(east, offset, -offset) * _SECOND
    bad = (offset > _MOST_OFFSET) | (minutes > 59) | (seconds > 59)
    bad |= (micros < YEAR_1) | (micros >= YEAR_10000)
    if bad.any():
        problem = "not a time with a zone offset in the years 1 to 9999"
        raise row_error(problem, values, int(rows[np.argmax(bad)]))
    shifted = pc.cast(pa.array(micros).view(pa.timestamp("us")), pa.string())
    return pc.binary_join_element_wise(
        # 19 characters are YYYY-MM-DD HH:MI:SS.
        pc.utf8_slice_codeunits(shifted, 0, 19),
        part.field("fraction"),
        "",
    )


def _or_zero(values: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(values, ""), "0", values)


def zoned_strings(values: JsonValues) -> pa.Array:
    """Put blanks before the time and the zone of Debezium's ISO times; Z becomes +00:00.

    Example: `2020-01-02T03:04:05.5-11:00` becomes `2020-01-02 03:04:05.5 -11:00`.
    """
    values.require_types(STRING)
    spaced = pc.replace_substring_regex(values.strings, r"^(.{10})T", r"\1 ")
    named = pc.replace_substring_regex(spaced, "Z$", "+00:00")
    return pc.replace_substring_regex(named, r"(:[0-9.]+)([+-][0-9:]+)$", r"\1 \2")


def _without_letter(values: pa.Array) -> pa.Array | None:
    """Remove the final Z of Debezium's ISO times.

    Returns None if a time is empty or may have another zone than Z.
    """
    offsets, data = text_view(values)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    used = data[offsets[0] : offsets[-1]]
    if (ends == starts).any() or (used == ord("+")).any():
        return None
    # Each date has two hyphens; more of them means a negative offset (or a negative year).
    if np.count_nonzero(used == ord("-")) > 2 * len(values):  # those of dates
        return None
    return gather(data, starts, ends - (data[ends - 1] == ord("Z")), text=True, checked=True)
