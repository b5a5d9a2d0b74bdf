"""The parts that all writers of published messages share: options, bodies, headers and keys.

A `MessageWriter` turns batches of operations into `WrittenMessages`. `cut_messages` divides records
into messages: one message per transaction, or several if the transaction is longer than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, Protocol

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.errors import EncodeError, OptionError, Where
from trailgate.messages.publishing_kernels import cut_records
from trailgate.model.changes import ChangeBatch
from trailgate.options import COUNT, FieldOption, field_options

TRANSACTION: Final = "transaction"
ROW: Final = "row"
MAX_MESSAGE_BYTES: Final = 1 << 20  # the limit that brokers have by default: Kafka's


# The times that messages can have, in microseconds since 1970: from the year 1 to the end of 9999.
BEGIN_OF_YEARS: Final = -62_135_596_800_000_000
END_OF_YEARS: Final = 253_402_300_800_000_000

EARLIER: Final = -1  # the `order` of an operation of an earlier batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishOptions:
    """The options that all published formats share: how operations become messages.

    Each field is an option of its format, and may be given as text.
    """

    content: Annotated[
        Literal["transaction", "row"], "the content of a message: one transaction, or one operation"
    ] = TRANSACTION
    max_message_bytes: Annotated[
        int,
        COUNT,
        "the maximum size of a message in bytes; a larger transaction becomes several messages",
    ] = MAX_MESSAGE_BYTES
    now: Annotated[
        int,
        "the time of sending in microseconds since 1970 UTC; 0 is the commit time, so that the same operations give the same bytes",
    ] = 0

    def __post_init__(self) -> None:
        """Raise OptionError for a value that is not allowed."""
        for row in field_options(type(self), FieldOption):
            object.__setattr__(self, row.name, row.value(getattr(self, row.name)))
        if not BEGIN_OF_YEARS <= self.now < END_OF_YEARS:
            problem = f"now must be microseconds since 1970 in the years 1 to 9999, not {self.now}"
            raise OptionError(problem, hint="0 is the commit time")


def bodies_as_array(data: Octets, bounds: Longs) -> pa.LargeBinaryArray:
    """Return the bodies of messages to publish, `data[bounds[i]:bounds[i + 1]]`, as an Arrow array, without copying."""
    offsets = pa.py_buffer(np.ascontiguousarray(bounds, np.int64))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(bounds) - 1, [None, offsets, pa.py_buffer(data)]
    )


@dataclass(frozen=True, slots=True)
class WrittenMessages:
    """Consecutive messages to publish, as arrays with one element per message.

    `order` is the row, in the written batch, of each message's first operation, or `EARLIER` if
    that was in an earlier batch. `headers` are text columns by name, null if a message does not
    have the header. `keys` are the partition keys, by which a log such as Kafka keeps messages in
    order; None if the format has none. `marks` is a mask of the messages that begin or end a
    transaction and have no operation; None if the format has none.
    """

    bodies: pa.LargeBinaryArray
    order: Longs
    headers: Mapping[str, pa.Array] = field(default_factory=dict)
    keys: pa.Array | None = None
    marks: Mask | None = None

    def __len__(self) -> int:
        return len(self.order)

    def slice(self, begin: int, stop: int) -> WrittenMessages:
        """Return the messages to publish from index `begin` to before `stop`."""
        count = stop - begin
        headers = {name: values.slice(begin, count) for name, values in self.headers.items()}
        keys = None if self.keys is None else self.keys.slice(begin, count)
        marks = None if self.marks is None else self.marks[begin:stop]
        return WrittenMessages(
            self.bodies.slice(begin, count), self.order[begin:stop], headers, keys, marks
        )


NO_MESSAGES: Final = WrittenMessages(pa.array([], pa.large_binary()), np.zeros(0, np.int64))


class MessageWriter(Protocol):
    """The interface of the writers of published formats: operations become messages.

    A transaction may continue in the next batch, so the last message may be held back.

    Both methods raise EncodeError, with table and column, for values that the format cannot
    express.
    """

    def write(self, batch: ChangeBatch) -> WrittenMessages:
        """Write a batch of operations, and return the messages that it completes."""
        ...

    def finish(self) -> WrittenMessages:
        """Return the messages that were held back. Nothing may be written afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class MessageCuts:
    """How written records are cut into messages to publish: two arrays with an element per message.

    `first` is the message's first record, and `segment` its number in its transaction, from 0.
    """

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
) -> MessageCuts:
    """Cut written records of the given sizes into messages of limited size.

    `begins` marks the first record of each transaction. `held` is the size in bytes of the message
    that is still open from an earlier call, or -1, and `number` is the number of that message in
    its transaction. `overhead` is the number of bytes that each message has besides its records.
    Raises EncodeError, with the row in `where.record`, if a single record is longer than the limit.
    """
    first, segment = np.empty((2, len(sizes)), np.int64)
    count = cut_records(
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
        # A record that is too long is returned as -1 for row 0, -2 for row 1, and so on.
        row, limit = -1 - count, options.max_message_bytes
        problem = f"the operation has {int(sizes[row]) + overhead} bytes, but a message may have at most {limit}"
        raise EncodeError(problem, where=Where(record=row), hint="Set max-message-bytes")
    return MessageCuts(first[:count], segment[:count])
