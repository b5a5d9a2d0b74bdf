"""Convert dates and times of PostgreSQL to Arrow and back, including those that Python lacks.

PostgreSQL has ``infinity``, ``-infinity``, and years from 4713 BC on and after 9999. psycopg refuses
them, since Python's ``datetime`` has none of them. So dates and times are fetched as text, and are
numbers of days or microseconds from there on. Infinity is the number that DuckDB uses too, so that
``--verify`` compares both in the same way::

    2026-01-05     20458        infinity      2147483647
    0001-12-31 BC  -719163      -infinity    -2147483647
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.types.string import TextLoader

LOADED: Final = ("date", "timestamp", "timestamptz")
USUAL: Final = r"^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?)?$"
# A year, the rest of a day, perhaps a time and an era, such as 0045-03-15 12:00:00 BC.
PARTS: Final = re.compile(r"(\d+)(-\d\d-\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?))?( BC)?")
# What numpy prints, such as -0044-03-15 for that day.
PRINTED: Final = re.compile(r"(-?\d+)(-\d\d-\d\d.*)")
DAY: Final = 86_400_000_000  # microseconds


class _Numbers(NamedTuple):
    """The numbers of dates or of timestamps: their Arrow type, numpy's unit, the bounds of the years 1 to 9999, and infinity."""

    type: pa.DataType
    unit: str
    first: int
    last: int
    infinity: int


DATES: Final = _Numbers(pa.int32(), "D", -719_162, 2_932_896, (1 << 31) - 1)
TIMESTAMPS: Final = _Numbers(pa.int64(), "us", -719_162 * DAY, 2_932_897 * DAY - 1, (1 << 63) - 1)


def load_times_as_text(connection: psycopg.Connection[Any]) -> None:
    """Let a connection return dates and times as text, which the session prints in ISO form and in UTC."""
    for name in LOADED:
        connection.adapters.register_loader(name, TextLoader)


def parse_times(texts: Sequence[str | None], arrow_type: pa.DataType) -> pa.Array:
    """Convert fetched dates or times to an Arrow column of a date or timestamp type.

    Raises OverflowError for a timestamp after the year 294246, which Arrow lacks.
    """
    numbers = _numbers_of(arrow_type)
    values = pc.replace_substring_regex(pa.array(texts, pa.string()), r"\+00( BC)?$", r"\1")
    usual = pc.fill_null(pc.match_substring_regex(values, USUAL), True)
    naive = arrow_type if numbers is DATES else pa.timestamp("us")
    result = pc.if_else(usual, values, None).cast(naive).cast(numbers.type)
    rows = np.flatnonzero(~np.asarray(usual)).tolist()
    if rows:
        others = pa.array([_parse(values[row].as_py(), numbers) for row in rows], numbers.type)
        result = pc.replace_with_mask(result, pc.invert(usual), others)
    return result.cast(arrow_type)


def format_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column of dates or times to text for PostgreSQL if Arrow's CSV writer cannot write all of them, otherwise return it unchanged."""
    numbers = _numbers_of(column.type)
    values = column.combine_chunks().cast(numbers.type)
    fits = (pc.greater_equal(values, numbers.first), pc.less_equal(values, numbers.last))
    usual = pc.fill_null(pc.and_(*fits), True)
    rows = np.flatnonzero(~np.asarray(usual)).tolist()
    if not rows:
        return column
    result = pc.if_else(usual, values, None).cast(column.type).cast(pa.string())
    others = pa.array([_format(values[row].as_py(), numbers) for row in rows])
    return pa.chunked_array([pc.replace_with_mask(result, pc.invert(usual), others)])


def _numbers_of(arrow_type: pa.DataType) -> _Numbers:
    return DATES if pa.types.is_date32(arrow_type) else TIMESTAMPS


def _parse(text: str, numbers: _Numbers) -> int:
    """Return the number of a date or time that is infinite, BC, or after the year 9999."""
    if text.endswith("infinity"):
        return -numbers.infinity if text.startswith("-") else numbers.infinity
    match = PARTS.fullmatch(text)
    assert match is not None
    year, rest, time, before_christ = match.groups()
    # 1 BC is the year 0 of ISO 8601, which numpy has, and 2 BC the year -1.
    number = 1 - int(year) if before_christ else int(year)
    sign = "-" if number < 0 else ""
    days = int(np.datetime64(f"{sign}{abs(number):04}{rest}", "D").astype(np.int64))
    if numbers is DATES:
        return days
    return days * DAY + int(np.datetime64(f"1970-01-01T{time}", "us").astype(np.int64))


def _format(number: int, numbers: _Numbers) -> str:
    """Format the number of a date or time as PostgreSQL prints it. The reverse of ``_parse``."""
    if abs(number) == numbers.infinity:
        return "infinity" if number > 0 else "-infinity"
    printed = str(np.array(number).astype(f"M8[{numbers.unit}]")).replace("T", " ")
    match = PRINTED.fullmatch(printed)
    assert match is not None
    year = int(match[1])
    return f"{year:04}{match[2]}" if year > 0 else f"{1 - year:04}{match[2]} BC"
