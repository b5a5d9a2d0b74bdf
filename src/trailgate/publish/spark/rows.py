"""Convert messages to rows: key, value and headers for Spark's Kafka writer, the topic, and the place in the trail.

The columns `position` and `number` together order all messages of a trail. A message of one
operation has the position of this operation. Debezium's BEGIN event has the position of the
operation after it, and END that of the operation before it: for a transaction of one operation,
BEGIN is number 0, the event number 1, and END number 2. If messages contain transactions, all
messages of a transaction have the position of its first operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.capture.formats import writer_for
from trailgate.messages.publishing import TRANSACTION, PublishOptions, WrittenMessages
from trailgate.model.changes import ChangeBatch
from trailgate.model.transactions import count_rows_to_last_end
from trailgate.publish.message_origins import MessageOrigins, OriginFinder
from trailgate.publish.senders.kafka import POSITIONS
from trailgate.publish.senders.topics import TopicNames

HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
# The first four columns are those that Kafka's sink accepts.
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
        ("topic", pa.string()),
        ("table", pa.string()),
        ("position", pa.string()),
        ("number", pa.int32()),
    ]
)
DEFAULT_TOPIC: Final = "trailgate.${schema}.${table}"
TRANSACTION_TOPIC: Final = "trailgate"  # the default if a message holds a transaction


def topic_names(topic: str | None, options: PublishOptions) -> TopicNames:
    """Return the topics of the rows of messages for Spark's Kafka writer, by a template, or the default topics.

    Raises OptionError for a wrong template.
    """
    is_whole = options.content == TRANSACTION
    names = TopicNames(topic or (TRANSACTION_TOPIC if is_whole else DEFAULT_TOPIC), POSITIONS)
    names.check_fields(is_whole=is_whole)
    return names


class MessageRows:
    """Converts batches of operations to rows of messages for Spark as soon as their transactions have ended.

    ``name`` and ``options`` are the message format and its options. The operations of an open
    transaction are buffered and not yet converted. So a value in them that the format cannot
    represent is an error only if the transaction ends.
    """

    def __init__(self, name: str, options: PublishOptions, topic: str | None) -> None:
        self._writer, self._origins = writer_for(name, options), OriginFinder(options)
        self._topics = topic_names(topic, options)
        self._open: list[ChangeBatch] = []  # operations of a transaction that has not ended

    def write(self, batch: ChangeBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows of published messages whose transactions have ended in this batch."""
        if not batch.rows:
            return
        # Operations [0, stop) belong to transactions that have ended.
        stop = count_rows_to_last_end(batch.tx_indicators())
        if not stop:
            self._open.append(batch)
            return
        yield from self._take_open()
        if stop == batch.rows:
            yield self._write(batch)
            return
        has_ended = np.arange(batch.rows) < stop
        yield self._write(batch.where(has_ended))
        self._open = [batch.where(~has_ended)]

    def finish(self, *, with_open: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the remaining published messages.

        Messages of an open transaction are included only if ``with_open`` is set.
        """
        if with_open:
            yield from self._take_open()
        rest = self._writer.finish()
        yield self._rows(rest, self._origins.finish(rest))

    def _take_open(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the operations buffered for an open transaction, and empty the buffer."""
        buffered, self._open = self._open, []
        yield from map(self._write, buffered)

    def _write(self, batch: ChangeBatch) -> pa.RecordBatch:
        messages = self._writer.write(batch)
        return self._rows(messages, self._origins.find(batch, messages))

    def _rows(self, messages: WrittenMessages, origins: MessageOrigins) -> pa.RecordBatch:
        topics = self._topics.of_messages(origins) if len(messages) else []
        columns = [
            _keys(messages, origins),
            messages.bodies.cast(pa.binary()),
            _header_lists(messages.headers, len(messages)),
            pa.array(topics, pa.string()),
            origins.tables,
            origins.positions,
            pa.array(origins.numbers, pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _keys(messages: WrittenMessages, origins: MessageOrigins) -> pa.Array:
    """Return the keys of message rows: those of the format, or else the names of the tables.

    A key is null if both are, as for a message that contains a transaction.
    """
    tables = origins.tables.cast(pa.binary())
    if messages.keys is None:
        return tables
    return pc.coalesce(messages.keys.cast(pa.binary()), tables)


def _header_lists(headers: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return the headers of message rows, each as a list of (key, value). Null values are skipped."""
    if not headers:
        return pa.nulls(count, SCHEMA.field("headers").type)
    names, columns = list(headers), list(headers.values())
    # Row i of the matrix has a cell for each header of message i.
    exists = np.stack([np.asarray(column.is_valid()) for column in columns], axis=1)
    message, header = np.nonzero(exists)
    values = pa.concat_arrays([column.cast(pa.binary()) for column in columns])
    pairs = pa.StructArray.from_arrays(
        [
            pa.array(names, pa.string()).take(pa.array(header)),
            values.take(pa.array(header * count + message)),
        ],
        fields=list(HEADER),
    )
    offsets = np.concatenate([[0], np.cumsum(exists.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs)
