"""Check that operations continue the transactions of the operations before them, across batches and parts.

A trail contains the transaction's id only in the transaction's first record, so an operation in the
wrong place would be read back with a different id. ``check_continuation`` rejects operations of a
batch that do not fit; live trails use it alone. ``TransactionChain`` checks all batches of a part in
this way; it is used for streams, whose transactions may span parts and batches. Neither notices
rows that are missing between the first and the last of a transaction, since an operation has no
number in its transaction.
``RepairingTransactionChain`` is used for DataFrames: if operations of a transaction were filtered
out, it recomputes the indicators of the rest (decision 0059). Both chains check ids and positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Mask
from trailgate.errors import TransactionError, Where
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch
from trailgate.model.kernels import BEGINS, BEGINS_INSIDE, ENDS
from trailgate.model.transactions import (
    find_begin_rows,
    follow,
    indicator_marks,
    transaction_indicators,
)

CSN: Final = " of CSN "  # joins a transaction's id and its CSN
HINT: Final = "Were rows of a transaction filtered out, or is their order different?"
IN_ORDER: Final = (
    'Write the rows of one trail in its order: df.repartition(1).sortWithinPartitions("position"). '
    'To write complete transactions in the order they have, drop that column: df.drop("position")'
)
PLACED: Final = (
    "Keep the column position of a frame whose rows are filtered, and write it in order: "
    'df.repartition(1).sortWithinPartitions("position")'
)


class PreviousOperation(NamedTuple):
    """The values of an operation that are needed to check whether the next one continues its transaction."""

    indicator: int
    tx_id: str | None
    csn: str | None
    seq_id: str | None
    position: str | None

    @property
    def opens(self) -> bool:
        """True if the previous operation begins a transaction."""
        return self.indicator in (BEGIN, WHOLE)

    @property
    def closes(self) -> bool:
        """True if the previous operation ends its transaction."""
        return self.indicator in (END, WHOLE)


BETWEEN: Final = PreviousOperation(
    END, None, None, None, None
)  # before the first operation of a trail


class ChainedOperations:
    """The operations of a batch, and the one before it (``last``), for checks of transactions.

    ``last`` is None at the beginning of a part, which may continue any transaction. ``number`` is
    the number of the first operation, for errors.
    """

    def __init__(self, batch: ChangeBatch, last: PreviousOperation | None, number: int = 0) -> None:
        self.batch, self._last, self._number = batch, last, number
        self.starts_part = last is None
        self.indicators = batch.tx_indicators()
        self.marks = indicator_marks(self.indicators)
        self.opens, self.closes = self.marks & BEGINS != 0, self.marks & ENDS != 0
        # True if no transaction is open before the first operation.
        # If the operation before is unknown, its transaction is taken to have ended exactly if the
        # first operation begins one, so that the first operation is never a fault.
        first = bool(self.opens[0]) if last is None else last.closes
        self.after_end = np.concatenate([[first], self.closes[:-1]])
        self.faults = follow(self.marks, is_open=not first).faults
        self.tx_id, self.csn, self.seq_id, self.position = (
            batch.in_order(name) for name in PreviousOperation._fields[1:]
        )

    def row(self, at: int) -> PreviousOperation:
        """Return an operation of the batch by its index.

        Index -1 is the last operation before the batch (or the first operation, if that is
        unknown).
        """
        if at < 0 and self._last is not None:
            return self._last
        at = max(at, 0)
        strings = (getattr(self, name)[at].as_py() for name in PreviousOperation._fields[1:])
        return PreviousOperation(int(self.indicators[at]), *strings)

    def differs(self, name: str) -> Mask:
        """Return a mask of the operations whose text in this column differs from the previous operation's."""
        values = getattr(self, name)
        before = self._before(name)
        # Equal, or both NULL.
        same = pc.equal(values, before).fill_null(fill_value=False)
        neither = pc.and_(pc.is_null(values), pc.is_null(before))
        return _mask(pc.invert(pc.or_(same, neither)))

    def check_positions(self, hint: str) -> None:
        """Raise TransactionError if an operation's position is not greater than the previous position.

        Operations with sequence ids may share a position, because they come from one message.
        Unknown positions are not compared.
        """
        position, before = self.position, self._before("position")
        # Two operations with sequence ids may share a position, as they come from one message.
        numbered = pc.and_(self.seq_id.is_valid(), self._before("seq_id").is_valid())
        again = pc.and_not(pc.equal(position, before), numbered)
        wrong = pc.or_(pc.less(position, before), again).fill_null(fill_value=False)
        disordered = _mask(pc.and_(wrong, pc.and_(_place(position), _place(before))))
        # `_before` gives the first operation of a part itself as its previous one, so it is not
        # compared.
        disordered[0] &= not self.starts_part
        if disordered.any():
            at = int(np.argmax(disordered))
            self.fail(at, _disorder(self.row(at - 1), self.row(at)), hint)

    def fail(self, at: int, problem: str, hint: str = HINT) -> NoReturn:
        """Raise TransactionError. The error names the row of operation ``at`` of the batch."""
        raise TransactionError(problem, where=Where(record=self._number + at), hint=hint)

    def _before(self, name: str) -> pa.Array:
        values, last = getattr(self, name), self.row(-1)
        first = pa.array([getattr(last, name)], values.type)
        return pa.concat_arrays([first, values[:-1]])


