"""Group operations into transactions by begin and end indicators, or by message.

`chain_by_indicators` assigns to each operation of a batch its indicator, its transaction id and its
commit sequence number (CSN):

- Without an indicator property (txind), the operations of one message are one transaction.
- With one, a transaction may span several messages, or a message may contain several transactions.
  Transactions are contiguous and never interleaved.
- If transactions never span messages (XML without a rule for `txind`), each message is a unit of
  its own, whatever it contains.

Contradictions, such as a begin inside a transaction, become problems of messages; only the first
problem of each message is kept. The begin and end logic itself is in `model/transactions.py`,
shared with trails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import TransactionError
from trailgate.messages.problems import Problem, ProblemCollector
from trailgate.messages.raw_operations import RawOperations, check_lengths, kept_operations
from trailgate.messages.units import (
    ChainedTransactions,
    TransactionState,
    UnitMasks,
    find_units,
)
from trailgate.model.kernels import BEGINS, BEGINS_INSIDE, ENDS
from trailgate.model.transactions import (
    FollowedTransactions,
    begin_rows,
    first_values,
    follow,
    indicator_marks,
    transaction_indicators,
)

ONE_MESSAGE: Final = "One message is one transaction unless an indicator (txind) marks where transactions begin and end"
INTERLEAVED: Final = "Transactions must be contiguous: each begins after the one before has ended"


def chain_by_indicators(
    raw: RawOperations,
    messages: int,
    problems: Iterable[Problem],
    state: TransactionState,
    *,
    spans: bool,
) -> ChainedTransactions:
    """Group a batch of operations into transactions by begin and end indicators, or by message.

    `messages` is the number of messages of the batch, and `problems` are those that the parser
    found; the result also has the problems found here. `spans` states whether a transaction may
    span messages.
    """
    bad = ProblemCollector(problems)
    unreadable = bad.messages
    length = check_lengths(raw, bad, state.id_length)
    letters = raw.tx_ind
    if letters is None:
        # True for the first operation of each message. The slices with `[: len(...)]` cut the
        # arrays to length 0 if there are no operations.
        new = np.append(True, raw.message[1:] != raw.message[:-1])[: len(raw.message)]
        # Every message is a complete transaction: its first operation begins it, its last one ends
        # it.
        letters = transaction_indicators(new, np.append(new[1:], True)[: len(new)])
    if not spans:
        followed = follow(indicator_marks(letters))
        every = np.ones(messages, bool)
        marks, state = UnitMasks(every, every), TransactionState()
    else:
        followed = follow(indicator_marks(letters), is_open=state.is_open)
        opens, ends = followed.marks & BEGINS != 0, followed.marks & ENDS != 0
        opened = np.zeros(messages, bool)
        marks = find_units(raw.message, opens, ends, opened, unreadable, is_open=state.is_open)
    if state.id_length != length:
        state = replace(state, id_length=length)
    return _check(raw, followed, letters, marks, bad, state)


def _check(
    raw: RawOperations,
    followed: FollowedTransactions,
    letters: Octets,
    marks: UnitMasks,
    bad: ProblemCollector,
    state: TransactionState,
) -> ChainedTransactions:
    """Check transactions grouped by indicators; add each one's id and CSN to its operations.

    `letters` are the indicators. Messages that contradict earlier ones become problems.
    """
    opens = followed.marks & BEGINS != 0
    begin = begin_rows(opens)
    tx_id = first_values(raw.tx_id, begin, state.tx_id)
    csn = first_values(raw.seq_id, begin, state.csn)
    faulty = bool(followed.faults.any())
    if faulty:
        unit, unended = marks.numbers, _find_unended(raw, followed, marks)
        _check_bounds(raw, followed, unended, unit, bad, state)
    _check_members(raw, tx_id, bad)
    _check_contiguous(raw, opens, bad)
    if faulty:
        _check_ends(raw, unended, unit, bad, state)
    after = TransactionState(id_length=state.id_length)
    if not marks.closed:
        after = _open_after(raw, tx_id, csn, marks, bad, state)
    return ChainedTransactions(
        tx_ind=letters,
        tx_id=tx_id,
        csn=csn,
        kept=kept_operations(raw, bad),
        marks=marks,
        problems=bad.problems(),
        state=after,
    )


def _find_unended(raw: RawOperations, followed: FollowedTransactions, marks: UnitMasks) -> Mask:
    """Return a mask of the operations that begin a unit although a transaction is still open.

    Only the open transaction, which has no end, is bad; the transaction that begins here is good.
    """
    # The mask of each message's first operation. The slice makes it empty if there are no
    # operations.
    first = np.append(True, raw.message[1:] != raw.message[:-1])[: len(raw.message)]
    unended: Mask = (followed.faults == BEGINS_INSIDE) & first & marks.opens[raw.message]
    return unended


def _check_bounds(
    raw: RawOperations,
    followed: FollowedTransactions,
    unended: Mask,
    unit: Longs,
    bad: ProblemCollector,
    state: TransactionState,
) -> None:
    """Add a problem for each operation that begins inside a transaction, or continues outside of one.

    All later operations in the same unit are bad too. `unit` is the unit of each message, and
    `unended` marks the operations before which a transaction lacks its end: these are good.
    """
    unit_of = unit[raw.message]
    rows = np.flatnonzero((followed.faults != 0) & ~unended)
    # For each unit, the row of its first wrong operation, or len(unit_of) if there is none. Assigning in
    # reverse order lets the first one win.
    since = np.full(len(unit) + 1, len(unit_of))
    since[unit_of[rows[::-1]]] = rows[::-1]
    wrong = np.arange(len(unit_of)) >= since[unit_of]
    # Unit 0 is broken already, so its contradictions mean nothing.
    if state.broken:
        wrong &= unit_of != 0
    for i in np.flatnonzero(wrong).tolist():
        begins = followed.marks[i] & BEGINS
        what = "begins inside another one" if begins else "continues without having begun"
        error = TransactionError(f"transaction {raw.tx_id[i].as_py()} {what}", hint=INTERLEAVED)
        bad.add(int(raw.message[i]), error)


def _check_members(raw: RawOperations, tx_id: pa.Array, bad: ProblemCollector) -> None:
    """Add a problem to each message with an operation whose id differs from its transaction's first id."""
    if raw.tx_ids_generated is True or raw.tx_id is tx_id:
        return
    hint = INTERLEAVED if raw.tx_ind is not None else ONE_MESSAGE
    # A null id has nothing to compare. Generated ids differ by construction and are ignored.
    differs = ~np.asarray(pc.fill_null(pc.equal(raw.tx_id, tx_id), True))
    differs &= ~np.asarray(raw.tx_ids_generated)
    for i in np.flatnonzero(differs).tolist():
        error = TransactionError(
            f"transaction {raw.tx_id[i].as_py()} within transaction {tx_id[i].as_py()}",
            hint=hint,
        )
        bad.add(int(raw.message[i]), error)


