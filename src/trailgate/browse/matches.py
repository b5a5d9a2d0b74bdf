"""Summarize the operations that pass filters: their number, their times, and their tables, owners and transactions.

A page shows 100 rows, but questions such as "when was the spike, and what caused it?" need counts
of all matching operations. A ``MatchSummary`` counts them span by span and can be continued: a page
shows the counts so far, and asks for more until everything is counted.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.browse.filters import OperationFilters
from trailgate.browse.histogram import TimeHistogram
from trailgate.browse.index import KIND_OF_LETTER, NO_KIND, TrailIndex
from trailgate.browse.operation_search import OperationSearch
from trailgate.browse.spans import UnreadOperations, read_span
from trailgate.model.changes import ChangeBatch, ChangeBlock
from trailgate.storage.files.trail_files import TrailPosition
from trailgate.trail.record_checks import EARLIEST, LATEST

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

KEPT: Final = 8  # results that are kept
TOP: Final = 8  # tables, owners and transactions listed
NAMES: Final = 10_000  # with more distinct names than this, rare ones are dropped
AT_ONCE: Final = 8 << 20  # a trail of at most this many bytes is counted before its page is shown


@dataclass(slots=True)
class NameCounts:
    """Counts of the matching operations by name, such as owner or transaction id, in bounded memory.

    If there are too many names, the rarest are dropped, because pages only show the most frequent
    ones. The operations of a transaction are contiguous in a trail, so the count of a dropped
    transaction id would not have grown. Names of the latest batch are kept, because their
    transaction may continue.
    """

    counts: Counter[str] = field(default_factory=Counter)
    latest: set[str] = field(default_factory=set)

    def start_batch(self) -> None:
        """Begin to count a batch: drop the rarest names if there are too many."""
        if len(self.counts) > NAMES:
            kept = {name for name, _ in self.counts.most_common(NAMES // 10)} | self.latest
            self.counts = Counter({name: self.counts[name] for name in kept})
        self.latest = set()

    def add(self, names: pa.Array | None, rows: pa.Array) -> None:
        """Count the names in the rows of a block that a mask selects. NULL is not counted."""
        if names is not None:
            found = pc.value_counts(pc.drop_null(pc.filter(names, rows)))
            counted = dict(zip(*(part.to_pylist() for part in found.flatten()), strict=True))
            self.counts.update(counted)
            self.latest |= counted.keys()


@dataclass(slots=True)
class MatchSummary:
    """Counts of the operations that pass filters, up to the position ``reached``.

    ``uncharted`` is the number of matches that are not in the histogram: their time is before 1990
    or after 2100, or their operation type is unknown. ``unread`` is the number of parts of the
    trail that cannot be decoded, so that it is unknown whether they match.
    """

    filters: OperationFilters
    over_time: TimeHistogram = field(default_factory=lambda: TimeHistogram(NO_KIND))
    tables: Counter[str] = field(default_factory=Counter)
    owners: NameCounts = field(default_factory=NameCounts)
    transactions: NameCounts = field(default_factory=NameCounts)
    matches: int = 0
    uncharted: int = 0
    unread: int = 0
    reached: TrailPosition | None = None
    lock: Lock = field(default_factory=Lock)

    def is_complete(self, index: TrailIndex) -> bool:
        """Return whether the operations that pass the filters are counted in the complete index."""
        return index.ends_at(self.reached)

    def count_on(self, index: TrailIndex, seconds: float) -> None:
        """Count matches in further spans for about ``seconds``, in at least one span."""
        until = monotonic() + seconds
        with self.lock:
            # The locks are always taken in this order: first the result's, then the index's. The
            # index's lock is released before the search, which takes it itself.
            with index.lock:
                end = index.spans[-1].stop if index.spans else None
            for number, span in enumerate(
                OperationSearch(index, self.filters, self.reached).spans()
            ):
                # ``number`` is 0 for the first span, so that each call makes progress, however
                # short the time.
                if number and monotonic() > until:
                    self.reached = span.begin
                    return
                for part in read_span(index, span, self.filters.tested):
                    if isinstance(part, UnreadOperations):
                        self.unread += 1
                    else:
                        self._add_batch(part)
                self.reached = span.stop
            # Spans that were indexed meanwhile may have been counted too.
            self.reached = max(filter(None, (self.reached, end)), default=None)

    def _add_batch(self, batch: ChangeBatch) -> None:
        self.owners.start_batch()
        self.transactions.start_batch()
        for block in batch.blocks:
            self._add(block)

    def _add(self, block: ChangeBlock) -> None:
        passed = self.filters.matching(block)
        count = int(passed.sum())
        if not count:
            return
        self.matches += count
        self.tables[block.table.name] += count
        rows = pa.array(passed)
        self.owners.add(block.tx_owner, rows)
        self.transactions.add(block.tx_id, rows)
        kinds = KIND_OF_LETTER[block.op_type]
        # One wrong time, such as the year 9999, would make the bins of all others too wide.
        charted = passed & (block.op_ts >= EARLIEST) & (block.op_ts <= LATEST) & (kinds != NO_KIND)
        times = block.op_ts[charted]
        self.uncharted += count - len(times)
        if len(times):
            bounds = int(times.min()), int(times.max())
            self.over_time.add(times, kinds[charted].astype(np.int64), bounds)


class LatestResults(Generic[K, R]):
    """A cache of the results for the latest requests, so that turning pages does not count matches again."""

    def __init__(self, make: Callable[[K], R]) -> None:
        self._make = make
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, R] = OrderedDict()

    def of(self, index: TrailIndex, asked: K) -> R:
        """Return the cached result for the request ``asked``, or a new empty one.

        A cached result may be incomplete: the caller then counts further. After the index was
        rebuilt, or files were purged, earlier results are not used.
        """
        with self._lock, index.lock:
            # A rebuilt index has new spans, and purged files cannot be counted any more.
            key = asked, index.builds, frozenset(index.gone)
            if key not in self._kept:
                self._kept[key] = self._make(asked)
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return self._kept[key]
