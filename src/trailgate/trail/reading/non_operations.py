"""Records that are not part of operations are left out before the columns are read.

Metadata records change what a table index means, so they are decoded here, one by one; they are
few. Everything else stays with the bulk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.trail.format.record_types import Role
from trailgate.trail.records.kernels import MIN_RECORD
from trailgate.trail.records.metadata import TrailTables
from trailgate.trail.records.record import TrailRecord, decode_record
from trailgate.trail.records.record_view import RecordView
from trailgate.trail.records.trail_bytes import TrailBytes
from trailgate.trail.records.transactions import LAST, stands_apart


@dataclass(frozen=True, slots=True)
class OperationRecords:
    """The records that remain, of the first ``cut`` ones, and the tables known after those.

    ``kept`` is the place of each among all; None: all remain.
    """

    view: RecordView
    tables: TrailTables
    cut: int
    kept: Longs | None = None

    def taken(self, records: int) -> int:
        """Return how many of all records are done when so many of the remaining ones are."""
        if self.kept is None:
            return records
        return int(self.kept[records]) if records < len(self.kept) else self.cut


def without_non_operations(
    source: TrailBytes, view: RecordView, tables: TrailTables, *, tx_open: bool
) -> OperationRecords:
    """Return the records without metadata, restart records and notes that are a whole transaction.

    A note within a transaction (a sequence's) stays, since it may be what begins or ends it; one that is a
    transaction of its own (a DDL record) is not part of the transaction around it. The records are cut where an index gets a
    new meaning. Raises DecodeError at a restart inside a transaction: whoever has the whole file leaves out what was abandoned.
    """
    cut = len(view)
    # Roles from METADATA on are those of records that change no rows.
    if view.only_changes or not (view.role >= Role.METADATA).any():
        return OperationRecords(view, tables, cut)
    dropped = stands_apart(view)
    decisive = (view.role == Role.METADATA) | (view.role == Role.ABEND)
    for row in np.flatnonzero(decisive).tolist():
        if view.role[row] == Role.ABEND:
            _check_closed(source, view, dropped[:row], tx_open=tx_open)
            continue
        place = int(view.offsets[row])
        record = decode_record(source.data, place, order=source.order, base=source.base)
        known = tables.with_record(record)
        if _changes(tables, known, record) and (~dropped[:row]).any():
            cut = row
            break
        tables = known
    if not dropped.any():
        return OperationRecords(view, tables, cut)
    kept = np.flatnonzero(~dropped[:cut])
    together = len(kept) and kept[-1] - kept[0] == len(kept) - 1
    # Metadata records mostly come first: then the columns are shared.
    rows = slice(int(kept[0]), int(kept[-1]) + 1) if together else kept
    return OperationRecords(view.take(rows), tables, cut, kept)


def _changes(old: TrailTables, new: TrailTables, record: TrailRecord) -> bool:
    """Return whether an index that was known means something else after a record."""
    index = record.metadata_indexes[1]
    before, after = old.tables.get(index), new.tables.get(index)
    if before is None or after is None:
        return False
    return (before.name, before.table) != (after.name, after.table)


def _check_closed(source: TrailBytes, view: RecordView, dropped: Mask, *, tx_open: bool) -> None:
    rows = np.flatnonzero(~dropped)
    if len(rows):
        tx_open = bool(view.indicator[rows[-1]] < LAST)
    if tx_open:
        start = int(view.offsets[len(dropped)])
        raise source.error(
            "a restart record inside a transaction: what comes before it was abandoned",
            (start, start + MIN_RECORD),
            hint="Read the trail as a whole, which leaves out the abandoned part",
        )
