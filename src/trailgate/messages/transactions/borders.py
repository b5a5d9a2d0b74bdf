"""Messages of one transaction: whether one is missing, or the transaction begins again because it was sent twice.

A transaction that is longer than a message is cut into numbered messages. What the first number is, IBM's pages leave open, and so whether rows that are
sent one a message are numbered: hence numbers are only compared with the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import TransactionError

AUTO: Final = "auto"
ROW: Final = "row"
NO_NUMBER: Final = -1
SEVERAL: Final = 0  # instead of a digest: the message has more than one operation
_ONCE_OR_TWICE: Final = (
    "event_publishing.content=row takes both as rows of the transaction; with content=transaction the second one is a "
    "repeated message, and dropped"
)
_DISORDER: Final = "One that comes again begins with the number that it began with before. Are the messages in their order?"


@dataclass(frozen=True, slots=True)
class Borders:
    """What is known of some operations: those on either side of a border between messages, and the first and the last one.

    ``rows`` ascend. ``numbers`` are those of their messages; ``digests`` stand for the bytes of an operation that is alone in its message.
    ``content`` is what messages hold: a transaction or a row, or auto: that is to be seen.
    """

    content: str
    rows: Longs
    numbers: Longs
    digests: Longs

    @staticmethod
    def joined(parts: Sequence[tuple[Borders, int]]) -> Borders:
        """Return parts as one, each with the number of operations before it."""
        return Borders(
            parts[0][0].content,
            np.concatenate([part.rows + before for part, before in parts]),
            np.concatenate([part.numbers for part, _ in parts]),
            np.concatenate([part.digests for part, _ in parts]),
        )


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The number of a message and the digest of its last operation.

    ``first``: that is the first one of its transaction; ``began`` is the number of the transaction's first message, ``NO_NUMBER`` where that is not known.
    """

    number: int
    digest: int
    first: bool
    began: int


def last_message(borders: Borders, opens: Mask, began: int) -> LastMessage:
    """Return what the next batch is compared with."""
    row = int(borders.rows[-1])
    return LastMessage(int(borders.numbers[-1]), int(borders.digests[-1]), bool(opens[row]), began)


def begins_again(content: str, before: LastMessage, after: LastMessage) -> bool:
    """Return whether a transaction begins again with the message after a border; raises TransactionError.

    Both messages have operations of one transaction.
    """
    if content == ROW or NO_NUMBER in (before.number, after.number):
        return False
    if after.number > before.number + 1:
        problem = (
            f"message {after.number:04} of a transaction follows its message {before.number:04}"
        )
        hint = "Messages are missing, or event_publishing.content=row: then numbers mean nothing"
        raise TransactionError(problem, hint=hint)
    if after.number == before.number + 1:
        return False
    alone = SEVERAL not in (before.digest, after.digest)
    if after.number == before.number and content == AUTO and alone:
        if before.first and before.digest == after.digest:
            problem = f"two messages of a transaction, numbered {after.number:04}, are the same"
            raise TransactionError(problem, hint=_ONCE_OR_TWICE)
        return False
    if before.began not in (NO_NUMBER, after.number):
        problem = (
            f"message {after.number:04} of a transaction follows its message {before.number:04}, "
            f"and the transaction began with message {before.began:04}"
        )
        raise TransactionError(problem, hint=_DISORDER)
    return True
