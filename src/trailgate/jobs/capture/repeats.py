"""Transactions that a source sends again: dropped where they were captured in the same run, with the same id and content."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import TransactionError, Where
from trailgate.jobs.capture.content_numbers import Sums, sums

RECENT: Final = (
    1 << 20
)  # transactions that are remembered; a source that starts again does not go back further
_OTHER: Final = (
    "Transactions of one id and different content are not one that was sent twice: are ids those of the source, and the messages whole? "
    "--unordered-ids captures both as they are"
)
_HINT: Final = "The first of the two may have been cut off where the source stopped. --unordered-ids captures both as they are"


class _Content(NamedTuple):
    """What a transaction has: how many operations, and numbers that stand for the first and for all of them."""

    size: int
    first: int
    every: int


_NOTHING: Final = _Content(0, 0, 0)


@dataclass(slots=True)
class Repeats:
    """The ids of the transactions of a run, how many operations each has, and numbers that stand for these; ``dropped`` counts operations that came again."""

    dropped: int = 0
    _known: OrderedDict[str, _Content] = field(default_factory=OrderedDict)
    _open: str = ""
    _again: bool = False  # the open one was captured before
    _content: _Content = _NOTHING  # of the open one

    def fresh(self, csn: pa.Array, begins: Mask, numbers: Longs) -> Mask:
        """Return which operations were not captured before.

        ``begins`` marks the first one of each transaction, ``numbers`` stand for the content of operations. Raises TransactionError, with the
        operation as its record, for a transaction that has more operations the second time, or others.
        """
        keep = np.ones(len(csn), bool)
        starts = np.flatnonzero(begins)
        bounds = np.append(starts, len(csn))
        of_open, *others = sums(numbers, starts, self._content.size)
        self._add(int(bounds[0]), of_open, keep, 0)
        sizes: Longs = np.diff(bounds)
        names = csn.take(pa.array(starts)).to_pylist()
        for name, begin, size, own in zip(
            names, starts.tolist(), sizes.tolist(), others, strict=True
        ):
            self._end(begin)
            self._open, self._content, self._again = name, _NOTHING, name in self._known
            self._add(size, own, keep, begin)
        return keep

    def _add(self, count: int, own: Sums, keep: Mask, begin: int) -> None:
        """Add operations to the open transaction; raises TransactionError where it was captured with fewer, or with others."""
        if not count:
            return
        size, first, every = self._content
        own_first = first if size else own.first
        self._content = _Content(size + count, own_first, (every + own.every) % (1 << 64))
        if not self._again:
            return
        keep[begin : begin + count] = False
        self.dropped += count
        known = self._known[self._open]
        if self._content.size > known.size:
            problem = f"the transaction {self._open} comes again with {self._content.size} operations, and was captured with {known.size}"
            raise TransactionError(problem, where=Where(record=begin), hint=_HINT)
        if known.first != own_first or (
            known.size == self._content.size and known != self._content
        ):
            raise self._other(begin)

    def _end(self, begin: int) -> None:
        """Remember the transaction that was open; raises TransactionError for one that has fewer operations than were captured."""
        if self._again and self._content.size < self._known[self._open].size:
            raise self._other(max(begin - 1, 0))
        if self._again or not self._content.size:
            return
        self._known[self._open] = self._content
        if len(self._known) > RECENT:
            self._known.popitem(last=False)

    def _other(self, row: int) -> TransactionError:
        problem = f"the transaction {self._open} comes again with other operations"
        return TransactionError(problem, where=Where(record=row), hint=_OTHER)
