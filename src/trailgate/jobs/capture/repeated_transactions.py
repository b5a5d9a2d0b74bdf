"""Detect transactions that are sent twice in one run, so that they are captured once (decision 0022).

A source that restarts may send its recent transactions again. A transaction is the same if its id
and its content are the same. Only hash sums of the operations are remembered, not the operations
themselves.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask
from trailgate.columnar.strings import text_view
from trailgate.columnar.strings_kernels import hash_strings
from trailgate.errors import TransactionError, Where
from trailgate.model.changes import ChangeBatch, ChangeBlock, StateColumn

if TYPE_CHECKING:
    pass

# The multiplier of Knuth's MMIX generator. It is odd, so multiplying modulo 2**64 maps no two values to one.
_FACTOR: Final = 6364136223846793005
# Hashes of strings are smaller, so NULL and missing differ from all of them.
_NULL: Final = 2147483648
_MISSING: Final = 2147483649


# A source that restarts sends at most its recent transactions again, so this many are remembered.
RECENT: Final = 1 << 20
_MISMATCH_HINT: Final = (
    "Two transactions with one id and different content are not a redelivery: do the ids come from the source, and are the messages complete? "
    "--unordered-ids captures both as they are"
)
_GROWN_HINT: Final = "The first of the two may have been cut off when the source stopped. --unordered-ids captures both as they are"


def hash_operations(batch: ChangeBatch) -> Longs:
    """Hash each operation of a batch, to recognize transactions that are sent twice.

    Operations with the same table, type and values have the same hash.
    """
    found = np.zeros(batch.rows, np.int64)
    for block in batch.blocks:
        found[block.order] = _block_hashes(block)
    return found


class HashSums(NamedTuple):
    """Hashes of a part of a transaction: of its first operation (``first``), and summed over all its operations (``every``).

    The sum depends on the order of the operations.
    """

    first: int
    every: int


def hash_sums(numbers: Longs, starts: Longs, before: int) -> list[HashSums]:
    """Add up the hashes of operations for each transaction of a batch.

    `numbers` are the hashes, and `starts` the rows at which transactions begin. The first result is
    of the operations before the first start, which belong to the transaction that is open at the
    beginning. `before` is the number of that transaction's earlier operations. Each operation is
    weighted by its ordinal in the transaction, so the sums of a transaction's parts can be added.
    """
    bounds = np.append(0, starts)
    ordinals = np.arange(len(numbers))
    begins = np.repeat(np.append(-before, starts), np.diff(np.append(bounds, len(numbers))))
    # The weight of operation n of its transaction is an odd number that depends on n, so that
    # operations in another order have another sum. All sums wrap around at 64 bits.
    mixed = (numbers + 1) * ((ordinals - begins) * _FACTOR * 2 + 1)
    totals = np.append(0, np.cumsum(mixed))
    every = np.append(totals[starts], totals[-1]) - totals[bounds]
    # The appended 0 is read for a start at the very end (a transaction without operations here).
    first = np.append(numbers, 0)[bounds]
    return [*map(HashSums, first.tolist(), every.tolist())]


def _block_hashes(block: ChangeBlock) -> Longs:
    found = _strings(pa.array([block.table.name]), 1).repeat(len(block)) * 256 + block.op_type
    # A polynomial hash over all columns; unsigned overflow is intended.
    for image in (block.before, block.after):
        for column in image:
            found = found * _FACTOR + _values(column, len(block))
    return found


def _values(column: StateColumn, rows: int) -> Longs:
    if column.values is None:
        return np.full(rows, _MISSING, np.int64)
    values = column.values
    strings = values if pa.types.is_string(values.type) else pc.cast(values, pa.string())
    found = _strings(pc.fill_null(strings, ""), rows)
    if values.null_count:
        found[np.asarray(values.is_null())] = _NULL
    if column.missing is not None:
        found[column.missing] = _MISSING
    return found


def _strings(values: pa.Array, rows: int) -> Longs:
    offsets, data = text_view(values)
    found = np.empty(rows, np.int64)
    hash_strings(data, offsets, found)
    return found


class _Content(NamedTuple):
    """What is remembered of a transaction's content, to compare a repetition with it.

    This is its number of operations, the hash of the first one, and the sum of all hashes.
    """

    size: int
    first: int
    every: int


_NOTHING: Final = _Content(0, 0, 0)


@dataclass(slots=True)
class RepeatedTransactions:
    """The transactions captured in a run: their ids, numbers of operations and hash sums.

    `dropped` counts the operations of transactions that were sent twice. Only the last `RECENT`
    transactions are remembered.
    """

    dropped: int = 0
    _known: OrderedDict[str, _Content] = field(default_factory=OrderedDict)
    _open: str = ""
    _again: bool = False  # the open one was captured before
    _content: _Content = _NOTHING  # of the open one

    def select_new(self, csn: pa.Array, begins: Mask, numbers: Longs) -> Mask:
        """Return a mask of the operations whose transactions have not been captured before in this run.

        `begins` marks the first operation of each transaction, `numbers` are the operations'
        hashes. Raises TransactionError, with the operation in `where.record`, if a repeated
        transaction does not have the same operations as the first time.
        """
        keep = np.ones(len(csn), bool)
        starts = np.flatnonzero(begins)
        bounds = np.append(starts, len(csn))
        # The operations before the first start belong to the transaction open from the batch
        # before.
        of_open, *others = hash_sums(numbers, starts, self._content.size)
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

    def _add(self, count: int, own: HashSums, keep: Mask, begin: int) -> None:
        """Add `count` operations with the hash sums `own` to the open transaction.

        If it repeats an earlier transaction, they are cleared in the mask `keep`, from the index
        `begin` on. Raises TransactionError if the content of the two differs.
        """
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
            problem = f"the transaction {self._open} is repeated with {self._content.size} operations, but was captured with {known.size}"
            raise TransactionError(problem, where=Where(record=begin), hint=_GROWN_HINT)
        # A redelivered transaction is compared by its first operation at once, and by the sum once
        # it is complete. A shorter one so far may still be incomplete.
        if known.first != own_first or (
            known.size == self._content.size and known != self._content
        ):
            raise self._mismatch(begin)

    def _end(self, begin: int) -> None:
        """End the open transaction, and remember it unless it is a repetition.

        Raises TransactionError if it repeats an earlier one with fewer operations. `begin` is the
        index of the next operation, for the error.
        """
        if self._again and self._content.size < self._known[self._open].size:
            raise self._mismatch(max(begin - 1, 0))
        if self._again or not self._content.size:
            return
        self._known[self._open] = self._content
        if len(self._known) > RECENT:
            self._known.popitem(last=False)

    def _mismatch(self, row: int) -> TransactionError:
        problem = f"the transaction {self._open} is repeated with other operations"
        return TransactionError(problem, where=Where(record=row), hint=_MISMATCH_HINT)
