"""Units: the messages that are captured or refused together where transactions may span messages (decision 0012).

A unit begins at a message that begins a transaction, and at one that follows a message after
which nothing is open. So a message that cannot be read takes no finished transaction with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask, Octets
from trailgate.model.changes import BEGIN, END, WHOLE


@dataclass(frozen=True, slots=True)
class UnitMarks:
    """By message: whether it ``opens`` a transaction with its first operation or ``starts`` a unit.

    ``closed`` means that nothing is open after the last message.
    """

    opens: Mask
    starts: Mask
    closed: bool = True

    @staticmethod
    def of_single(messages: int) -> UnitMarks:
        """Return the marks of messages each of which is a transaction."""
        every = np.ones(messages, bool)
        return UnitMarks(every, every)


def unit_marks(
    indicator: Octets, message: Longs, messages: int, unreadable: Longs, *, is_open: bool
) -> UnitMarks:
    """Return the marks of messages, by the indicator and the message of each operation.

    Whether something is open after a message is known from its last operation; a message without any
    leaves it as it was. After an unreadable message something may be open.
    """
    first, last = np.ones(len(message), bool), np.ones(len(message), bool)
    first[1:] = last[:-1] = message[1:] != message[:-1]
    opens = np.zeros(messages, bool)
    letters = indicator[first]
    opens[message[first]] = (letters == BEGIN) | (letters == WHOLE)
    known = np.zeros(messages + 1, bool)  # slot 0 is before all messages
    closed = np.zeros(messages + 1, bool)
    known[0], closed[0] = True, not is_open
    known[unreadable + 1] = True
    known[message[last] + 1] = True
    letters = indicator[last]
    closed[message[last] + 1] = (letters == END) | (letters == WHOLE)
    closed = closed[np.maximum.accumulate(np.where(known, np.arange(messages + 1), 0))]
    return UnitMarks(opens, opens | closed[:-1], bool(closed[-1]))