def _check_contiguous(raw: RawOperations, opens: Mask, bad: ProblemCollector) -> None:
    """Add a problem to each message in which a transaction id occurs again after a different one."""
    # Without indicators each message is one transaction.
    if raw.tx_ind is None or raw.tx_ids_generated is True:
        return
    begun = np.flatnonzero(opens)
    own = raw.message[begun]
    # An id can only return after another one in a message that begins at least three transactions:
    # A, B, A. `own` is sorted, so such a message has the same number two places apart.
    if not (own[2:] == own[:-2]).any():
        return
    codes = np.asarray(pc.fill_null(raw.tx_id.take(begun).dictionary_encode().indices, -1))
    # Sorted by message, then by id; equal ids stay in their order. Two neighbours with the same id
    # that are more than one transaction apart have another one between them.
    order = np.lexsort((codes, own))
    before, after = order[:-1], order[1:]
    again = (own[before] == own[after]) & (codes[before] == codes[after]) & (after - before > 1)
    again &= codes[after] >= 0
    written = np.broadcast_to(~np.asarray(raw.tx_ids_generated), opens.shape)[begun]
    for i in np.sort(begun[after[again & written[after]]]).tolist():
        error = TransactionError(
            f"transaction {raw.tx_id[i].as_py()} continues after another one", hint=INTERLEAVED
        )
        bad.add(int(raw.message[i]), error)


def _check_ends(
    raw: RawOperations,
    unended: Mask,
    unit: Longs,
    bad: ProblemCollector,
    state: TransactionState,
) -> None:
    """Add a problem to each unit whose transaction is still open when the next unit begins.

    `unended` marks the operations that begin these next units.
    """
    for row in np.flatnonzero(unended).tolist():
        before = int(raw.message[row - 1]) if row else -1
        if state.broken and (not row or unit[before] == 0):
            continue
        own = raw.tx_id[row - 1].as_py() if row else state.tx_id
        problem = f"transaction {own} has not ended when the next one begins"
        bad.add(before, TransactionError(problem, hint=INTERLEAVED))


def _open_after(
    raw: RawOperations,
    tx_id: pa.Array,
    csn: pa.Array,
    marks: UnitMasks,
    bad: ProblemCollector,
    state: TransactionState,
) -> TransactionState:
    """Return the state after a batch whose last message may leave a transaction open.

    If its last unit is bad, the transaction in it is forgotten, and the unit is skipped to its end.
    """
    if marks.is_broken(bad.messages, before=state.broken):
        # A broken unit is skipped to its end, whatever is open in it.
        return TransactionState(broken=True, id_length=state.id_length)
    unit = marks.numbers
    if not len(raw.message) or unit[raw.message[-1]] != unit[-1]:
        return state
    return replace(state, tx_id=tx_id[-1].as_py(), csn=csn[-1].as_py(), broken=False)
