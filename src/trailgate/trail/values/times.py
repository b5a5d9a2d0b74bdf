"""Date times in trail form (YYYY-MM-DD:HH:MI:SS.fffffffff) and back (trail format §10.2)."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Octets
from trailgate.trail.values import kernels
from trailgate.trail.values.codec import INDICATOR_BYTES, Cells, Target, Written, heads, null_mask
from trailgate.trail.values.text import null_cells

BETWEEN: Final = 10  # offset of what stands between date and time: a blank in ISO, ":" here
COLON, BLANK = ord(":"), ord(" ")
WHOLE_SECONDS: Final = 19
NULL_TEXT: Final = "1900-01-01:00:00:00.000000000"  # cut to the column's length


def decode_datetime(cells: Cells) -> pa.Array:
    """Return ISO texts of the column's length; NULL is FF FF and any text, or a bare FF FF."""
    width = cells.column.external_length
    nulls = null_cells(cells, width)
    known = np.ones(len(cells.starts), bool) if nulls is None else ~nulls
    ends = np.zeros(len(known) + 1, np.int32)
    np.cumsum(known * np.int32(width), out=ends[1:])
    texts = np.empty(int(ends[-1]), np.uint8)
    bad = kernels.read_datetimes(cells.source.data, cells.starts, ~known, width, texts)
    if bad >= 0:
        raise cells.error("not a date time", bad)
    valid = None if nulls is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(texts)]
    return pa.Array.from_buffers(pa.string(), len(known), buffers)


def encode_datetime(target: Target, values: pa.Array) -> Written:
    """Return ISO texts in trail form; a shorter fraction is filled up with zeros."""
    width = target.column.external_length
    nulls = null_mask(values)
    if nulls is not None:
        values = values.fill_null(NULL_TEXT.replace(":", " ", 1)[:width])
    matrix = _exact(target, values, width)
    if width > BETWEEN:
        good = matrix[:, BETWEEN] == BLANK
        if not good.all():
            value = values[int(np.argmin(good))].as_py()
            raise target.error("a date and a time with a blank in between were expected", value)
        matrix[:, BETWEEN] = COLON
    head = heads(target, INDICATOR_BYTES + width, nulls, len(values))
    return Written(np.concatenate([head, matrix], axis=1))


def _exact(target: Target, values: pa.Array, width: int) -> Octets:
    sizes = pc.binary_length(values).to_numpy()
    if not (sizes == width).all():
        short = (sizes == WHOLE_SECONDS) | ((sizes > WHOLE_SECONDS + 1) & (sizes < width))
        bad = (sizes != width) & ~(short & (width > WHOLE_SECONDS + 1))
        if bad.any():
            value = values[int(np.argmax(bad))].as_py()
            raise target.error(f"a date time of {width} characters was expected", value)
        zeros = NULL_TEXT[:width]
        tails = pa.array([zeros[n:] for n in range(width + 1)]).take(pa.array(sizes))
        values = pc.binary_join_element_wise(values, tails, "")
    _, offsets, data = values.buffers()
    if not len(values) or not width:
        return np.zeros((len(values), width), np.uint8)
    start = int(np.frombuffer(offsets, np.int32)[values.offset])
    content = np.frombuffer(data, np.uint8)[start : start + len(values) * width]
    return content.reshape(len(values), width).copy()
