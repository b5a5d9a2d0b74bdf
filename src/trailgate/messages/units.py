"""Units of messages, and the transaction that stays open after a batch.

A *unit* is a set of messages that are captured or rejected together (decision 0012). A unit begins
at a message that begins a transaction, and at a message before which no transaction is open
(`find_units`). So an unreadable message never affects a finished transaction.

`TransactionState` is the state after a batch, from which the next batch continues.
`ChainedTransactions` is the result of both ways of grouping a batch (`by_indicators.py`,
`by_id.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.errors import TrailgateError, TransactionError
from trailgate.messages.message_batch import MessageBatch
from trailgate.messages.message_numbers import LastMessage
from trailgate.messages.problems import Problem, Problems
from trailgate.model.transactions import HeldOperation


@dataclass(frozen=True, slots=True)
class UnitMasks:
    """The units of a batch of messages, as two masks with an element for each message.

    `opens` marks the messages whose first operation begins a transaction, and `starts` the messages
    that begin a unit. `closed` is set if nothing is open after the last message; see `find_units`.
    """

    opens: Mask
    starts: Mask
    closed: bool = True

    @property
    def numbers(self) -> Longs:
        """The number of each message's unit in the batch. 0 is the unit that was open before it."""
        return np.cumsum(self.starts, dtype=np.int64)

    def is_broken(self, bad: Longs, *, before: bool) -> bool:
        """Return whether the last unit of the batch contains a bad message.

        `bad` are the numbers of the bad messages of the batch. `before` states whether the unit
        that was open before the batch contained one.
        """
        # Example: starts [1, 0, 1] gives the units [1, 1, 2]; messages before the first start are
        # in unit 0.
        unit = self.numbers
        last = int(unit[-1]) if len(unit) else 0
        return (last == 0 and before) or bool((unit[bad[bad >= 0]] == last).any())


def find_units(  # noqa: PLR0913  columns
    message: Longs,
    opens: Mask,
    ends: Mask,
    opened: Mask,
    unreadable: Longs,
    *,
    is_open: bool,
    awaiting: Mask | None = None,
) -> UnitMasks:
    """Find the units of messages that must be captured together.

    `message`, `opens` and `ends` have one element per operation: its message, and whether it begins
    or ends a transaction. `opened` has one element per message. It is already set for unreadable
    messages that are known to open a transaction, and is filled in for the others.

    A message starts a unit if it opens a transaction, or if nothing is open before it. Something is
    open after a message if its last operation does not end a transaction; a message without
    operations changes nothing. After an unreadable message something may be open. After an
    `awaiting` message, to which later messages may add parts, something is open until the next
    message that opens a transaction.

    Example: four messages, B = begin, M = middle, E = end:

        message      0: B M   1: E    2: unreadable   3: B E
        opens        True     False   False           True
        open after   True     False   True            False
        starts       True     False   True            True
    """
    # `last[m]` is the row of the last operation up to message m, and `last - counts + 1` the row of
    # its first one.
    counts = np.bincount(message, minlength=len(opened))
    last = np.cumsum(counts) - 1  # operation, up to each message
    some = counts > 0
    opened[some] = opens[(last - counts + 1)[some]]
    open_after = np.zeros(len(opened), bool)
    open_after[some] = ~ends[last[some]]
    open_after[unreadable] = True
    known = some.copy()
    known[unreadable] = True
    number = np.arange(len(opened))
    if awaiting is not None:
        # For each message, the number of the last awaiting message and of the last message that
        # opens a transaction, up to and including itself.
        begun, waits = (np.where(mask, number, -1) for mask in (opened, awaiting))
        waits, begun = np.maximum.accumulate(waits), np.maximum.accumulate(begun)
        awaited = (waits >= 0) & (waits >= begun)
        open_after |= awaited
        known |= awaited
    # Messages without operations take over the state of the last known message before them, or
    # `is_open` if there is none.
    of = np.maximum.accumulate(np.where(known, number, -1))
    open_after = np.where(of < 0, is_open, open_after[of])
    starts = opened | ~np.append(is_open, open_after)[:-1]
    return UnitMasks(opened, starts, not np.append(is_open, open_after)[-1])


@dataclass(frozen=True, slots=True)
class TransactionState:
    """The state after a batch of messages: the open transaction, or the open unit with a bad message.

    `tx_id` and `csn` belong to the open transaction, and are None if none is open. `broken` is set
    if the open unit contains a bad message. `held` is the operation of the open transaction that is
    held back (`model/transactions.py`), and `excluded` has the flags of the transaction's first
    operation (`find_excluded`). If transactions are identified by their ids, `count` is the number
    of the open transaction's operations so far. If messages have segment numbers, `segment` is the number of its last
    message. If they have other numbers, `last` describes that message. `id_length` is the length
    that all sequence ids must have. `waiting` are the messages of the open unit that need later
    messages, and `unreadable` the problems of the bad messages in `waiting`.
    """

    tx_id: str | None = None
    csn: str | None = None
    broken: bool = False
    id_length: int | None = None
    held: HeldOperation | None = None
    excluded: int = 0
    count: int = 0
    segment: int = 0
    last: LastMessage | None = None
    waiting: tuple[MessageBatch, ...] = ()
    unreadable: Sequence[Problem] = ()

    @property
    def is_open(self) -> bool:
        """Whether the next message continues the unit before it."""
        return self.tx_id is not None or self.broken or bool(self.waiting)


@dataclass(frozen=True, slots=True)
class ChainedTransactions:
    """Operations grouped into transactions: each operation's indicator, transaction id and CSN.

    `marks` are the units of the messages, and `state` is the state after the batch. `kept` is a
    mask of the operations whose messages have no error. `ordinals` number the operations of each
    transaction from 0, if sequence ids are built from them. `ended_before` is set if the
    transaction that was open before the batch has ended without another operation.
    """

    tx_ind: npt.NDArray[np.uint8]
    tx_id: pa.Array
    csn: pa.Array
    kept: Mask
    marks: UnitMasks
    problems: Problems
    state: TransactionState
    ordinals: Longs | None = None
    ended_before: bool = False


def open_transaction_error(state: TransactionState) -> TrailgateError | None:
    """Return the error for a transaction of messages that has begun but not ended at the end of the input, or None."""
    if state.tx_id is None or state.broken:
        return None
    return TransactionError(
        f"transaction {state.tx_id} has not ended at the end of the input",
        hint="Its last operation must carry the end indicator (txind.endval)",
    )
