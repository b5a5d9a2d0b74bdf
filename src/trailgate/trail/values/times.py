"""Date times in trail form (YYYY-MM-DD:HH:MI:SS.fffffffff) and back (trail format §10.2)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.gather import NO_NULLS, column, unfit
from trailgate.columnar.kernels.gather import MAX_INT32, TOO_MANY
from trailgate.columnar.kernels.words import SPARE
from trailgate.trail.values import read_kernels
from trailgate.trail.values.cell_writers import FilledCells
from trailgate.trail.values.codec import Cells, CellWriter, RecordValues, TargetColumn
from trailgate.trail.values.text import null_cells, width_error
from trailgate.trail.values.write_kernels import BETWEEN

NULL_TEXT: Final = "1900-01-01:00:00:00.000000000"  # cut to the column's length


def decode_datetime(cells: Cells) -> pa.Array:
    """Return ISO texts of the column's length; NULL is FF FF and any text, or a bare FF FF."""
    width = cells.column.external_length
    count, room = len(cells.starts), int(cells.lengths.sum())
    if room > MAX_INT32:
        raise unfit(TOO_MANY, len(cells.source.data))
    nulls, offsets = np.empty(count, bool), np.empty(count + 1, np.int32)
    texts = np.empty(room + SPARE, np.uint8)
    null_count, bad, has_width = read_kernels.read_datetimes(
        cells.source.data, cells.starts, cells.lengths, width, nulls, offsets, texts
    )
    if bad >= 0:
        raise cells.error("not a date time", bad) if has_width else width_error(cells, width, bad)
    return column(offsets, texts[: offsets[-1]], nulls if null_count else NO_NULLS, text=True)


def check_datetime(cells: Cells) -> None:
    """Raise for a date time that is not of the column's length."""
    null_cells(cells, cells.column.external_length)


def encode_datetime(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return ISO texts in trail form; a shorter fraction is filled up with zeros."""
    width = target.column.external_length
    filling = NULL_TEXT[:width].encode()
    cells = FilledCells(target, found, filling=filling, null_filling=filling, colon=BETWEEN)
    cells.check_times()
    return cells
