"""Date times in trail form (YYYY-MM-DD:HH:MI:SS.fffffffff) and back (trail format §10.2)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.gather import fixed_rows
from trailgate.trail.values.cell_writers import FilledCells
from trailgate.trail.values.codec import Cells, CellWriter, RecordValues, TargetColumn
from trailgate.trail.values.text import fixed_bytes, null_cells
from trailgate.trail.values.write_kernels import BETWEEN, BLANK, COLON

NULL_TEXT: Final = "1900-01-01:00:00:00.000000000"  # cut to the column's length


def decode_datetime(cells: Cells) -> pa.Array:
    """Return ISO texts of the column's length; NULL is FF FF and any text, or a bare FF FF."""
    width = cells.column.external_length
    nulls = null_cells(cells, width)
    matrix = fixed_bytes(cells, width, nulls)
    good = matrix.max(axis=1, initial=0) < 0x80 if matrix.max(initial=0) >= 0x80 else None
    if good is None and width > BETWEEN:
        good = matrix[:, BETWEEN] == COLON
        matrix[:, BETWEEN] = BLANK
    if good is not None and not good.all():
        row = int(np.argmin(good))
        row = row if nulls is None else int(np.flatnonzero(~nulls)[row])
        raise cells.error("not a date time", row)
    texts = fixed_rows(matrix).view(pa.string())
    if nulls is None:
        return texts
    return texts.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))


def encode_datetime(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return ISO texts in trail form; a shorter fraction is filled up with zeros."""
    width = target.column.external_length
    filling = NULL_TEXT[:width].encode()
    cells = FilledCells(target, found, filling=filling, null_filling=filling, colon=BETWEEN)
    cells.check_times()
    return cells
