"""Check many records at once: header, parts, names, columns and tokens, and note what is wrong where.

The rules are those by which readers refuse a record (``trail.format.record_header``), but nothing is raised: a fault
is a kind and the records that have it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs, Mask, Octets
from trailgate.columnar.views import rows_at
from trailgate.trail.checking import findings as kinds
from trailgate.trail.checking.areas import areas_of, names_of, texts_of
from trailgate.trail.checking.chains import Chained, token_faults
from trailgate.trail.checking.data import check_data
from trailgate.trail.checking.inspected import UNKNOWN, Inspected
from trailgate.trail.format.byte_order import ByteOrder
from trailgate.trail.format.framing import Records
from trailgate.trail.format.record_header import swapped_indicators
from trailgate.trail.format.record_layout import (
    AFTER_IMAGE,
    BEFORE_IMAGE,
    FETCHED,
    FROM_LOG,
    H_FIXED,
    INDICATOR,
    NAME_AT,
    RECORD_HEADS,
    SHORTEST,
)
from trailgate.trail.format.record_types import RECORD_TYPES, ROLE_OF, Role
from trailgate.trail.format.times import JULIAN_EPOCH
from trailgate.trail.format.tokens import FRAME, HEADER

# 1990-01-01 and 2100-01-01 UTC: an IO time beyond them is no time of a change.
EARLIEST: Final = 631_152_000_000_000 + JULIAN_EPOCH
LATEST: Final = 4_102_444_800_000_000 + JULIAN_EPOCH


def _by_type(image: str) -> Mask:
    table = np.zeros(256, bool)
    for row in RECORD_TYPES.values():
        table[row.code] = image not in row.image
    table.setflags(write=False)
    return table


_NEVER: Final = (_by_type("A"), _by_type("B"))


def inspect(data: Octets, records: Records, order: ByteOrder) -> Inspected:
    """Return the records at these places of ``data``; whatever they hold."""
    offsets, lengths = records.offsets, records.lengths
    head, fits = _heads(data, offsets, lengths, order)
    limit = offsets + lengths - FRAME
    name_end = offsets + 2 * FRAME + head["h_length"]
    readable = fits & (head["h_id"] == HEADER) & (head["indicator"] == INDICATOR)
    readable &= (head["h_length"] > H_FIXED) & (name_end <= limit)
    role = np.where(readable, ROLE_OF[head["io_type"]], Role.REFUSED).astype(np.uint8)
    chained = Chained(data, order.frames(data), order)
    areas = areas_of(chained, np.where(readable, name_end, limit), limit)
    token_bad, csn, tx = token_faults(chained, *areas.tokens)
    name, names, index, name_bad = names_of(chained, head, (offsets, name_end), readable)
    csn_texts, tx_texts = (texts_of(data, found) for found in (csn, tx))
    found = Inspected(
        offsets,
        lengths,
        readable,
        np.ascontiguousarray(head["io_type"]),
        role,
        _trans_ind(head, order, readable),
        readable & (head["image"] == BEFORE_IMAGE),
        head["io_time"].astype(np.int64) - JULIAN_EPOCH,
        name,
        names,
        index,
        csn_texts[:2],
        tx_texts[:2],
    )
    found.note(kinds.UNREADABLE, ~readable)
    found.note(kinds.PARTS, readable & (areas.over | (areas.size != head["data_length"])))
    found.note(kinds.EXTRA_PART, readable & areas.extra)
    found.note(kinds.NAME, name_bad)
    found.note(kinds.TOKENS, np.concatenate([token_bad, csn_texts[2], tx_texts[2]]))
    _check_fixed(found, head)
    check_data(found, chained, head, areas.data)
    return found


def _heads(
    data: Octets, offsets: Longs, lengths: Longs, order: ByteOrder
) -> tuple[npt.NDArray[Any], Mask]:
    """Return the fixed bytes of each record, zeros for one that is too short to have them."""
    fits = lengths >= SHORTEST
    if fits.all():
        return rows_at(data, offsets, NAME_AT).view(RECORD_HEADS[order]).reshape(-1), fits
    head = np.zeros(len(offsets), RECORD_HEADS[order])
    head[fits] = rows_at(data, offsets[fits], NAME_AT).view(RECORD_HEADS[order]).reshape(-1)
    return head, fits


def _trans_ind(head: npt.NDArray[Any], order: ByteOrder, readable: Mask) -> Octets:
    found = head["trans_ind"]
    if (found > 3).any():
        found = np.where(found > 3, swapped_indicators(head, order), found)
    return np.where(readable & (found <= 3), found, UNKNOWN).astype(np.uint8)


def _check_fixed(found: Inspected, head: npt.NDArray[Any]) -> None:
    readable, io_type, image = found.readable, found.io_type, head["image"]
    after = image == AFTER_IMAGE
    wrong = np.where(after, _NEVER[0][io_type], _NEVER[1][io_type])
    found.note(kinds.IMAGE, readable & (wrong | ~(after | found.is_before)))
    found.note(kinds.FORMAT, readable & (head["format"] != FROM_LOG) & (head["format"] != FETCHED))
    unknown = found.role == Role.REFUSED
    if unknown.any():
        named = np.isin(io_type, list(RECORD_TYPES))
        found.note(kinds.TYPE, readable & unknown & ~named)
        found.note(kinds.NOT_READ, readable & unknown & named)
    odd = readable & (head["trans_ind"] > 3)
    # One printed 11.2.1.0.1 record has TransInd elsewhere (trail format §5): then it is known.
    found.note(kinds.TRANS_IND, odd & (found.trans_ind == UNKNOWN))
    change = found.role == Role.CHANGE
    untimely = (head["io_time"] < EARLIEST) | (head["io_time"] > LATEST)
    found.note(kinds.IO_TIME, readable & change & untimely)
