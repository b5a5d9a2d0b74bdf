"""The ids of the messages that were stored last: what a broker gives again is recognised by them."""

from __future__ import annotations

from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Mask
from trailgate.columnar.checksums import checksums
from trailgate.columnar.rows import byte_view
from trailgate.errors import BrokerError

# The rows of a file of ids: the CRC-32 of the body beside each id. Files of earlier versions do not have it.
IDS_SCHEMA: Final = pa.schema([pa.field("id", pa.string()), pa.field("checksum", pa.int64())])
_UNIQUE: Final = (
    "An id is one message's. Let the sender give each message an id of its own, or receive by STOMP, where ActiveMQ gives ids itself. "
    "The message is still with the broker"
)


def checksums_of(messages: pa.RecordBatch) -> pa.Array:
    """Return the checksum of the body of each message, or row of a file of ids; null where it is not known."""
    if "body" in messages.schema.names:
        bounds, data = byte_view(messages["body"])
        return pa.array(checksums(data, bounds[:-1], bounds[1:]), pa.int64())
    if "checksum" in messages.schema.names:
        return messages["checksum"]
    return pa.nulls(len(messages), pa.int64())


def ids_of(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows of a file of ids."""
    return pa.RecordBatch.from_arrays([messages["id"], checksums_of(messages)], schema=IDS_SCHEMA)


class KnownIds:
    """Remembers so many ids, those that came last, each with the checksum of its message's body."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sums: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self._sums)

    def fresh(self, ids: pa.RecordBatch) -> Mask:
        """Return which messages were not stored, and are not in this window before; ``ids`` are rows of a file of ids.

        Raises BrokerError for an id that came before with another body: that is not the same message.
        """
        names = ids["id"].to_pylist()
        found = np.ones(len(names), bool)
        if self._sums.keys().isdisjoint(names) and len(set(names)) == len(names):
            return found
        seen: dict[str, int | None] = {}
        for at, (own, checksum) in enumerate(zip(names, ids["checksum"].to_pylist(), strict=True)):
            known = self._sums if own in self._sums else seen
            if own in known:
                found[at] = False
                if known[own] not in (checksum, None):
                    problem = f"the message id {own} came before, with another body"
                    raise BrokerError(problem, hint=_UNIQUE)
            else:
                seen[own] = checksum
        return found

    def add(self, ids: pa.RecordBatch) -> None:
        """Remember ids, rows of a file of ids; the oldest ones are forgotten for them."""
        self._sums.update(zip(ids["id"].to_pylist(), ids["checksum"].to_pylist(), strict=True))
        surplus = len(self._sums) - self._limit
        for one in list(islice(self._sums, max(0, surplus))):
            del self._sums[one]
