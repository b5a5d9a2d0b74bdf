"""The messages of a transaction by their numbers: one that is missing or comes again is an error, and so is an end that does not come."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import TransactionError
from trailgate.messages.transactions.bounds import Problem, TransactionState
from trailgate.messages.transactions.raw_operations import RawOperations
from trailgate.model.changes import END, WHOLE

_LOST = "Was a message lost, or published again after a restart?"
Note = Callable[[int, TransactionError], None]


def check_segments(
    raw: RawOperations, opens: Mask, unreadable: Longs, state: TransactionState, note: Note
) -> int:
    """Note the messages whose segment does not follow the one before; return the last segment of what is open at the end, 0 for none.

    ``opens`` marks the operations that begin a transaction, ``unreadable`` are messages that may have any operations; ``note`` takes
    a message, -1 for the one before all, and its error.
    """
    segments, message = raw.segments, raw.message
    if segments is None or not len(segments):
        return 0 if len(unreadable) else state.segment
    before = np.append(state.segment, segments[:-1])
    ended = _ended(raw.tx_ind, len(segments))
    open_before = np.append(state.segment > 0, ~ended[:-1]) & (before > 0)
    first = np.append(True, message[1:] != message[:-1])
    expected = np.where(opens, 1, before + 1)
    wrong = first & (segments > 0) & (segments != expected) & (opens | (before > 0))
    unended = first & opens & open_before
    last = np.append(-1, message[:-1])
    for row in np.flatnonzero(wrong | unended).tolist():
        if ((unreadable >= last[row]) & (unreadable < message[row])).any():
            continue  # what is missing may be in it
        if unended[row]:
            note(int(last[row]), not_ended())
        if wrong[row]:
            note(
                int(message[row]), _out_of_order(raw, row, int(before[row]), opens=bool(opens[row]))
            )
    if ended[-1] or (len(unreadable) and unreadable[-1] > message[-1]):
        return 0
    return int(segments[-1])


def not_ended() -> TransactionError:
    """Return the error of a transaction whose last segment has not come before the next transaction."""
    problem = "the transaction before has not ended where the next one begins"
    return TransactionError(problem, hint=_LOST)


def unended(state: TransactionState) -> Problem | None:
    """Return the problem of a transaction whose last segment has not come at the end of the input."""
    if not state.segment or state.broken:
        return None
    problem = f"transaction {state.tx_id} has not ended at the end of the input: segment {state.segment} is not its last one"
    return Problem(-1, TransactionError(problem, hint="Capture its other messages with it"))


def _ended(marks: Octets | None, count: int) -> Mask:
    return np.zeros(count, bool) if marks is None else np.isin(marks, (END, WHOLE))


def _out_of_order(raw: RawOperations, row: int, before: int, *, opens: bool) -> TransactionError:
    assert raw.segments is not None
    own, name = int(raw.segments[row]), raw.seq_id[row].as_py()
    if opens:
        problem = f"transaction {name} begins with segment {own}"
    else:
        problem = f"segment {own} follows segment {before} of transaction {name}"
    return TransactionError(problem, hint=_LOST)