def check_continuation(
    batch: ChangeBatch, last: PreviousOperation | None, number: int = 0
) -> ChainedOperations:
    """Check that a batch continues the transaction that the operation before it (``last``) left open, and return its operations.

    The result can be used for further checks. ``number`` is the number of the batch's first
    operation, for errors; ``last`` is None at the beginning of a part. Raises TransactionError if a
    transaction begins inside another, continues without having begun, or contains an operation with
    a different id.
    """
    rows = ChainedOperations(batch, last, number)
    if rows.faults.any():
        at = int(np.argmax(rows.faults != 0))
        inside = rows.faults[at] == BEGINS_INSIDE
        does = "begins inside another one" if inside else "continues that did not begin"
        rows.fail(at, f"a transaction {does}")
    # Inside a transaction the id must not change.
    different = ~rows.opens & rows.differs("tx_id")
    if different.any():
        at = int(np.argmax(different))
        inside = rows.row(at - 1).tx_id
        rows.fail(at, f"an operation of the transaction {rows.row(at).tx_id} is inside {inside}")
    return rows


@dataclass(frozen=True, slots=True)
class PartEnds:
    """The first and last operation of a written part.

    ``placed``: every operation has a position. ``repaired`` are the ids and CSNs of transactions
    whose indicators were recomputed.
    """

    first: PreviousOperation
    last: PreviousOperation
    placed: bool = True
    repaired: tuple[pa.Array, ...] = ()

    @property
    def continued_transaction(self) -> str | None:
        """The id of the transaction that the part continues, or None."""
        return None if self.first.opens else str(self.first.tx_id)

    @property
    def open_transaction(self) -> str | None:
        """The id of the transaction that the part leaves open, or None."""
        return None if self.last.closes else str(self.last.tx_id)

    @property
    def seq_id(self) -> str | None:
        """The sequence id of the last operation, or if it has none, the CSN of its transaction."""
        return self.last.seq_id or self.last.csn


