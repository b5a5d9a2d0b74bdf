"""Whether operations continue the transactions of those before them, from batch to batch and from part to part.

What is written into a trail has its transaction's id on the first record alone, so an operation in the wrong place would come
back with another id. Two writers follow transactions here (``model.transactions``), with their ids and positions. One refuses what does not fit: a stream,
whose transactions may span parts and batches, and the appender of a live trail. The other, that of a frame, makes the indicators anew where operations of a
transaction were left out (decision 0059).
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
from trailgate.model.changes import BEGIN, END, WHOLE, ChangeBatch, indicators
from trailgate.model.kernels import BEGINS, BEGINS_INSIDE, ENDS
from trailgate.model.transactions import begin_rows, follow, indicator_marks

CSN: Final = " of CSN "  # between id and CSN
HINT: Final = "Were rows of a transaction left out, or is their order another one?"
IN_ORDER: Final = (
    'Write the rows of one trail in its order, as df.repartition(1).sortWithinPartitions("position"). '
    'To write whole transactions in the order that they have, leave out that column: df.drop("position")'
)
PLACED: Final = (
    "Keep the column position of a frame whose rows are filtered, and write it in its order, as "
    'df.repartition(1).sortWithinPartitions("position")'
)


class Row(NamedTuple):
    """What is known of the operation before the next one."""

    indicator: int
    tx_id: str | None
    csn: str | None
    seq_id: str | None
    position: str | None

    @property
    def opens(self) -> bool:
        """Return whether a transaction begins here."""
        return self.indicator in (BEGIN, WHOLE)

    @property
    def closes(self) -> bool:
        """Return whether a transaction ends here."""
        return self.indicator in (END, WHOLE)


BETWEEN: Final = Row(END, None, None, None, None)  # before the first operation of a trail


class Rows:
    """The operations of a batch and the one before them; ``last`` None: the batch begins a part, and may continue anything."""

    def __init__(self, batch: ChangeBatch, last: Row | None, number: int = 0) -> None:
        self.batch, self._last, self._number = batch, last, number
        self.starts_part = last is None
        self.indicators = batch.tx_indicators()
        self.marks = indicator_marks(self.indicators)
        self.opens, self.closes = self.marks & BEGINS != 0, self.marks & ENDS != 0
        first = bool(self.opens[0]) if last is None else last.closes
        self.after_end = np.concatenate([[first], self.closes[:-1]])
        self.faults = follow(self.marks, is_open=not first).faults
        self.tx_id, self.csn, self.seq_id, self.position = (
            batch.in_order(name) for name in Row._fields[1:]
        )

    def row(self, at: int) -> Row:
        """Return one of the operations; -1 is the one before them, or the first one itself."""
        if at < 0 and self._last is not None:
            return self._last
        at = max(at, 0)
        strings = (getattr(self, name)[at].as_py() for name in Row._fields[1:])
        return Row(int(self.indicators[at]), *strings)

    def differs(self, name: str) -> Mask:
        """Return which operations have another text than the one before."""
        values = getattr(self, name)
        before = self._before(name)
        same = pc.equal(values, before).fill_null(fill_value=False)
        neither = pc.and_(pc.is_null(values), pc.is_null(before))
        return _mask(pc.invert(pc.or_(same, neither)))

    def check_positions(self, hint: str) -> None:
        """Raise TransactionError where a position is before that of the operation before, or the same.

        Operations of one message have the same position, and sequence ids. Unknown positions are not compared.
        """
        position, before = self.position, self._before("position")
        numbered = pc.and_(self.seq_id.is_valid(), self._before("seq_id").is_valid())
        again = pc.and_not(pc.equal(position, before), numbered)
        wrong = pc.or_(pc.less(position, before), again).fill_null(fill_value=False)
        found = _mask(pc.and_(wrong, pc.and_(_place(position), _place(before))))
        found[0] &= not self.starts_part
        if found.any():
            at = int(np.argmax(found))
            self.fail(at, _disorder(self.row(at - 1), self.row(at)), hint)

    def fail(self, at: int, problem: str, hint: str = HINT) -> NoReturn:
        """Raise TransactionError of an operation."""
        raise TransactionError(problem, where=Where(record=self._number + at), hint=hint)

    def _before(self, name: str) -> pa.Array:
        values, last = getattr(self, name), self.row(-1)
        first = pa.array([getattr(last, name)], values.type)
        return pa.concat_arrays([first, values[:-1]])


def followed(batch: ChangeBatch, last: Row | None, number: int = 0) -> Rows:
    """Return the operations that continue those before; ``number`` is the first one's for errors.

    Raises TransactionError where a transaction begins inside another one, continues that did not begin, or has an
    operation of another one.
    """
    rows = Rows(batch, last, number)
    if rows.faults.any():
        at = int(np.argmax(rows.faults != 0))
        inside = rows.faults[at] == BEGINS_INSIDE
        does = "begins inside another one" if inside else "continues that did not begin"
        rows.fail(at, f"a transaction {does}")
    other = ~rows.opens & rows.differs("tx_id")
    if other.any():
        at = int(np.argmax(other))
        inside = rows.row(at - 1).tx_id
        rows.fail(at, f"an operation of the transaction {rows.row(at).tx_id} is inside {inside}")
    return rows


@dataclass(frozen=True, slots=True)
class Ends:
    """The first and the last operation of a part.

    ``placed``: each operation has a position. ``remade`` are the transactions whose indicators were made anew, by ids and CSNs.
    """

    first: Row
    last: Row
    placed: bool = True
    remade: tuple[pa.Array, ...] = ()

    @property
    def continues(self) -> str | None:
        """Return the transaction that the part continues, None where it begins between two."""
        return None if self.first.opens else str(self.first.tx_id)

    @property
    def leaves(self) -> str | None:
        """Return the transaction that the part leaves open, None where it ends between two."""
        return None if self.last.closes else str(self.last.tx_id)

    @property
    def seq_id(self) -> str | None:
        """Return the last operation's sequence id, that of its transaction where it has none of its own."""
        return self.last.seq_id or self.last.csn


