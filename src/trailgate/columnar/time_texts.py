"""Times as text, whole columns at once: the way that ``temporal`` reads them, back."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.gather import NO_NULLS, column
from trailgate.columnar.kernels import time_texts as kernels
from trailgate.columnar.rows import strings_of, text_view
from trailgate.columnar.views import octets
from trailgate.errors import EncodeError, Where

DB2: Final = b"-..."  # YYYY-MM-DD-HH.MM.SS.ffffff
ISO: Final = b" ::."
ISO_T: Final = b"T::."


def format_times(micros: Longs, marks: bytes = ISO, *, trimmed: bool = False) -> pa.StringArray:
    """Return times, in microseconds since 1970, as text of 26 characters; ``trimmed``: of 19 where they are whole seconds.

    ``marks`` are what is before hours, minutes, seconds and the fraction. Raises EncodeError, with the row as its record, for a time that is not
    in the years 1 to 9999.
    """
    own = np.ascontiguousarray(micros, np.int64)
    offsets = np.empty(len(own) + 1, np.int32)
    out = np.empty(len(own) * kernels.LONGEST, np.uint8)
    _check(own, kernels.write_times(own, octets(marks), trimmed, offsets, out))
    return column(offsets, out, NO_NULLS, text=True)


def format_ordinals(micros: Longs) -> tuple[pa.StringArray, pa.StringArray]:
    """Return YYYYDDD and HHMMSSffffff of times in microseconds since 1970; raises as ``format_times`` does."""
    own = np.ascontiguousarray(micros, np.int64)
    dates = np.empty((len(own), kernels.DATE), np.uint8)
    clocks = np.empty((len(own), kernels.CLOCK), np.uint8)
    _check(own, kernels.write_ordinals(own, dates.reshape(-1), clocks.reshape(-1)))
    return strings_of(dates), strings_of(clocks)


def marked(values: pa.StringArray, marks: bytes) -> pa.StringArray:
    """Return ISO texts with other marks before hours, minutes and seconds, where they are long enough to have them."""
    offsets, data = text_view(values)
    own = data[offsets[0] : offsets[-1]].copy()
    lengths, starts = np.diff(offsets), offsets[:-1] - offsets[0]
    for place, mark in zip((10, 13, 16), marks, strict=False):
        own[starts[lengths > place] + place] = mark
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    return column(offsets - offsets[0], own, NO_NULLS if valid is None else ~valid, text=True)


def _check(micros: Longs, row: int) -> None:
    if row >= 0:
        problem = f"{int(micros[row])} microseconds since 1970 are not in the years 1 to 9999"
        raise EncodeError(problem, where=Where(record=row))
