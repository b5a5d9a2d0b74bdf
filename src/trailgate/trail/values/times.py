"""Date times in trail form (YYYY-MM-DD:HH:MI:SS.fffffffff) and back (trail format §10.2)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.kernels.words import SPARE
from trailgate.trail.values import read_kernels
from trailgate.trail.values.cell_writers import FilledCells
from trailgate.trail.values.codec import Cells, CellWriter, RecordValues, TargetColumn
from trailgate.trail.values.text import null_cells
from trailgate.trail.values.write_kernels import BETWEEN

NULL_TEXT: Final = "1900-01-01:00:00:00.000000000"  # cut to the column's length


def decode_datetime(cells: Cells) -> pa.Array:
    """Return ISO texts of the column's length; NULL is FF FF and any text, or a bare FF FF."""
    width = cells.column.external_length
    nulls = null_cells(cells, width)
    known = np.ones(len(cells.starts), bool) if nulls is None else ~nulls
    ends = np.zeros(len(known) + 1, np.int32)
    np.cumsum(known * np.int32(width), out=ends[1:])
    texts = np.empty(int(ends[-1]) + SPARE, np.uint8)
    bad = read_kernels.read_datetimes(cells.source.data, cells.starts, ~known, width, texts)
    if bad >= 0:
        raise cells.error("not a date time", bad)
    valid = None if nulls is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]])]
    return pa.Array.from_buffers(pa.string(), len(known), buffers)


def encode_datetime(target: TargetColumn, found: RecordValues) -> CellWriter:
    """Return ISO texts in trail form; a shorter fraction is filled up with zeros."""
    width = target.column.external_length
    filling = NULL_TEXT[:width].encode()
    cells = FilledCells(target, found, filling=filling, null_filling=filling, colon=BETWEEN)
    cells.check_times()
    return cells
