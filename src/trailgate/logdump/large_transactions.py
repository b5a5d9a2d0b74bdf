"""The largest transactions of a file, for TRANSHIST."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from trailgate.logdump.portions import Portion
from trailgate.logdump.results import LargeTransaction

Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class LargeTransactions:
    """Keeps so many transactions with the most bytes, among those above one of two limits."""

    def __init__(self, keep: int, records: int, data_bytes: int) -> None:
        self._keep, self._records, self._bytes = keep, records, data_bytes
        self._heap: list[tuple[int, int, LargeTransaction]] = []
        self._open: LargeTransaction | None = None

    def add(self, portion: Portion, mask: Mask, number: Longs) -> None:
        """Add the records of a portion; ``number`` is the transaction of each."""
        count = int(number[-1]) + 1
        records = np.bincount(number[mask], minlength=count)
        data = np.bincount(number[mask], portion.data_length[mask], minlength=count)
        firsts = np.searchsorted(number, np.arange(count))
        if number[0] == 0:
            self._go_on(portion, int(records[0]), int(data[0]))
        self._finish()
        if count == 1:
            return
        large = (records >= self._records) | (data >= self._bytes)
        large[0], large[-1] = False, True
        for one in np.flatnonzero(large).tolist():
            row = int(firsts[one])
            self._open = LargeTransaction(
                portion.base + int(portion.offsets[row]),
                int(portion.io_time[row]),
                int(records[one]),
                int(data[one]),
            )
            if one < count - 1:
                self._finish()

    def found(self) -> tuple[LargeTransaction, ...]:
        """Return the transactions, the one with the most bytes first."""
        self._finish()
        return tuple(entry[-1] for entry in sorted(self._heap, reverse=True))

    def _go_on(self, portion: Portion, records: int, data: int) -> None:
        before = self._open or LargeTransaction(
            portion.base + int(portion.offsets[0]), int(portion.io_time[0]), 0, 0
        )
        self._open = LargeTransaction(
            before.offset, before.time, before.records + records, before.data_bytes + data
        )

    def _finish(self) -> None:
        """Keep the open transaction if it is large."""
        one = self._open
        if one is None:
            return
        self._heap = [entry for entry in self._heap if entry[1] != -one.offset]
        if one.records >= self._records or one.data_bytes >= self._bytes:
            heapq.heappush(self._heap, (one.data_bytes, -one.offset, one))
            if len(self._heap) > self._keep:
                heapq.heappop(self._heap)
