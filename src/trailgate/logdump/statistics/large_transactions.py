"""The largest transactions of a file, for TRANSHIST."""

from __future__ import annotations

import heapq

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.logdump.records.portions import Portion
from trailgate.logdump.records.transaction_numbers import BEFORE
from trailgate.logdump.statistics.tallies import LargeTransaction


class LargeTransactions:
    """Keeps so many transactions with the most bytes, among those above one of two limits."""

    def __init__(self, keep: int, records: int, data_bytes: int) -> None:
        self._keep, self._records, self._bytes = keep, records, data_bytes
        self._heap: list[tuple[int, int, LargeTransaction]] = []
        self._open: LargeTransaction | None = None

    def add(self, portion: Portion, mask: Mask) -> None:
        """Add the records of a portion that a mask leaves."""
        numbers = portion.numbers
        count = len(numbers.firsts) + 1
        records = np.bincount(numbers.number[mask], minlength=count)
        data = np.bincount(numbers.number[mask], portion.view.data_length[mask], minlength=count)
        if (numbers.number == BEFORE).any():
            self._continue_file(portion, int(records[BEFORE]), int(data[BEFORE]))
        if numbers.open != BEFORE:
            self._finish()
        large = (records >= self._records) | (data >= self._bytes)
        large[BEFORE] = False
        for at in np.flatnonzero(large).tolist():
            if at != numbers.open:
                self._keep_one(self._one(portion, at, records, data))
        if numbers.open > BEFORE:
            self._open = self._one(portion, numbers.open, records, data)

    def _one(self, portion: Portion, number: int, records: Longs, data: Longs) -> LargeTransaction:
        row = int(portion.numbers.firsts[number - 1])
        return _transaction(portion, row, int(records[number]), int(data[number]))

    def found(self) -> tuple[LargeTransaction, ...]:
        """Return the transactions, the one with the most bytes first."""
        self._finish()
        return tuple(entry[-1] for entry in sorted(self._heap, reverse=True))

    def _continue_file(self, portion: Portion, records: int, data: int) -> None:
        before = self._open or _transaction(portion, 0, 0, 0)
        self._open = LargeTransaction(
            before.offset, before.time, before.records + records, before.data_bytes + data
        )

    def _finish(self) -> None:
        """Keep the open transaction if it is large."""
        one, self._open = self._open, None
        if one and (one.records >= self._records or one.data_bytes >= self._bytes):
            self._keep_one(one)

    def _keep_one(self, one: LargeTransaction) -> None:
        heapq.heappush(self._heap, (one.data_bytes, -one.offset, one))
        if len(self._heap) > self._keep:
            heapq.heappop(self._heap)


def _transaction(portion: Portion, row: int, records: int, data: int) -> LargeTransaction:
    place = portion.source.base + int(portion.view.offsets[row])
    return LargeTransaction(place, int(portion.view.io_time[row]), records, data)