class TransactionChain:
    """Follows the transactions of one written part. ``ends`` is None before the first operation."""

    def __init__(self) -> None:
        self.ends: PartEnds | None = None

    def checked_batches(self, batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
        """Check the transactions of a part's batches, and yield the batches unchanged.

        Raises TransactionError if operations do not continue the previous ones.
        """
        number = 0
        for batch in batches:
            if batch.rows:
                rows = check_continuation(
                    batch, None if self.ends is None else self.ends.last, number
                )
                rows.check_positions(HINT)
                number += batch.rows
                self._extend_ends(rows)
            yield batch

    def _extend_ends(self, rows: ChainedOperations) -> PartEnds:
        first = rows.row(0) if self.ends is None else self.ends.first
        placed = self.ends is None or self.ends.placed
        placed = placed and bool(_mask(_place(rows.position)).all())
        repaired = () if self.ends is None else self.ends.repaired
        self.ends = PartEnds(first, rows.row(rows.batch.rows - 1), placed, repaired)
        return self.ends


class RepairingTransactionChain(TransactionChain):
    """Follows transactions of which operations may be missing, and recomputes their indicators.

    The remaining operations of such a transaction must be adjacent, and all positions must ascend,
    so that no other operation of it can be elsewhere. If all transactions are complete, positions
    may be unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        # About the transaction in which the last batch ended: True if its first operation was present,
        # and True if it has several CSNs.
        self._opened, self._mixed = True, False

    def checked_batches(self, batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
        """Yield the batches of a part with transaction indicators that fit the remaining operations.

        Raises TransactionError if that is impossible.

        A batch is kept back until the next one shows whether its last transaction continues.
        """
        pending: tuple[ChainedOperations, Mask] | None = None
        number = 0
        for batch in batches:
            if not batch.rows:
                continue
            last = None if pending is None else pending[0].row(pending[0].batch.rows - 1)
            rows = ChainedOperations(batch, last, number)
            number += batch.rows
            rows.check_positions(IN_ORDER)
            begins = _begins(rows)
            if pending is not None:
                yield self._repair(*pending, ended=bool(begins[0]))
            pending = rows, begins
        if pending is not None:
            yield self._repair(*pending, ended=True)

    def _repair(self, rows: ChainedOperations, begins: Mask, *, ended: bool) -> ChangeBatch:
        """Return a batch with transaction indicators that fit its remaining operations.

        ``ended``: its last transaction does not continue in the next batch.
        """
        # An operation ends its transaction if the next one begins another.
        ends = np.append(begins[1:], ended)
        opened, mixed = self._of_transactions(rows, begins)
        # Transactions that lack their first or last operation.
        # At the last remaining operation of a transaction: complete only if the first remaining one
        # is the original begin, and this one the original end.
        torn = ends & ~(opened & rows.closes)
        known = self._extend_ends(rows)
        if (torn & mixed).any():
            problem = "rows are missing from a transaction whose rows have several CSNs"
            rows.fail(int(np.argmax(torn & mixed)), problem)
        if torn.any():
            known = self.ends = replace(known, repaired=(*known.repaired, _names(rows, torn)))
        # Checked for each batch: a transaction repaired earlier is also in doubt if an operation
        # without a position comes later.
        if known.repaired and not known.placed:
            at = int(np.argmin(_mask(_place(rows.position))))
            rows.fail(
                at,
                f"{_lost(known.repaired)}, and without positions its other rows might be elsewhere",
                PLACED,
            )
        new_indicators = transaction_indicators(begins, ends)
        if (new_indicators == rows.indicators).all():
            return rows.batch
        blocks = [replace(block, tx_ind=new_indicators[block.order]) for block in rows.batch.blocks]
        return ChangeBatch(blocks, rows.batch.rows)

    def _of_transactions(self, rows: ChainedOperations, begins: Mask) -> tuple[Mask, Mask]:
        """Return two masks of operations, with facts about the transaction of each operation.

        The first is true if the transaction still has its original first operation, which was not
        filtered out. The second is true if the transaction has had more than one CSN so far.
        """
        begin = find_begin_rows(begins)
        before = begin < 0  # the transaction began in a batch before
        opened: Mask = np.where(before, self._opened, rows.opens[begin])
        # ``changes`` counts CSN changes inside transactions. A transaction has several CSNs if the
        # count has grown since its first row. For one that began in an earlier batch, -1 instead of
        # 0 makes it mixed from the start if it was before.
        changes = np.cumsum(rows.differs("csn") & ~begins)
        mixed: Mask = changes > np.where(before, -int(self._mixed), changes[begin])
        self._opened, self._mixed = bool(opened[-1]), bool(mixed[-1])
        return opened, mixed


def _begins(rows: ChainedOperations) -> Mask:
    """Return a mask of the operations that are the first remaining operation of a transaction.

    Raises TransactionError if an operation contradicts its indicator.
    """
    other = rows.differs("tx_id")
    # Databases reuse ids: the next transaction may have the same id, but not the same CSN. Inside a
    # transaction, a different CSN is checked elsewhere.
    other |= rows.differs("csn") & (rows.opens | rows.after_end)  # a reused transaction id
    wrong = ~other & (rows.faults != 0)
    if rows.starts_part:
        # The operation before a part is unknown, so its first one cannot contradict it.
        other[0], wrong[0] = True, False
    if wrong.any():
        at = int(np.argmax(wrong))
        does = "begins again before its end" if rows.opens[at] else "continues after its end"
        rows.fail(at, f"the transaction {rows.row(at).tx_id} {does}", IN_ORDER)
    begins: Mask = other | (rows.opens & rows.after_end)
    return begins


def _names(rows: ChainedOperations, chosen: Mask) -> pa.Array:
    """Return the id and CSN of the transaction of each selected operation, joined to one string.

    Raises TransactionError if a transaction has neither.
    """
    mask = pa.array(chosen)
    names = pc.binary_join_element_wise(
        rows.tx_id.filter(mask).fill_null(""),
        rows.csn.filter(mask).fill_null(""),
        CSN,
    )
    if pc.any(pc.equal(names, CSN)).as_py():
        at = int(np.argmax(chosen))
        rows.fail(at, "rows are missing from a transaction that has no id", HINT)
    return names


def _lost(repaired: Sequence[pa.Array]) -> str:
    return f"rows of the transaction {repaired[0][0]} are missing"


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found


def _place(position: pa.Array) -> pa.Array:
    return pc.not_equal(position, "").fill_null(fill_value=False)


def _disorder(before: PreviousOperation, after: PreviousOperation) -> str:
    if before.position == after.position:
        return f"two rows have the position {after.position}"
    return f"a row's position, {after.position}, is lower than that of the previous row, {before.position}"


def follow_chain(open_transaction: str | None, parts: Sequence[PartEnds]) -> str | None:
    """Check that consecutive written parts continue each other's transactions. Raises TransactionError.

    Returns the id of the transaction that is open after the last part, or None.
    """
    check_part_positions(parts, HINT)
    for ends in parts:
        if ends.continued_transaction != open_transaction:
            if ends.continued_transaction is None:
                problem = f"a transaction begins inside {open_transaction}"
            elif open_transaction is None:
                problem = (
                    f"the transaction {ends.continued_transaction} continues, but did not begin"
                )
            else:
                problem = f"the transaction {ends.continued_transaction} continues inside {open_transaction}"
            raise TransactionError(problem, hint=HINT)
        open_transaction = ends.open_transaction
    return open_transaction


def check_part_positions(parts: Sequence[PartEnds], hint: str) -> None:
    """Raise TransactionError if the positions of a part of a write are not after those of the part before."""
    for before, after in ((one.last, other.first) for one, other in pairwise(parts)):
        if not before.position or not after.position or before.position < after.position:
            continue
        if before.position > after.position or None in (before.seq_id, after.seq_id):
            raise TransactionError(_disorder(before, after), hint=hint)


def check_repaired(parts: Sequence[PartEnds]) -> None:
    """Check that each transaction was written by one part, for example a partition of Spark.

    Raises TransactionError if a transaction is split between two parts, or if its indicators were
    recomputed and another part may have rows of it.
    """
    for before, after in ((one.last, other.first) for one, other in pairwise(parts)):
        same = (before.tx_id, before.csn) == (after.tx_id, after.csn)
        if same and not (before.closes and after.opens):
            raise TransactionError(
                f"the transaction {after.tx_id} is in two partitions", hint=IN_ORDER
            )
    check_part_positions(parts, IN_ORDER)
    repaired = [names for ends in parts for names in ends.repaired]
    if not repaired:
        return
    if not all(ends.placed for ends in parts):
        problem = f"{_lost(repaired)}, and rows of other partitions have no positions"
        raise TransactionError(problem, hint=PLACED)
    counts = pa.chunked_array(repaired).value_counts()
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(several):
        problem = f"the rows of the transaction {several[0]['values']} are not together"
        raise TransactionError(problem, hint=IN_ORDER)
