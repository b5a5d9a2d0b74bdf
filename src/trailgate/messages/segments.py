"""Check the segment numbers of messages: 1, 2, 3 and so on in each transaction.

Some formats cut a long transaction into messages with segment numbers, which always begin at 1. If
a segment is missing or repeated, or if a transaction lacks its last segment, the message becomes a
problem. Formats whose numbers follow other rules use `message_numbers.py`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import TransactionError
from trailgate.messages.problems import Problem, ProblemCollector
from trailgate.messages.raw_operations import RawOperations
from trailgate.messages.units import TransactionState
from trailgate.model.transactions import mask_ends

_LOST: Final = "Was a message lost, or published again after a restart?"


def check_segments(
    raw: RawOperations,
    opens: Mask,
    unreadable: Longs,
    bad: ProblemCollector,
    state: TransactionState,
) -> int:
    """Check that the segment numbers of messages are consecutive: 1, 2, 3 ... in each transaction.

    `opens` marks the operations that begin a transaction. `unreadable` are messages that may
    contain any operations: a gap at one of them is not reported. Problems are added to `bad`.
    Returns the last segment of the transaction that is open after the batch, or 0.
    """
    segments, message = raw.segments, raw.message
    if segments is None or not len(segments):
        return 0 if len(unreadable) else state.segment
    before = np.append(state.segment, segments[:-1])
    ended = _ends(raw.tx_ind, len(segments))
    # Whether a transaction with segments is open before each row.
    open_before = np.append(state.segment > 0, ~ended[:-1]) & (before > 0)
    first = np.append(True, message[1:] != message[:-1])
    expected = np.where(opens, 1, before + 1)
    # Checked only at the first operation of a message: a new transaction begins with segment 1,
    # others follow the segment before. A segment of 0 is not numbered.
    wrong = first & (segments > 0) & (segments != expected) & (opens | (before > 0))
    unended = first & opens & open_before
    last = np.append(-1, message[:-1])
    for row in np.flatnonzero(wrong | unended).tolist():
        if ((unreadable >= last[row]) & (unreadable < message[row])).any():
            continue  # what is missing may be in it
        if unended[row]:
            bad.add(int(last[row]), missing_end_error())
        if wrong[row]:
            error = _out_of_order(raw, row, int(before[row]), opens=bool(opens[row]))
            bad.add(int(message[row]), error)
    if ended[-1] or (len(unreadable) and unreadable[-1] > message[-1]):
        return 0
    return int(segments[-1])


def missing_end_error() -> TransactionError:
    """Build the error for a transaction whose last segment is missing when the next transaction begins."""
    problem = "the previous transaction has not ended when the next one begins"
    return TransactionError(problem, hint=_LOST)


def unended_problem(state: TransactionState) -> Problem | None:
    """Return the problem of a transaction whose last segment is missing at the end of the input, or None."""
    if not state.segment or state.broken:
        return None
    problem = f"transaction {state.tx_id} has not ended at the end of the input: segment {state.segment} is not its last one"
    return Problem(-1, TransactionError(problem, hint="Capture its other messages with it"))


def _ends(indicator: Octets | None, count: int) -> Mask:
    return np.zeros(count, bool) if indicator is None else mask_ends(indicator)


def _out_of_order(raw: RawOperations, row: int, before: int, *, opens: bool) -> TransactionError:
    assert raw.segments is not None
    own, name = int(raw.segments[row]), raw.seq_id[row].as_py()
    if opens:
        problem = f"transaction {name} begins with segment {own}"
    else:
        problem = f"segment {own} follows segment {before} of transaction {name}"
    return TransactionError(problem, hint=_LOST)
