"""Check the data of many records: column lists, both images of key updates, pieces, pairs of images."""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Mask
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.inspected import Inspected
from trailgate.trail.format.record_layout import FIELD_COMP
from trailgate.trail.format.record_types import IO_LARGE_OBJECT, IO_UPDATE, PREFIX_OF, Prefix, Role
from trailgate.trail.format.tokens import FRAME
from trailgate.trail.records.kernels import SYSTEM_KEY
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.trail_bytes import Spans, TrailBytes
from trailgate.trail.records.transactions import LAST, begins_of
from trailgate.trail.values.cell_places import hold_cells

PIECE_HEAD: Final = 20  # bytes before the data of a piece (trail format §11)


def check_data(found: Inspected, source: TrailBytes, *, accepted: bool) -> None:
    """Note data that are not what the record's type has; of ``accepted`` records readers know that."""
    if not accepted:
        _check_contents(found, source)
    view = found.view
    alone = (view.role == Role.LARGE_OBJECT) | (view.role == Role.FRAGMENT)
    if alone.any():
        found.note(kinds.ORPHAN, alone & begins_of(found.trans_ind))
    _check_pairs(found)


def _check_contents(found: Inspected, source: TrailBytes) -> None:
    """Note data that are not lists of columns, and pieces that are not as long as they state."""
    view = found.view
    # What continues in fragments is looked at as a whole where it is read.
    listed = (view.role == Role.CHANGE) & (view.partition & FIELD_COMP != 0)
    listed &= (view.continued == 0) & (view.marks & SYSTEM_KEY == 0)
    kinds_of = PREFIX_OF[view.io_type]
    plain = np.flatnonzero(listed & (kinds_of == Prefix.NONE))
    found.note(kinds.COLUMNS, plain[~hold_cells(source, view.data.take(plain))])
    for kind in (Prefix.SHORT, Prefix.LONG):
        rows = np.flatnonzero(listed & (kinds_of == kind))
        if len(rows):
            found.note(kinds.COLUMNS, rows[~_two_images(source, view.data.take(rows), kind)])
    pieces = np.flatnonzero(view.readable & (view.io_type == IO_LARGE_OBJECT))
    if len(pieces):
        size = view.data.sizes[pieces]
        # The last of the head's words is the size of what follows.
        words = source.order.words(source.data, "u4")
        last = np.minimum(view.data.starts[pieces] + PIECE_HEAD - FRAME, view.data.ends[pieces])
        given = words[last]
        found.note(kinds.PIECE, pieces[(size < PIECE_HEAD) | (given + PIECE_HEAD != size)])


def _two_images(source: TrailBytes, areas: Spans, kind: Prefix) -> Mask:
    """Return which areas hold two images of columns, the first one after its length."""
    good = np.zeros(len(areas.starts), bool)
    room = np.flatnonzero(areas.sizes >= int(kind))
    own = areas.take(room)
    starts = own.starts + int(kind)
    borders = starts + source.order.words(source.data, f"u{int(kind)}")[own.starts].astype(np.int64)
    within = borders <= own.ends
    first = Spans(starts[within], borders[within])
    second = Spans(borders[within], own.ends[within])
    good[room[within]] = hold_cells(source, first) & hold_cells(source, second)
    return good


def _check_pairs(found: Inspected) -> None:
    """Note before images without the after image that should follow them."""
    view = found.view
    changes = np.flatnonzero(view.role == Role.CHANGE)
    is_before = view.is_before[changes] & (view.io_type[changes] == IO_UPDATE)
    if not is_before.any():
        return
    before = np.flatnonzero(is_before)
    following = np.minimum(before + 1, len(changes) - 1)
    one, two = changes[before], changes[following]
    good = (following > before) & (view.io_type[two] == IO_UPDATE) & ~view.is_before[two]
    good &= (found.name[one] == found.name[two]) & (found.index[one] == found.index[two])
    good &= (found.trans_ind[one] < 2) & np.isin(found.trans_ind[two], (1, 2))
    found.note(kinds.PAIR, one[~good])


def unfinished(view: RecordView) -> int:
    """Return how many records at the end are of an operation that may continue in what follows."""
    changes = np.flatnonzero(view.role == Role.CHANGE)
    if not len(changes) or (view.role[changes[-1] :] == Role.REFUSED).any():
        return 0
    is_before = view.is_before[changes] & (view.io_type[changes] == IO_UPDATE)
    if view.indicator[-1] >= LAST and not view.continued[-1] and not is_before[-1]:
        return 0
    paired = len(changes) > 1 and is_before[-2]
    return len(view) - int(changes[-2 if paired else -1])
