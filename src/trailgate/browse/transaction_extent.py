"""Find the end of a transaction, and count its operations by table and type.

A page shows 100 operations of a transaction, but it may have millions. They are counted from their
record headers, which reads some hundred megabytes per second.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from threading import Lock
from time import monotonic
from typing import Final

import numpy as np
import pyarrow.compute as pc

from trailgate.arrays import Longs, Octets
from trailgate.browse.filters import OperationFilters
from trailgate.browse.index import TrailIndex
from trailgate.browse.operation_search import BEGINS, ENDS, OperationSearch
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.model.changes import ChangeBatch
from trailgate.model.positions import long_position, parse_position
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.reading.images import ReadSelection

SECONDS: Final = 1.0  # the time in which a page counts
_BEGINS: Final = np.frombuffer(BEGINS.encode(), np.uint8)
_ENDS: Final = np.frombuffer(ENDS.encode(), np.uint8)
_HEADERS: Final = ReadSelection(columns=frozenset(), tokens=False, ids=False)


@dataclass(slots=True)
class TransactionExtent:
    """The extent of one transaction: its operations by table and type, their times, and its end.

    ``stop`` is the position after the transaction, or None if its end was not found. If counting
    took too long, ``counted_to`` is the position at which it stopped, otherwise None.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    first_time: int | None = None
    last_time: int = 0
    stop: TrailPosition | None = None
    counted_to: TrailPosition | None = None
    lock: Lock = field(default_factory=Lock, compare=False)

    @property
    def operations(self) -> int:
        """The number of operations of the transaction that were counted so far."""
        return self.counts.total()

    @property
    def duration(self) -> int:
        """The microseconds between the first and the last operation of the transaction."""
        return max(0, self.last_time - (self.first_time or 0))

    def add(self, batch: ChangeBatch, begin: TrailPosition) -> None:
        """Count the operations of a batch from the transaction's beginning up to its end, and find the end."""
        # Blocks are per table. Put their columns back into the order of the batch.
        indicator = np.zeros(batch.rows, np.uint8)
        time = np.zeros(batch.rows, np.int64)
        after_begin = np.zeros(batch.rows, bool)
        for block in batch.blocks:
            indicator[block.order], time[block.order] = block.tx_ind, block.op_ts
            after_begin[block.order] = pc.greater_equal(block.position, long_position(*begin))
        rows = np.flatnonzero(after_begin)
        if not len(rows):
            return
        last = self._last(batch, indicator, rows)
        if last < 0:
            return
        for block in batch.blocks:
            kinds = block.op_type[after_begin[block.order] & (block.order <= last)]
            for kind, count in zip(*np.unique(kinds, return_counts=True), strict=True):
                self.counts[block.table.name, chr(kind)] += int(count)
        if self.first_time is None:
            self.first_time = int(time[rows[0]])
        self.last_time = int(time[last])

    def _last(self, batch: ChangeBatch, indicator: Octets, rows: Longs) -> int:
        """Return the last row of the transaction, or -1 if the first row begins another one.

        A transaction ends with an operation whose indicator marks an end. If the writer was
        restarted in the middle, there is no such operation, and the transaction ends before the
        next one begins.
        """
        begins = np.flatnonzero(np.isin(indicator[rows], _BEGINS))
        if self.first_time is None:
            # the transaction's own first row does not end it
            begins = begins[begins > 0]
        ends = np.flatnonzero(np.isin(indicator[rows], _ENDS))
        next_begin = int(begins[0]) if len(begins) else len(rows)
        end = int(ends[0]) if len(ends) else len(rows)
        if end < next_begin:
            last = int(rows[end])
            self.stop = _position(batch, last).just_after
            return last
        if next_begin < len(rows):
            self.stop = _position(batch, int(rows[next_begin]))
        return int(rows[next_begin - 1]) if next_begin else -1


def _position(batch: ChangeBatch, row: int) -> TrailPosition:
    """Return the trail position of the operation at ``row`` of a batch."""
    block = next(one for one in batch.blocks if row in one.order)
    at = int(np.flatnonzero(block.order == row)[0])
    return TrailPosition(*parse_position(block.position[at].as_py()))


def measure_transaction(
    index: TrailIndex, begin: TrailPosition, known: TransactionExtent | None = None
) -> TransactionExtent:
    """Find the end of the transaction that begins at a position, and count its operations.

    ``known`` is the extent from an earlier call, if there was one. It is updated: a count that took
    too long continues, and a transaction without an end is counted again.
    """
    extent = TransactionExtent() if known is None else known
    with extent.lock:
        if extent.stop is None:
            _count_on(index, begin, extent)
        return replace(extent, counts=Counter(extent.counts), lock=Lock())


def _count_on(index: TrailIndex, begin: TrailPosition, extent: TransactionExtent) -> None:
    """Count a transaction's operations, or continue to count them, for some seconds, but at least in one span."""
    if extent.counted_to is None:
        # Without an end the transaction may have grown.
        extent.counts.clear()
        extent.first_time = None
    place, extent.counted_to = extent.counted_to or begin, None
    until = monotonic() + SECONDS
    for number, span in enumerate(OperationSearch(index, OperationFilters(), place).spans()):
        if number and monotonic() > until:
            extent.counted_to = span.begin
            return
        for part in read_span(index, span, _HEADERS, place):
            if not isinstance(part, UnreadOperations):
                extent.add(part, begin)
            if extent.stop is not None:
                return