class Chain:
    """Follows the transactions through the batches of one part; ``ends`` is None while there was no operation."""

    def __init__(self) -> None:
        self.ends: Ends | None = None

    def through(self, batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
        """Yield the operations; raises TransactionError where they do not continue those before."""
        number = 0
        for batch in batches:
            if batch.rows:
                rows = followed(batch, None if self.ends is None else self.ends.last, number)
                rows.check_positions(HINT)
                number += batch.rows
                self._note(rows)
            yield batch

    def _note(self, rows: Rows) -> Ends:
        first = rows.row(0) if self.ends is None else self.ends.first
        placed = self.ends is None or self.ends.placed
        placed = placed and bool(_mask(_place(rows.position)).all())
        remade = () if self.ends is None else self.ends.remade
        self.ends = Ends(first, rows.row(rows.batch.rows - 1), placed, remade)
        return self.ends


class RemakingChain(Chain):
    """Follows transactions of which operations may have been left out, and makes the indicators of these anew.

    What remains of such a transaction must be together, and all positions must ascend: then none of its operations is elsewhere.
    Where all transactions are as they were, positions may be unknown.
    """

    def __init__(self) -> None:
        super().__init__()
        # Of the transaction that the last batch ended in: whether its first operation was there, and whether it has several CSNs.
        self._opened, self._mixed = True, False

    def through(self, batches: Iterable[ChangeBatch]) -> Iterator[ChangeBatch]:
        """Yield the operations with indicators that fit; raises TransactionError where it is not known that they do.

        A batch is held until the next one shows whether its last transaction continues.
        """
        held: tuple[Rows, Mask] | None = None
        number = 0
        for batch in batches:
            if not batch.rows:
                continue
            last = None if held is None else held[0].row(held[0].batch.rows - 1)
            rows = Rows(batch, last, number)
            number += batch.rows
            rows.check_positions(IN_ORDER)
            begins = _begins(rows)
            if held is not None:
                yield self._remade(*held, ended=bool(begins[0]))
            held = rows, begins
        if held is not None:
            yield self._remade(*held, ended=True)

    def _remade(self, rows: Rows, begins: Mask, *, ended: bool) -> ChangeBatch:
        """Return a batch with indicators that fit; ``ended``: its last transaction does not continue in the next batch."""
        ends = np.append(begins[1:], ended)
        opened, mixed = self._of_transactions(rows, begins)
        torn = ends & ~(opened & rows.closes)
        known = self._note(rows)
        if (torn & mixed).any():
            problem = "rows were left out of a transaction whose rows have several CSNs"
            rows.fail(int(np.argmax(torn & mixed)), problem)
        if torn.any():
            known = self.ends = replace(known, remade=(*known.remade, _names(rows, torn)))
        if known.remade and not known.placed:
            at = int(np.argmin(_mask(_place(rows.position))))
            rows.fail(
                at,
                f"{_lost(known.remade)}, and without positions it is not known where others of it are",
                PLACED,
            )
        made = indicators(begins, ends)
        if (made == rows.indicators).all():
            return rows.batch
        blocks = [replace(block, tx_ind=made[block.order]) for block in rows.batch.blocks]
        return ChangeBatch(blocks, rows.batch.rows)

    def _of_transactions(self, rows: Rows, begins: Mask) -> tuple[Mask, Mask]:
        """Return of each operation whether its transaction has its own first one, and whether it has several CSNs up to here."""
        begin = begin_rows(begins)
        before = begin < 0  # the transaction began in a batch before
        opened: Mask = np.where(before, self._opened, rows.opens[begin])
        changes = np.cumsum(rows.differs("csn") & ~begins)
        mixed: Mask = changes > np.where(before, -int(self._mixed), changes[begin])
        self._opened, self._mixed = bool(opened[-1]), bool(mixed[-1])
        return opened, mixed


def _begins(rows: Rows) -> Mask:
    """Return which operations are the first that remain of a transaction; raises TransactionError where one contradicts its indicator."""
    other = rows.differs("tx_id")
    other |= rows.differs("csn") & (rows.opens | rows.after_end)  # an id that is used again
    wrong = ~other & (rows.faults != 0)
    if rows.starts_part:
        other[0], wrong[0] = True, False
    if wrong.any():
        at = int(np.argmax(wrong))
        does = "begins again before its end" if rows.opens[at] else "continues after its end"
        rows.fail(at, f"the transaction {rows.row(at).tx_id} {does}", IN_ORDER)
    found: Mask = other | (rows.opens & rows.after_end)
    return found


def _names(rows: Rows, chosen: Mask) -> pa.Array:
    """Return what the transactions of operations are known by."""
    mask = pa.array(chosen)
    names = pc.binary_join_element_wise(
        rows.tx_id.filter(mask).fill_null(""),
        rows.csn.filter(mask).fill_null(""),
        CSN,
    )
    if pc.any(pc.equal(names, CSN)).as_py():
        at = int(np.argmax(chosen))
        rows.fail(at, "rows were left out of a transaction that has no id", HINT)
    return names


def _lost(remade: Sequence[pa.Array]) -> str:
    return f"rows of the transaction {remade[0][0]} were left out"


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found


def _place(position: pa.Array) -> pa.Array:
    return pc.not_equal(position, "").fill_null(fill_value=False)


def _disorder(before: Row, after: Row) -> str:
    if before.position == after.position:
        return f"two rows have the position {after.position}"
    return f"a row's position, {after.position}, is before that of the row before it, {before.position}"


def follow_chain(open_transaction: str | None, parts: Sequence[Ends]) -> str | None:
    """Return the transaction that is open after the parts, None for none; raises TransactionError where they do not meet."""
    check_positions(parts, HINT)
    for ends in parts:
        if ends.continues != open_transaction:
            if ends.continues is None:
                problem = f"a transaction begins inside {open_transaction}"
            elif open_transaction is None:
                problem = f"the transaction {ends.continues} continues, but did not begin"
            else:
                problem = f"the transaction {ends.continues} continues inside {open_transaction}"
            raise TransactionError(problem, hint=HINT)
        open_transaction = ends.leaves
    return open_transaction


def check_positions(parts: Sequence[Ends], hint: str) -> None:
    """Raise TransactionError where the positions of a part do not follow those of the part before."""
    for before, after in ((one.last, other.first) for one, other in pairwise(parts)):
        if not before.position or not after.position or before.position < after.position:
            continue
        if before.position > after.position or None in (before.seq_id, after.seq_id):
            raise TransactionError(_disorder(before, after), hint=hint)


def check_remade(parts: Sequence[Ends]) -> None:
    """Raise TransactionError where a transaction is in two parts, or its indicators were made anew and others of its rows may be elsewhere."""
    for before, after in ((one.last, other.first) for one, other in pairwise(parts)):
        same = (before.tx_id, before.csn) == (after.tx_id, after.csn)
        if same and not (before.closes and after.opens):
            raise TransactionError(
                f"the transaction {after.tx_id} is in two partitions", hint=IN_ORDER
            )
    check_positions(parts, IN_ORDER)
    remade = [names for ends in parts for names in ends.remade]
    if not remade:
        return
    if not all(ends.placed for ends in parts):
        problem = f"{_lost(remade)}, and rows of other partitions have no positions"
        raise TransactionError(problem, hint=PLACED)
    counts = pa.chunked_array(remade).value_counts()
    several = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(several):
        problem = f"the rows of the transaction {several[0]['values']} are not together"
        raise TransactionError(problem, hint=IN_ORDER)
