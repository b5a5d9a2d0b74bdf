"""Format Arrow columns of dates and timestamps as ISO 8601 text, for output: ``2026-01-05T12:30:00.123456Z``.

Arrow's own conversion to text knows only years of four digits and writes a blank before the time.
Values outside these years, which a query of DuckDB can return, are formatted by numpy.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# The largest and smallest value of DuckDB's dates and timestamps, which is also PostgreSQL's.
INFINITY: Final = "infinity"
# Arrow formats only years of four digits. The others are left to numpy.
EARLIEST, LATEST = np.datetime64("0000-01-01", "D"), np.datetime64("9999-12-31", "D")


def format_iso_timestamps(column: pa.TimestampArray) -> pa.Array:
    """Format a column of timestamps in ISO form, with as many digits of a fraction as its unit has."""
    unit = column.type.unit
    # The cast through integers keeps the instant and needs no time zone database.
    numbers = column.cast(pa.int64())
    text = numbers.cast(pa.timestamp(unit)).cast(pa.string())
    dated = pc.utf8_replace_slice(text, start=10, stop=11, replacement="T")
    zone = "" if column.type.tz is None else "Z"
    texts = pc.binary_join_element_wise(dated, zone, "")
    return _with_far_days(texts, numbers, f"datetime64[{unit}]", zone)


def format_iso_dates(column: pa.Array) -> pa.Array:
    """Format a column of dates in ISO form."""
    days = column.cast(pa.date32())
    return _with_far_days(days.cast(pa.string()), days.cast(pa.int32()), "datetime64[D]", "")


def _with_far_days(texts: pa.Array, numbers: pa.Array, kind: str, zone: str) -> pa.Array:
    """Replace the texts of dates and times outside the years 0 to 9999, which Arrow does not format.

    ``numbers`` are the values as integers, ``kind`` is their numpy type, such as "datetime64[us]".
    ``zone`` is appended to the new texts, except to DuckDB's infinities: ``infinity`` and
    ``-infinity``.
    """
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    times = filled.astype(np.int64).view(kind)
    days = times.astype("datetime64[D]")
    far = (days < EARLIEST) | (days > LATEST) | np.isnat(times)
    if not far.any():
        return texts
    # DuckDB's infinity is the largest number of the type, and -infinity its negative.
    largest = np.iinfo(filled.dtype).max
    named = {largest: INFINITY, -largest: f"-{INFINITY}"}
    numpy_texts = np.datetime_as_string(times[far]).tolist()
    written = [
        named.get(number, f"{_with_long_year(text)}{zone}")
        for number, text in zip(filled[far].tolist(), numpy_texts, strict=True)
    ]
    return pc.replace_with_mask(texts, pa.array(far), pa.array(written, pa.string()))


def _with_long_year(text: str) -> str:
    """Give a year before 0 four digits, as ISO 8601 does: numpy's ``-043-03-15`` becomes ``-0043-03-15``."""
    year, dash, rest = text[1:].partition("-")
    return f"-{year:0>4}{dash}{rest}" if text.startswith("-") else text
