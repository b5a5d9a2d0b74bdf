"""Tell an encrypted trail: its records are framed as ever, but no data area is a list of columns.

trail format §13: ENCRYPTTRAIL encrypts data areas alone. How, and where the header says so, is not public.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.errors import DecodeError
from trailgate.trail.format.record_header import Source, Spans
from trailgate.trail.format.record_types import PREFIX_OF, Prefix
from trailgate.trail.reading.cells import fits_as_image
from trailgate.trail.reading.grouping import Operations

LOOKED_AT: Final = 64  # records
COLUMN_INDEXES: Final = 1 << 16
HINT: Final = (
    "Records are framed well, but their data are no columns: the trail may be encrypted (ENCRYPTTRAIL). "
    "Trailgate cannot read an encrypted trail: have a pump write it without encryption"
)


def explained(error: DecodeError, source: Source, operations: Operations) -> DecodeError:
    """Return the error, with a hint at encryption where the first data areas are no columns at all."""
    heads = operations.heads
    filled = heads.data.starts[operations.first] < heads.data.ends[operations.first]
    records = operations.first[filled][:LOOKED_AT]
    data = heads.data.take(records)
    listed = _listed(source, data, 0)
    prefixed = PREFIX_OF[heads.io_type[records]] > 0
    for width in (Prefix.SHORT, Prefix.LONG):
        # Two lists of columns behind each other are one list.
        listed |= prefixed & _listed(source, data, int(width))
    if len(records) and not listed.any():
        error.hint = HINT
    return error


def _listed(source: Source, data: Spans, skipped: int) -> Mask:
    starts = np.minimum(data.starts + skipped, data.ends)
    return fits_as_image(source, Spans(starts, data.ends), COLUMN_INDEXES)
