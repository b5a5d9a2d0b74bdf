"""Messages of the records of transactions: a transaction a message, cut between records where it is longer than a limit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trailgate.arrays import Longs, Mask
from trailgate.errors import EncodeError, Where
from trailgate.messages.publishing import kernels
from trailgate.messages.publishing.options import ROW, PublishOptions


@dataclass(frozen=True, slots=True)
class Cut:
    """The messages that begin in a batch: the first record of each, and its number in its transaction, from 0 on."""

    first: Longs
    segment: Longs


def cut_messages(
    sizes: Longs,
    begins: Mask,
    options: PublishOptions,
    *,
    held: int = -1,
    number: int = 0,
    overhead: int = 0,
) -> Cut:
    """Return the messages of records with these sizes; ``begins`` marks the first one of each transaction.

    ``held`` are the bytes of a message that is open before, -1 for none, and ``number`` is its number; ``overhead`` the bytes that each message has beside
    its records. Raises EncodeError, with the row as its record, for one longer than a message may be.
    """
    first, segment = np.empty((2, len(sizes)), np.int64)
    count = kernels.cut_messages(
        np.ascontiguousarray(sizes, np.int64),
        np.ascontiguousarray(begins, np.bool_),
        options.content == ROW,
        overhead,
        options.max_message_bytes,
        held,
        number,
        first,
        segment,
    )
    if count < 0:
        row, limit = -1 - count, options.max_message_bytes
        problem = (
            f"the operation has {int(sizes[row]) + overhead} bytes, and a message {limit} at most"
        )
        raise EncodeError(problem, where=Where(record=row), hint="Set max-message-bytes")
    return Cut(first[:count], segment[:count])
