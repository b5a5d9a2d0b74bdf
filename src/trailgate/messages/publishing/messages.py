"""Messages in bulk, as writers make them: bodies in one buffer, headers and keys as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.model.changes import ChangeBatch

BEFORE: Final = -1  # the order of an operation of an earlier batch


@dataclass(frozen=True, slots=True)
class Messages:
    """Consecutive messages; all members have one slot a message.

    ``order`` is the place, in the batch that was written, of each message's first operation; ``BEFORE`` where that came with
    an earlier batch. ``headers`` are columns of text by name, null where a message has none. ``keys`` are what a
    partitioned log keeps the order of messages by, None where the format has none.
    """

    bodies: pa.LargeBinaryArray
    order: Longs
    headers: Mapping[str, pa.Array] = field(default_factory=dict)
    keys: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.order)

    def slice(self, begin: int, stop: int) -> Messages:
        """Return messages [begin, stop)."""
        count = stop - begin
        headers = {name: values.slice(begin, count) for name, values in self.headers.items()}
        keys = None if self.keys is None else self.keys.slice(begin, count)
        return Messages(self.bodies.slice(begin, count), self.order[begin:stop], headers, keys)


NO_MESSAGES: Final = Messages(pa.array([], pa.large_binary()), np.zeros(0, np.int64))


class MessageWriter(Protocol):
    """Makes messages of operations; a transaction may continue in the next batch.

    Both methods raise EncodeError, with the table and the column, for what the format cannot hold.
    """

    def write(self, batch: ChangeBatch) -> Messages:
        """Return the messages that are complete with this batch."""
        ...

    def finish(self) -> Messages:
        """Return what was held back; nothing is written after this."""
        ...
