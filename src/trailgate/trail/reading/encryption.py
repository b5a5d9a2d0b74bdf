"""Recognize an encrypted trail: its records are framed as ever, but no data area holds columns.

trail format §13: ENCRYPTTRAIL encrypts data areas alone. How, and where the header has it, is not public.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.errors import DecodeError
from trailgate.trail.format.record_types import PREFIX_OF, Prefix
from trailgate.trail.reading.grouping import Operations
from trailgate.trail.records.kernels import UNLISTED
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.values.cell_places import hold_cells

LOOKED_AT: Final = 64  # records
HINT: Final = (
    "Records are framed well, but their data are not columns: the trail may be encrypted (ENCRYPTTRAIL). "
    "Trailgate cannot read an encrypted trail: have a pump write it without encryption"
)


def explained(error: DecodeError, source: TrailBytes, operations: Operations) -> DecodeError:
    """Return the error, with a hint at encryption where the first data areas hold no columns."""
    view = operations.view
    filled = view.data.sizes[operations.first] > 0
    filled &= view.marks[operations.first] & UNLISTED == 0
    records = operations.first[filled][:LOOKED_AT]
    data = view.data.take(records)
    listed = hold_cells(source, data)
    prefixed = PREFIX_OF[view.io_type[records]] > 0
    for width in (Prefix.SHORT, Prefix.LONG):
        # Two lists of columns, one after another, are one list.
        starts = np.minimum(data.starts + int(width), data.ends)
        listed |= prefixed & hold_cells(source, Spans(starts, data.ends))
    if len(records) and not listed.any():
        error.hint = HINT
    return error
