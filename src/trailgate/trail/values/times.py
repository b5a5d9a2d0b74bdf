"""Date times in trail values, with and without a time zone (trail format §10.2).

A trail stores ``YYYY-MM-DD:HH:MI:SS.fffffffff`` as text of the column's length. In Arrow it is an
ISO string with a blank after the date. A date time with a zone is followed by the zone, such as
``+02:00``, and may be shorter than the column.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.gather import gather, measure_error, sliding_words
from trailgate.columnar.gather_kernels import MAX_INT32, TOO_MANY
from trailgate.columnar.strings import NO_NULLS, build_binary_column
from trailgate.columnar.word_kernels import SPARE
from trailgate.errors import DecodeError
from trailgate.model.tables import Column
from trailgate.trail.values import value_kernels
from trailgate.trail.values.cell_writers import PaddedCells, VaryingCells
from trailgate.trail.values.cells import check_fixed_cells, width_error
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    NULL,
    CellTarget,
    CellWriter,
    RecordValues,
    TrailCells,
)
from trailgate.trail.values.write_kernels import BETWEEN

NULL_TEXT: Final = "1900-01-01:00:00:00.000000000"  # cut to the column's length

# After the seconds, any printable ASCII: a fraction, a zone, and blanks.
ZONED: Final = r"^\d{4}-\d{2}-\d{2}:\d{2}:\d{2}:\d{2}[\x20-\x7e]*$"
ZONE_AT: Final = 21  # bytes of the null indicator and a date time to the second


def datetime_width(column: Column) -> int:
    """Return the number of bytes of a column's date times in a trail."""
    return column.external_length


def decode_datetime(cells: TrailCells) -> pa.Array:
    """Decode a trail's date times as ISO strings of the column's length.

    NULL is FF FF and any text, or a bare FF FF.
    """
    width = datetime_width(cells.column)
    count, room = len(cells.starts), int(cells.lengths.sum())
    # Arrow's offsets of strings have 32 bits.
    if room > MAX_INT32:
        raise measure_error(TOO_MANY, len(cells.source.data))
    nulls, offsets = np.empty(count, bool), np.empty(count + 1, np.int32)
    strings = np.empty(room + SPARE, np.uint8)
    null_count, bad, has_width = value_kernels.read_datetimes(
        cells.source.data, cells.starts, cells.lengths, width, nulls, offsets, strings
    )
    if bad >= 0:
        raise cells.error("not a date time", bad) if has_width else width_error(cells, width, bad)
    return build_binary_column(
        offsets, strings[: offsets[-1]], nulls if null_count else NO_NULLS, text=True
    )


def check_datetime(cells: TrailCells) -> None:
    """Raise DecodeError for a date time that does not have the column's length."""
    check_fixed_cells(cells, datetime_width(cells.column))


def encode_datetime(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode ISO strings as a trail's date times. A shorter fraction is filled with zeros."""
    width = datetime_width(target.column)
    # NULL_TEXT ends in zeros, so it also completes a shorter fraction.
    filling = NULL_TEXT[:width].encode()
    cells = PaddedCells(target, column_values, filling=filling, null_filling=filling, colon=BETWEEN)
    cells.check_times()
    return cells


def decode_zoned(cells: TrailCells) -> pa.Array:
    """Decode a trail's date times that are followed by a zone: ASCII of at most the column's length.

    Assumed (trail format §10.2): the text of a date time, then the zone; with a shorter zone the
    value may be shorter.
    """
    nulls = check_zoned(cells)
    strings = _ascii(cells, nulls)
    form = pc.match_substring_regex(strings, ZONED)
    # NULL has no form to check.
    cells.require(form.fill_null(True).to_numpy(zero_copy_only=False), "not a date time")
    # The first colon is the one between the date and the time.
    return pc.utf8_rtrim(pc.replace_substring(strings, ":", " ", max_replacements=1), " ")


def check_zoned(cells: TrailCells) -> Mask:
    """Check the lengths of a trail's date times with a zone. Returns a mask of the NULLs.

    Raises DecodeError for a value that is too long or too short.
    """
    head = sliding_words(cells.source.data, "u2")[cells.starts]
    nulls = np.asarray(head == NULL, bool)
    width = cells.column.external_length + INDICATOR_BYTES
    good = nulls | ((head == 0) & (cells.lengths <= width) & (cells.lengths > ZONE_AT))
    cells.require(good, f"a date time with a zone, of at most {width} bytes, was expected")
    return nulls


def _ascii(cells: TrailCells, nulls: Mask) -> pa.Array:
    starts, ends = cells.starts + INDICATOR_BYTES, cells.starts + cells.lengths
    try:
        return gather(cells.source.buffer, starts, ends, nulls=nulls, text=True)
    except DecodeError as error:
        # The offset in the error is the start of the bad value.
        row = int(np.argmax(starts == error.where.offset))
        raise cells.error("not a date time", row) from None


def encode_zoned(target: CellTarget, column_values: RecordValues) -> CellWriter:
    """Encode date times with a zone as trail values without padding. NULL is a bare FF FF."""
    column_values = column_values.for_records()
    values = column_values.values
    # In Arrow a blank separates date and time: the first colon of the pattern becomes a blank.
    form = pc.match_substring_regex(values, ZONED.replace(":", " ", 1)).fill_null(True)
    long = pc.greater(pc.binary_length(values), target.column.external_length).fill_null(False)
    row = column_values.first_bad_row(pc.or_(pc.invert(form), long).to_numpy(zero_copy_only=False))
    if row is not None:
        raise target.error("not a date time with a zone, or too long", values[row].as_py())
    strings = pc.replace_substring(values, " ", ":", max_replacements=1)
    return VaryingCells(target, replace(column_values, values=strings), counted=False)
