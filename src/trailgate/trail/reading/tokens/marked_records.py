"""What few records have in their headers: the mark of a backout, and a system key before their data."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.trail.format.record_types import IO_COMMENT, ROLE_OF
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.reading.tokens.user_tokens import NamedTokens
from trailgate.trail.records.kernels import SYSTEM_KEY, SYSTEM_KEY_AT, UNDO, UNDO_AT
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.trail_bytes import Spans, TrailBytes

UNDO_TOKEN, SYSTEM_KEY_TOKEN = "UNDOFLAG", "SYSKEY"
NOTE: Final = IO_COMMENT  # a type of records that are not operations


def without_undone(view: RecordView) -> RecordView:
    """Return the records with backouts as notes, which are not operations but keep their place in transactions."""
    rows = view.marked(UNDO)
    if not len(rows):
        return view
    io_type, role = view.io_type.copy(), view.role.copy()
    io_type[rows], role[rows] = NOTE, ROLE_OF[NOTE]
    return replace(view, io_type=io_type, role=role)


def without_system_keys(source: TrailBytes, view: RecordView) -> RecordView:
    """Return the records with data that begin after their system keys."""
    rows = view.marked(SYSTEM_KEY)
    if not len(rows):
        return view
    starts = view.data.starts.copy()
    starts[rows] += source.data[view.offsets[rows] + SYSTEM_KEY_AT]
    return replace(view, data=Spans(starts, view.data.ends))


def mark_tokens(source: TrailBytes, view: RecordView, records: int) -> NamedTokens | None:
    """Return the marks of the first records as tokens; None where none has one."""
    found = []
    for row in view.marked(UNDO | SYSTEM_KEY).tolist():
        at, key_at = int(view.offsets[row]), int(view.name_ends[row]) + FRAME
        if row >= records:
            break
        if view.marks[row] & UNDO:
            found.append((row, UNDO_TOKEN, str(source.data[at + UNDO_AT])))
        if view.marks[row] & SYSTEM_KEY:
            key = source.data[key_at : key_at + int(source.data[at + SYSTEM_KEY_AT])]
            found.append((row, SYSTEM_KEY_TOKEN, key.tobytes().hex().upper()))
    if not found:
        return None
    rows, names, values = zip(*found, strict=True)
    return NamedTokens(np.array(rows, np.int64), pa.array(names), pa.array(values))
