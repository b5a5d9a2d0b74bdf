"""Check the data of many records: column lists, both images of key updates, pieces, pairs of images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask, Octets
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.chains import Chained, column_faults
from trailgate.trail.checking.inspected import Inspected
from trailgate.trail.format.framing import Records
from trailgate.trail.format.record_layout import BEFORE_IMAGE, FIELD_COMP, NAME_AT
from trailgate.trail.format.record_types import IO_LARGE_OBJECT, IO_UPDATE, PREFIX_OF, Prefix, Role
from trailgate.trail.format.tokens import FRAME

PIECE_HEAD: Final = 20  # bytes in front of the data of a piece (trail format §11)


def check_data(
    found: Inspected, chained: Chained, head: npt.NDArray[Any], data: tuple[Longs, Longs]
) -> None:
    """Note data that are not what the record's type has; ``data`` is where they lie."""
    change = found.role == Role.CHANGE
    listed = change & (head["partition"] & FIELD_COMP != 0)
    starts, ends = data
    found.note(kinds.LAYOUT, change & ~listed & (ends > starts))
    prefix = PREFIX_OF[found.io_type]
    plain = np.flatnonzero(listed & (prefix == Prefix.NONE))
    found.note(kinds.COLUMNS, plain[column_faults(chained, starts[plain], ends[plain])])
    for rows, width in _prefixed(listed, prefix):
        found.note(kinds.COLUMNS, rows[_image_faults(chained, (starts[rows], ends[rows]), width)])
    pieces = np.flatnonzero(found.readable & (found.io_type == IO_LARGE_OBJECT))
    if len(pieces):
        size = ends[pieces] - starts[pieces]
        said = chained.frames[np.minimum(starts[pieces] + PIECE_HEAD - FRAME, ends[pieces])]
        found.note(kinds.PIECE, pieces[(size < PIECE_HEAD) | (said + PIECE_HEAD != size)])
    alone = (found.role == Role.LARGE_OBJECT) | (found.role == Role.FRAGMENT)
    if alone.any():
        found.note(kinds.ORPHAN, alone & ((found.trans_ind == 0) | (found.trans_ind == 3)))
    _check_pairs(found)


def _prefixed(listed: Mask, prefix: Octets) -> Iterator[tuple[Longs, int]]:
    for kind, width in ((Prefix.SHORT, 2), (Prefix.LONG, 4)):
        rows = np.flatnonzero(listed & (prefix == kind))
        if len(rows):
            yield rows, width


def _image_faults(chained: Chained, data: tuple[Longs, Longs], width: int) -> Longs:
    """Return the rows whose two images, the first one behind its length, are no column lists."""
    starts, ends = data
    room = ends - starts >= width
    words = chained.order.words(chained.data, f"u{width}")[np.where(room, starts, 0)]
    border = starts + width + words.astype(np.int64)
    good = np.flatnonzero(room & (border <= ends))
    bad = [np.setdiff1d(np.arange(len(starts)), good)]
    for first, last in ((starts + width, border), (border, ends)):
        bad.append(good[column_faults(chained, first[good], last[good])])
    return np.unique(np.concatenate(bad))


def _check_pairs(found: Inspected) -> None:
    """Note before images without the after image behind them."""
    changes = np.flatnonzero(found.role == Role.CHANGE)
    is_before = found.is_before[changes] & (found.io_type[changes] == IO_UPDATE)
    if not is_before.any():
        return
    before = np.flatnonzero(is_before)
    behind = np.minimum(before + 1, len(changes) - 1)
    one, two = changes[before], changes[behind]
    good = (behind > before) & (found.io_type[two] == IO_UPDATE) & ~found.is_before[two]
    good &= (found.name[one] == found.name[two]) & (found.index[one] == found.index[two])
    good &= (found.trans_ind[one] < 2) & np.isin(found.trans_ind[two], (1, 2))
    found.note(kinds.PAIR, one[~good])


def trailing_befores(data: Octets, records: Records) -> int:
    """Return how many records at the end are before images, whose after images follow."""
    count = 0
    for place in records.offsets[::-1].tolist():
        if place + NAME_AT > len(data) or data[place + 11] != BEFORE_IMAGE:
            break
        if data[place + 14] != IO_UPDATE:
            break
        count += 1
    return count
