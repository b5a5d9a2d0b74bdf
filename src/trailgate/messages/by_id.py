"""Group operations into transactions by transaction ids alone, for messages without begin marks.

Consecutive operations with the same transaction id are one transaction. It has ended when another
id follows, when a record has an end mark (if the format has one), or at the end of the input. Until
then its last operation is held back, because its indicator (middle or end) is not known yet; see
`model/transactions.py`.

A message that cannot be read may belong to the transaction before it or to the one after it. If its
ids cannot be read either, the message and both transactions form one unit and are rejected
together.

`capture/captured_operations.py` then removes the operations that are not captured, and recomputes the
transaction_indicators of the others (decision 0020).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask
from trailgate.columnar.strings import mask_differing_rows
from trailgate.errors import TransactionError
from trailgate.messages.message_numbers import (
    NO_NUMBER,
    LastMessage,
    is_redelivered_start,
    last_message,
)
from trailgate.messages.problems import (
    NOTHING_LATER,
    Lookahead,
    Problem,
    ProblemCollector,
    Problems,
)
from trailgate.messages.raw_operations import RawOperations, check_lengths, kept_operations
from trailgate.messages.segments import check_segments, missing_end_error
from trailgate.messages.units import ChainedTransactions, TransactionState, find_units
from trailgate.model.transactions import (
    begin_rows,
    find_begin_rows,
    first_values,
    mask_ends,
    transaction_indicators,
)

ENDED: Final = 0  # nothing is open
UNKNOWN: Final = 1  # something may be open, but its id is unknown
Last = str | int  # the id of the open transaction, or ENDED or UNKNOWN


def chain_by_id(
    raw: RawOperations,
    messages: int,
    problems: Iterable[Problem],
    state: TransactionState,
    *,
    operation_ids: bool = False,
    later: Lookahead = NOTHING_LATER,
) -> ChainedTransactions:
    """Group a batch of operations into transactions by their transaction ids alone.

    `messages` is the number of messages of the batch, and `problems` are those that the parser
    found; the result also has the problems found here. `later` describes the messages after the
    batch.

    `raw.seq_id` is the id of the transaction. Each operation gets this id with its number in the
    transaction appended, counted from 0. With `operation_ids`, `raw.seq_id` is the id of the
    operation itself, and `raw.tx_id` identifies the transaction.
    """
    ids = raw.tx_id if operation_ids else raw.seq_id
    bad = ProblemCollector(problems)
    unreadable = bad.unreadable
    length = check_lengths(raw, bad, state.id_length, operation_ids=operation_ids)
    walk = _find_transactions(raw, ids, messages, unreadable, state)
    unknown = bad.unreadable.message
    segment = check_segments(raw, walk.opens, unknown, bad, state)
    known = _check_boundaries(raw, walk, unknown, bad, state)
    # The next operation, in a message that waits, has another id: the open transaction has ended.
    if later.following is not None and isinstance(walk.last, str) and walk.last != later.following:
        if segment:
            # Message -1 stands for the unit that was open before the batch.
            bad.add(int(raw.message[-1]) if len(raw.message) else -1, missing_end_error())
        walk.end()
    begin = find_begin_rows(walk.opens)
    # `begin` is -1 for operations of the transaction that was open before; it has `state.count`
    # operations already.
    # Example: begin = -1 -1 2 2, and 5 operations before: the ordinals are 5 6 0 1.
    ordinals = np.arange(len(begin)) - np.where(begin < 0, -state.count, begin)
    marks = find_units(
        raw.message,
        walk.opens,
        walk.ends,
        walk.opened,
        unreadable.message,
        is_open=state.is_open,
        awaiting=later.awaiting,
    )
    csn = (
        first_values(raw.seq_id, begin_rows(walk.opens), state.csn) if operation_ids else raw.seq_id
    )
    after = TransactionState(id_length=length)
    if walk.last != ENDED:
        after = replace(
            _open_transaction(walk, csn if operation_ids else None, ordinals, state),
            broken=marks.is_broken(bad.messages, before=state.broken),
            id_length=length,
            segment=segment,
            last=known,
        )
    return ChainedTransactions(
        tx_ind=transaction_indicators(walk.opens, walk.closes),
        tx_id=raw.tx_id,
        csn=csn,
        kept=kept_operations(raw, bad),
        marks=marks,
        problems=bad.problems(),
        state=after,
        ordinals=None if operation_ids else ordinals,
        ended_before=state.is_open and walk.begins,
    )


def _open_transaction(
    walk: _IdTransactions, csn: pa.Array | None, ordinals: Longs, state: TransactionState
) -> TransactionState:
    """Build the state of the transaction that stays open: its id, its CSN and its number of operations.

    `csn` has the CSN of each operation, or is None if the CSN is the transaction's id.
    """
    tx_id = walk.last if isinstance(walk.last, str) else None
    own_csn = tx_id
    if csn is not None and tx_id is not None:
        # With operation ids, the CSN is the sequence id of the transaction's first operation.
        own_csn = csn[-1].as_py() if len(csn) else state.csn
    count = int(ordinals[-1]) + 1 if len(ordinals) else state.count
    return replace(state, tx_id=tx_id, csn=own_csn, count=count)


def _check_boundaries(
    raw: RawOperations,
    walk: _IdTransactions,
    unknown: Longs,
    bad: ProblemCollector,
    state: TransactionState,
) -> LastMessage | None:
    """Find redelivered and missing messages inside transactions, by the numbers of messages.

    Returns the last message. At each boundary between two messages of a transaction, both are
    compared. If the second message restarts the transaction (it was redelivered from its start), a
    new transaction begins there (`_IdTransactions.begin_again`). A missing message becomes a
    problem. `unknown` are messages that may contain any operations: the messages next to them are
    not compared.
    """
    found = raw.boundaries
    if found is None or not len(found.rows):
        return None if len(unknown) else state.last
    rows, last = found.rows, state.last if state.tx_id is not None else None
    # The number of each row's transaction within the batch; 0 continues the one before.
    own = np.cumsum(walk.opens)[rows]
    began = NO_NUMBER if last is None else last.began
    apart = _continue_after(raw, walk.opens, rows, unknown)
    for at, row in enumerate(rows.tolist()):
        if apart[at]:
            began = NO_NUMBER
            continue
        if own[at] != (own[at - 1] if at else 0):
            began = int(found.numbers[at])
        # Only rows that continue a transaction in another message need a check.
        if walk.opens[row] or (row and raw.message[row] == raw.message[row - 1]):
            continue
        before = last
        if row:
            first = bool(walk.opens[row - 1])
            number, digest = int(found.numbers[at - 1]), int(found.digests[at - 1])
            before = LastMessage(number, digest, first, began)
        after = LastMessage(
            int(found.numbers[at]), int(found.digests[at]), first=False, began=began
        )
        try:
            again = before is not None and is_redelivered_start(found.content, before, after)
        except TransactionError as error:
            bad.add(int(raw.message[row]), error)
            continue
        if again:
            walk.begin_again(row)
            began = after.number
    after_all = len(unknown) and unknown[-1] > raw.message[-1]
    return None if after_all else last_message(found, walk.opens, began)


def _continue_after(raw: RawOperations, opens: Mask, rows: Longs, unknown: Longs) -> Mask:
    """Mark the rows that continue a transaction which may have begun in an unknown message.

    `unknown` are messages that may contain any operations. `rows` are the operations next to
    message boundaries (`MessageBoundaries`). The mask has an element for each of them: whether it
    is the first one after an unknown message, and does not belong to a transaction that begins
    after that message. Then the number of the transaction's first message is not known.
    """
    # For each row, the number of unknown messages before it. If it is larger than for the row
    # before, an unknown message lies between them.
    # Example: messages 2 and 5 are unknown, and the rows are of the messages 1 3 4 6: places = 0 1 1 2,
    # so the rows of 3 and 6 follow an unknown message.
    places = np.searchsorted(unknown, raw.message[rows])
    continues: Mask = places > np.append(0, places[:-1])
    own = np.cumsum(opens)
    for at in np.flatnonzero(continues).tolist():
        # The first operation after that message. The row continues its transaction, unless one begins
        # there or in between.
        first = int(np.searchsorted(raw.message, unknown[places[at] - 1]))
        continues[at] = not opens[first] and own[first] == own[rows[at]]
    return continues


@dataclass(slots=True)
class _IdTransactions:
    """The transactions of a batch, found by the ids of operations and of unreadable messages.

    `opens` and `closes` mark the operations that begin and end a transaction, `ends` the operations
    with an end mark, and `opened` the unreadable messages that begin a transaction. `begins` is set
    if the first row begins a transaction, so that the previously open one has ended. `last` is the
    id of the transaction that is open at the end. `last_row` is its last operation, or None if that
    is in an unreadable message.
    """

    opens: Mask
    closes: Mask
    ends: Mask
    opened: Mask
    begins: bool
    last: Last
    last_row: int | None

    def begin_again(self, row: int) -> None:
        """Begin a new transaction at `row`, although the previous row has the same id."""
        self.opens[row] = True
        if row:
            self.closes[row - 1] = True
        else:
            self.begins = True

    def end(self) -> None:
        """End the transaction that is open at the end of the batch."""
        if self.last_row is not None:
            self.closes[self.last_row] = True
        # Without operations in the batch, the open transaction is the one before the batch, and
        # ``begins`` states that it has ended.
        elif not len(self.closes):
            self.begins = True
        self.last = ENDED


def _find_transactions(
    raw: RawOperations,
    own: pa.Array,
    messages: int,
    unreadable: Problems,
    state: TransactionState,
) -> _IdTransactions:
    """Find where transactions begin and end, by the transaction id `own` of each operation.

    Operations and unreadable messages are put in one sequence of rows. Each row has the id that it
    begins with and the id that it ends with; they differ only for a message with several
    transactions. If a row's id is unknown, it is assumed to continue the transaction before it.

    Example: ids A A ? B with an unreadable message "?" of unknown ids: the first A opens a
    transaction, "?" continues it, and B opens the next.
    """
    # Unreadable messages are inserted as rows before the first operation of a later message.
    # Example: operations of the messages 0 0 2 3, and message 1 is unreadable: it becomes row 2.
    at = np.searchsorted(raw.message, unreadable.message)
    first = _insert_ids(own, at, unreadable.ids.first)
    last = _insert_ids(own, at, unreadable.ids.last)
    ends = np.zeros(len(own), bool) if raw.tx_ind is None else mask_ends(raw.tx_ind)
    ended, is_operation = np.insert(ends, at, False), np.insert(np.ones(len(own), bool), at, False)
    opens = np.zeros(len(first), bool)
    before: Last = state.tx_id or (UNKNOWN if state.broken else ENDED)
    if len(first):
        valid = np.asarray(first.is_valid()) if first.null_count else np.ones(len(first), bool)
        # The first row opens a transaction if nothing is open, or another id is. After UNKNOWN it
        # continues.
        opens[0] = before == ENDED or (before not in (UNKNOWN, first[0].as_py()))
        # A row opens a transaction after an end mark, or if its first id differs from the last id
        # before it. Rows without an id (`valid` is False) continue.
        opens[1:] = ended[:-1] | (mask_differing_rows(first[1:], last[:-1]) & valid[:-1])
        opens &= valid
        before = ENDED if ended[-1] else last[-1].as_py() or UNKNOWN
    # A row closes its transaction if it has an end mark, or if the next row opens one. The last row
    # stays open without a mark, because the next batch may continue it.
    # The slice is for a batch without rows, to which ``append`` adds one.
    closes = ended | np.append(opens[1:], False)[: len(opens)]
    opened = np.zeros(messages, bool)
    opened[unreadable.message] = opens[~is_operation]
    last_row = len(own) - 1 if len(first) and is_operation[-1] else None
    begins = bool(len(opens) and opens[0])
    return _IdTransactions(
        opens=opens[is_operation],
        closes=closes[is_operation],
        ends=ends,
        opened=opened,
        begins=begins,
        last=before,
        last_row=last_row,
    )


def _insert_ids(ids: pa.Array, at: Longs, others: pa.StringArray) -> pa.Array:
    """Insert the transaction id ``others[i]`` before the index ``at[i]`` of ``ids``, for each i."""
    if not len(others):
        return ids
    # Example: B C with X before C: the indexes 0 1 become 0 2 1, which take B X C from B C X.
    places = np.insert(np.arange(len(ids)), at, len(ids) + np.arange(len(others)))
    return pa.concat_arrays([ids, others]).take(pa.array(places))
