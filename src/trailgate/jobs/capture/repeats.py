"""Transactions that a source sends again: dropped where they were captured in the same run, whole and with the same id."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import TransactionError, Where

RECENT: Final = (
    1 << 20
)  # transactions that are remembered; a source that starts again does not go back further
_HINT: Final = "The first of the two may have been cut off where the source stopped. --unordered-ids captures both as they are"


@dataclass(slots=True)
class Repeats:
    """The ids of the transactions of a run and how many operations each has; ``dropped`` counts operations that came again."""

    dropped: int = 0
    _known: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _open: str = ""
    _again: bool = False  # the open one was captured before
    _size: int = 0  # operations of the open one

    def fresh(self, csn: pa.Array, begins: Mask) -> Mask:
        """Return which operations were not captured before.

        ``begins`` marks the first one of each transaction. Raises TransactionError, with the operation as its record, for a transaction that has
        more operations the second time.
        """
        keep = np.ones(len(csn), bool)
        starts = np.flatnonzero(begins)
        bounds = np.append(starts, len(csn))
        first = int(bounds[0])
        self._add(first, keep, 0)
        sizes: Longs = np.diff(bounds)
        names = csn.take(pa.array(starts)).to_pylist()
        for name, begin, size in zip(names, starts.tolist(), sizes.tolist(), strict=True):
            self._end()
            self._open, self._size, self._again = name, 0, name in self._known
            self._add(size, keep, begin)
        return keep

    def _add(self, count: int, keep: Mask, begin: int) -> None:
        """Count operations of the open transaction; raises TransactionError for more than were captured."""
        self._size += count
        if not self._again:
            return
        keep[begin : begin + count] = False
        self.dropped += count
        known = self._known[self._open]
        if self._size > known:
            problem = f"the transaction {self._open} comes again with {self._size} operations, and was captured with {known}"
            raise TransactionError(problem, where=Where(record=begin), hint=_HINT)

    def _end(self) -> None:
        """Remember the transaction that was open."""
        if self._again or not self._size:
            return
        self._known[self._open] = self._size
        if len(self._known) > RECENT:
            self._known.popitem(last=False)
