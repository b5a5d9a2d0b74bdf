"""Date times with a time zone after them in trail form and back: text of at most the column's length."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.columnar.gather import gather
from trailgate.columnar.views import words
from trailgate.errors import DecodeError
from trailgate.trail.values.cell_writers import VaryingCells
from trailgate.trail.values.codec import (
    INDICATOR_BYTES,
    NULL,
    Cells,
    CellWriter,
    RecordValues,
    TargetColumn,
)

ZONED: Final = r"^\d{4}-\d{2}-\d{2}:\d{2}:\d{2}:\d{2}[\x20-\x7e]*$"
ZONE_AT: Final = 21  # of the indicator and a date time to the second


def decode_zoned(cells: Cells) -> pa.Array:
    """Return date times with a zone after them: ASCII of at most the column's length.

    Assumed (trail format §10.2): the text of a date time, then the zone; a shorter zone may make it shorter.
    """
    nulls = check_zoned(cells)
    texts = _ascii(cells, nulls)
    form = pc.match_substring_regex(texts, ZONED)
    cells.require(form.fill_null(True).to_numpy(zero_copy_only=False), "not a date time")
    return pc.utf8_rtrim(pc.replace_substring(texts, ":", " ", max_replacements=1), " ")


def check_zoned(cells: Cells) -> Mask:
    """Return which values are NULL; raises for one that is too long or too short."""
    head = words(cells.source.data, "u2")[cells.starts]
    nulls = np.asarray(head == NULL, bool)
    width = cells.column.external_length + INDICATOR_BYTES
    good = nulls | ((head == 0) & (cells.lengths <= width) & (cells.lengths > ZONE_AT))
    cells.require(good, f"a date time with a zone, of at most {width} bytes, was expected")
    return nulls


def _ascii(cells: Cells, nulls: Mask) -> pa.Array:
    starts, ends = cells.starts + INDICATOR_BYTES, cells.starts + cells.lengths
    try:
        return gather(cells.source.buffer, starts, ends, nulls=nulls, text=True)
    except DecodeError as error:
        row = int(np.argmax(starts == error.where.offset))
        raise cells.error("not a date time", row) from None


def encode_zoned(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return date times with a zone after them, as long as they are; NULL is a bare FF FF."""
    found = found.held()
    values = found.values
    form = pc.match_substring_regex(values, ZONED.replace(":", " ", 1)).fill_null(True)
    long = pc.greater(pc.binary_length(values), target.column.external_length).fill_null(False)
    row = found.first(pc.or_(pc.invert(form), long).to_numpy(zero_copy_only=False))
    if row is not None:
        raise target.error("not a date time with a zone, or too long", values[row].as_py())
    texts = pc.replace_substring(values, " ", ":", max_replacements=1)
    return VaryingCells(target, replace(found, values=texts), counted=False)
