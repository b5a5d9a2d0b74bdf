"""The numbers of messages in a transaction, and what they reveal about redelivered or missing messages.

Event publishing cuts a long transaction into numbered messages. IBM's documentation defines neither
the first number nor whether messages of single rows are numbered. So a number is only compared with
the previous one (`is_redelivered_start`). Only the operations on both sides of a boundary between
messages have to be compared; `MessageBoundaries` contains them.
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
    "With event_publishing.content=row both are rows of the transaction; with content=transaction the second one is a "
    "repeated message, and is skipped"
)
_DISORDER: Final = "A redelivered transaction begins with the same message number as before. Are the messages in order?"


@dataclass(frozen=True, slots=True)
class MessageBoundaries:
    """The operations next to the boundaries between messages of one transaction.

    The arrays have one element for each of these operations, and for the first and the last
    operation of the batch. `rows` are their row numbers in the batch, ascending. `numbers` are the
    numbers of their messages in the transaction, or `NO_NUMBER`. `digests` has the hash of the
    operation's bytes if it is alone in its message, otherwise `SEVERAL`. `content` is the content
    of a message: "transaction", "row", or "auto" if it must be detected.
    """

    content: str
    rows: Longs
    numbers: Longs
    digests: Longs

    @staticmethod
    def join(parts: Sequence[tuple[MessageBoundaries, int]]) -> MessageBoundaries:
        """Concatenate the message boundaries of several parts of a batch.

        Each part comes with the number of operations before it.
        """
        return MessageBoundaries(
            parts[0][0].content,
            np.concatenate([part.rows + before for part, before in parts]),
            np.concatenate([part.numbers for part, _ in parts]),
            np.concatenate([part.digests for part, _ in parts]),
        )


@dataclass(frozen=True, slots=True)
class LastMessage:
    """The number of a batch's last message in its transaction, and the digest of its last operation.

    `first` is set if that operation is the first of its transaction. `began` is the number of the
    transaction's first message, or `NO_NUMBER` if it is unknown.
    """

    number: int
    digest: int
    first: bool
    began: int


def last_message(boundaries: MessageBoundaries, opens: Mask, began: int) -> LastMessage:
    """Return the last message of a batch, to which the first message of the next batch is compared.

    `began` is the number of the first message of its transaction.
    """
    # The last element of `rows` is the batch's last operation.
    row = int(boundaries.rows[-1])
    return LastMessage(
        int(boundaries.numbers[-1]), int(boundaries.digests[-1]), bool(opens[row]), began
    )


def is_redelivered_start(content: str, before: LastMessage, after: LastMessage) -> bool:
    """Compare the numbers of two adjacent messages, and return whether the second is the redelivered start of their transaction.

    Both messages contain operations of the same transaction, which began with the message
    `before.began`. Example: 5, then 1 is a restart if the transaction began with message 1. With
    the `content` "row", the result is always False. Raises TransactionError if a message is missing
    or the numbers contradict each other.
    """
    if content == ROW or NO_NUMBER in (before.number, after.number):
        return False
    # Examples of (before, after): 2, 3 continues. 1, 4 lacks messages 2 and 3. With content=row 2,
    # 2 are two rows. 5, 1 begins again if the transaction began with message 1.
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
