"""Messages as a broker gave them: one Arrow schema for receivers and the journal."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs
from trailgate.columnar.rows import byte_view
from trailgate.errors import DecodeError
from trailgate.messages.parsing.header_columns import HeaderColumns
from trailgate.messages.parsing.messages import MessageBatch
from trailgate.messages.transactions.bounds import Problem

# ``id`` recognises a message that is given again, and is null where nothing does. ``fault`` is why a message has no body that
# can be read, null where it has one. ``received`` is microseconds since 1970 UTC.
RECEIVED: Final = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("received", pa.int64(), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.string()), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("fault", pa.string()),
    ]
)
FAULT_HINT: Final = "Quarantine it (--on-error quarantine), or have it sent as a text message"


def as_messages(
    received: pa.RecordBatch, place: tuple[int | Longs, Longs], source: str
) -> tuple[MessageBatch, tuple[Problem, ...]]:
    """Return received messages for a parser, and the problems of those without a body.

    ``place`` is a number, or one for each message, and each message's offset: generated ids are made of both.
    """
    bounds, data = byte_view(received["body"])
    number, offsets = place
    count = len(received)
    messages = MessageBatch(
        data=pa.py_buffer(data),
        starts=bounds[:-1],
        ends=bounds[1:],
        files=np.broadcast_to(np.asarray(number, np.int64), count).copy(),
        offsets=offsets,
        headers=HeaderColumns(received["headers"]),
        source=source,
        received=np.asarray(received["received"]),
    )
    faults = received["fault"]
    if faults.null_count == count:
        return messages, ()
    rows = np.flatnonzero(np.asarray(faults.is_valid()))
    return messages, tuple(
        Problem(at, DecodeError(faults[at].as_py(), hint=FAULT_HINT)) for at in rows.tolist()
    )
