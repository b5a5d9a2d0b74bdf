"""Find the first operation of each message of a publication.

Topics, headers and message ids are derived from this operation. With ``content=row``, a message
contains one operation. With ``content=transaction``, all messages of a transaction have its first
operation as their origin. That does not depend on how the trail is divided into batches, so
publishing the same trail again creates the same ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Mask, Octets
from trailgate.messages.publishing import TRANSACTION, PublishOptions, WrittenMessages
from trailgate.model.changes import ChangeBatch
from trailgate.model.transactions import mask_begins


@dataclass(frozen=True, slots=True)
class MessageOrigins:
    """The first operation of each published message, as arrays with one element per message.

    - ``positions``: the position, as 20 digits.
    - ``tables``: the table; null for a message of a transaction, and for BEGIN and END events.
    - ``op_types``: the operation type, as in ``ChangeBlock``.
    - ``times``: the commit time in microseconds since 1970 UTC.
    - ``numbers``: the number of the message among the messages with the same position, from 0.
    - ``marks``: whether the message is a BEGIN or END event.
    """

    positions: pa.StringArray
    tables: pa.StringArray
    op_types: Octets
    times: Longs
    numbers: Longs
    marks: Mask

    def slice(self, begin: int, stop: int) -> MessageOrigins:
        """Return the origins of the published messages [begin, stop)."""
        count, part = stop - begin, slice(begin, stop)
        return MessageOrigins(
            positions=self.positions.slice(begin, count),
            tables=self.tables.slice(begin, count),
            op_types=self.op_types[part],
            times=self.times[part],
            numbers=self.numbers[part],
            marks=self.marks[part],
        )


@dataclass(frozen=True, slots=True)
class _OpenTransaction:
    """The first operation of a transaction that may continue in the next batch, and its number of messages so far."""

    position: str = ""
    kind: int = 0
    time: int = 0
    messages: int = 0


class OriginFinder:
    """Finds the first operations of published messages, batch by batch.

    It stores the first operation of the last transaction, because later batches may contain
    messages of that transaction.
    """

    def __init__(self, options: PublishOptions) -> None:
        self._is_whole = options.content == TRANSACTION
        self._open = _OpenTransaction()

    def find(self, batch: ChangeBatch, messages: WrittenMessages) -> MessageOrigins:
        """Return the origins of the messages that a writer has returned for a batch of operations."""
        rows = messages.order
        begins = mask_begins(batch.tx_indicators())
        if self._is_whole:
            # The row of each operation's transaction begin, -1 if it began in an earlier batch.
            at = np.where(begins, np.arange(batch.rows), -1)
            rows = np.where(rows < 0, -1, np.maximum.accumulate(at)[rows]) if batch.rows else rows
        return self._origins(batch, rows, messages, begins)

    def finish(self, messages: WrittenMessages) -> MessageOrigins:
        """Return the origins of the messages that the writer returned after the last batch."""
        nothing = ChangeBatch((), 0)
        return self._origins(nothing, messages.order, messages, np.zeros(0, bool))

    def _origins(
        self, batch: ChangeBatch, rows: Longs, messages: WrittenMessages, begins: Mask
    ) -> MessageOrigins:
        before = self._open
        # The open transaction's first operation comes after all others, where row -1 finds it.
        kinds = np.full(batch.rows + 1, before.kind, np.uint8)
        times = np.full(batch.rows + 1, before.time, np.int64)
        tables = np.full(batch.rows + 1, -1, np.int64)
        for number, block in enumerate(batch.blocks):
            kinds[block.order], times[block.order] = block.op_type, block.op_ts
            tables[block.order] = number
        positions = pa.concat_arrays(
            [batch.in_order("position").cast(pa.string()), pa.array([before.position])]
        )
        names = pa.array([block.table.name for block in batch.blocks], pa.string())
        # A row of -1 is a message of operations in earlier batches: it reads the element appended
        # at the end.
        picked = np.where(rows < 0, batch.rows, rows)
        marks = np.zeros(len(rows), bool) if messages.marks is None else messages.marks
        of_table = np.full(len(rows), -1) if self._is_whole else tables[picked]
        unknown = marks | (of_table < 0)
        found = MessageOrigins(
            positions=positions.take(pa.array(picked)),
            # Arrow checks the bounds of masked indexes too, so unknown ones are set to 0.
            tables=names.take(pa.array(np.where(unknown, 0, of_table), mask=unknown)),
            op_types=kinds[picked],
            times=times[picked],
            numbers=_count_equal(rows, before.messages),
            marks=marks,
        )
        if batch.rows:
            self._update_open(batch, begins, rows, found)
        return found

    def _update_open(
        self, batch: ChangeBatch, begins: Mask, rows: Longs, found: MessageOrigins
    ) -> None:
        # The last transaction that begins in this batch is taken as the open one. If it ends here
        # too, the next batch begins with another one and has no row that refers to it.
        if begins.any():
            first = int(np.flatnonzero(begins)[-1])
            block, row = batch.find(first)
            # Messages of this transaction so far; the next batch continues their numbers.
            mine = found.numbers[rows == first]
            place = str(block.position[row].as_py())
            count = int(mine[-1]) + 1 if len(mine) else 0
            self._open = _OpenTransaction(
                place, int(block.op_type[row]), int(block.op_ts[row]), count
            )
        elif (rows < 0).any():
            before = self._open
            count = int(found.numbers[rows < 0][-1]) + 1
            self._open = _OpenTransaction(before.position, before.kind, before.time, count)


def _count_equal(rows: Longs, before: int) -> Longs:
    """Return each message's number among consecutive messages with the same first operation.

    ``rows`` are the rows of these operations: 4, 4, 7, 7, 7 result in 0, 1, 0, 1, 2. A row of -1 is
    an operation of an earlier batch, of which ``before`` messages have been numbered.
    """
    at = np.arange(len(rows))
    fresh = np.ones(len(rows), bool)
    fresh[1:] = rows[1:] != rows[:-1]
    # The running maximum is the index at which the current group began, so the difference counts
    # from 0 within each group.
    numbers: Longs = at - np.maximum.accumulate(np.where(fresh, at, 0)) + (rows < 0) * before
    return numbers
