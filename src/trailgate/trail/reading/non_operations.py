"""Records that are no part of operations are taken out before the columns are read.

Metadata records change what a table index means, so they are decoded here, one by one; they are
few. Everything else stays with the bulk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from trailgate.arrays import Longs
from trailgate.trail.format.framing import IO_TYPE_AT, MIN_RECORD, Records
from trailgate.trail.format.metadata import TrailTables
from trailgate.trail.format.record import TrailRecord, decode_record
from trailgate.trail.format.record_header import Source
from trailgate.trail.format.record_types import ROLE_OF, Role

TRANS_IND_AT = 36  # in a record
ALONE = 3  # TransInd of a record that is a transaction of its own


@dataclass(frozen=True, slots=True)
class Plain:
    """The records that remain, of the first ``cut`` ones, and what the metadata among those tell.

    ``kept`` is the place of each among all; None says that all remain.
    """

    offsets: Longs
    lengths: Longs
    tables: TrailTables
    cut: int
    kept: Longs | None = None

    def taken(self, records: int) -> int:
        """Return how many of all records are done when so many of the remaining ones are."""
        if self.kept is None:
            return records
        return int(self.kept[records]) if records < len(self.kept) else self.cut


def without_rare(source: Source, places: Records, tables: TrailTables, *, tx_open: bool) -> Plain:
    """Return the records without metadata, restart records and notes that stand alone.

    A note within a transaction (a sequence's) stays, since it may be what begins or ends it; one that says it is a
    transaction of its own (a DDL record) tells nothing of the transaction around it. A chunk is cut where an index gets a new meaning. Raises DecodeError at a restart inside a
    transaction: whoever has the whole file leaves out what was abandoned.
    """
    types = source.data[np.minimum(places.offsets + IO_TYPE_AT, len(source.data) - 1)]
    role = ROLE_OF[types]
    rare = (role == Role.METADATA) | (role == Role.ABEND)
    note = role == Role.NOTE
    if not rare.any() and not note.any():
        return Plain(places.offsets, places.lengths, tables, len(places.offsets))
    dropped = rare | (note & (_indicators(source, places) == ALONE))
    cut = len(places.offsets)
    for row in np.flatnonzero(rare).tolist():
        if role[row] == Role.ABEND:
            _check_closed(source, places, dropped[:row], tx_open=tx_open)
            continue
        place = int(places.offsets[row])
        record = decode_record(source.data, place, order=source.order, base=source.base)
        known = tables.with_record(record)
        if _changes(tables, known, record) and (~dropped[:row]).any():
            cut = row
            break
        tables = known
    kept = np.flatnonzero(~dropped[:cut])
    return Plain(places.offsets[kept], places.lengths[kept], tables, cut, kept)


def _indicators(source: Source, places: Records) -> npt.NDArray[np.uint8]:
    return source.data[np.minimum(places.offsets + TRANS_IND_AT, len(source.data) - 1)]


def _changes(old: TrailTables, new: TrailTables, record: TrailRecord) -> bool:
    """Return whether an index that was known means something else behind a record."""
    index = record.metadata_indexes[1]
    before, behind = old.tables.get(index), new.tables.get(index)
    if before is None or behind is None:
        return False
    return (before.name, before.table) != (behind.name, behind.table)


def _check_closed(
    source: Source, places: Records, dropped: npt.NDArray[np.bool_], *, tx_open: bool
) -> None:
    rows = np.flatnonzero(~dropped)
    if len(rows):
        at = int(places.offsets[rows[-1]]) + TRANS_IND_AT
        tx_open = bool(source.data[at] < 2)
    if tx_open:
        start = int(places.offsets[len(dropped)])
        raise source.error(
            "a restart record inside a transaction: what stands in front of it was abandoned",
            (start, start + MIN_RECORD),
            hint="Read the trail as a whole, which leaves out the abandoned part",
        )
