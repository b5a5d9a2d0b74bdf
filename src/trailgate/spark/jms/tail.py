"""The stream of the format ``jms``: an offset is the number of the next message in the journal.

Spark builds the reader in several processes, so nothing is opened before the first offset is asked for; the process that is asked
receives from the broker then, if one is named. Nothing depends on ``commit``, which Spark calls a batch late, nor on ``stop``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from trailgate.errors import StorageError, Where
from trailgate.jobs.receive.journal_stream import (
    TransactionBorders,
    good_operations_of,
    operations_of,
)
from trailgate.jobs.receive.receivers import receiver_of
from trailgate.jobs.receive.storing import StoringReceiver
from trailgate.messages.capture import Capture
from trailgate.model.changes import ChangeBatch
from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.expected_rows import as_expected
from trailgate.spark.jms.options import MESSAGES, JmsOptions
from trailgate.storage.files.journal.journal import Stored
from trailgate.storage.files.journal.ranges import JournalIndex, JournalRange

WAIT_SECONDS: Final = 0.05
Offset = dict[str, Any]


class JournalPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """Messages that one task reads."""

    def __init__(self, messages: JournalRange) -> None:
        super().__init__(None)
        self.messages = messages


@with_brief_errors
class JmsTail(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark's types are not followed
    """Follows a journal, and fills it where a broker is named."""

    def __init__(self, options: JmsOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._index = JournalIndex(options.journal)
        capture = options.capture
        stop = options.quarantine is None
        self._borders = (
            None if capture is None else TransactionBorders(self._index, capture, stop=stop)
        )
        self._receiver: StoringReceiver | None = None
        self._released = 0
        self._to_the_end = False
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return where a new stream begins: with the first message that is there."""
        return {"message": self._index.held().first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a batch that the options set."""
        most = self._options.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return where the next batch ends: between two transactions, if the rows are operations."""
        begin = int(start["message"])
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        self._receive(begin)
        while True:
            end = self._end(begin)
            found = self._cut(begin, end, most)
            if found > begin or not self._is_waiting():
                return {"message": found}
            time.sleep(WAIT_SECONDS)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802  Spark's name
        """Return where the journal ends, from which Spark's progress has the lag."""
        return {"message": self._index.held().end}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end with what the journal has now, or, of a broker, where nothing comes any more."""
        self._to_the_end = True

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of a batch: some megabytes each, of whole transactions."""
        begin, stop = int(start["message"]), int(end["message"])
        whole = self._index.range(begin, stop)
        cuts = [begin]
        for cut in self._index.cuts(begin, stop, self._options.split_bytes):
            border = cut if self._borders is None else self._borders.last(cuts[-1], cut)
            if border > cuts[-1]:
                cuts.append(border)
        if len(cuts) == 1:
            return [JournalPartition(whole)] if stop > begin else []
        cuts.append(stop)
        ranges = (self._index.range(*pair) for pair in pairwise(cuts))
        return [JournalPartition(part) for part in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows."""
        if not isinstance(partition, JournalPartition):
            return  # Spark asks once with None where there are no partitions
        capture, projection = self._options.capture, self._options.projection
        if capture is None or projection is None:
            rows = (_rows(stored) for stored in partition.messages.read())
        else:
            parsed = self._operations(partition.messages, capture)
            rows = (projection.rows(batch) for batch in parsed if batch.rows)
        yield from as_expected(rows, self._schema)

    def _operations(self, messages: JournalRange, capture: Capture) -> Iterator[ChangeBatch]:
        quarantine = self._options.quarantine
        if quarantine is None:
            return operations_of(messages, capture)
        return good_operations_of(messages, capture, quarantine)

    def stop(self) -> None:
        """Let go of the broker in order, where Spark gives the time for it."""
        if self._receiver is not None:
            self._receiver.close()

    def _receive(self, begin: int) -> None:
        """Receive from the broker from now on, and remove from the journal what is before the offset: Spark has committed that."""
        if self._options.address is None:
            return
        if self._receiver is None:
            receiver = receiver_of(self._options.address)
            rule = self._options.message_ids
            self._receiver = StoringReceiver(receiver, self._options.journal, rule=rule)
        self._receiver.check()
        if begin > self._released:
            self._receiver.release(begin)
            self._released = begin

    def _end(self, begin: int) -> int:
        """Return up to where messages can be given; raises StorageError where the journal is not the stream's."""
        held = self._index.held().end
        # What is stored, but not synced yet, may be lost: the receiver knows better.
        end = held if self._receiver is None else min(held, self._receiver.end)
        if end < begin:
            problem = f"the journal ends before message {end}, and the stream continues at {begin}"
            hint = "It is not the journal that belongs to the stream's checkpoint: restore that one"
            raise StorageError(problem, where=Where(source=str(self._options.journal)), hint=hint)
        if self._to_the_end and self._receiver is None:
            self._target = end if self._target is None else self._target
            return min(end, max(begin, self._target))
        return end

    def _cut(self, begin: int, end: int, most: int | None) -> int:
        """Return where a batch of what is there ends."""
        if self._borders is None:
            return end if most is None else min(end, begin + most)
        if most is None:
            return self._borders.last(begin, end)
        return self._borders.last_within(begin, most, end)

    def _is_waiting(self) -> bool:
        """Return whether more may come, and is waited for."""
        if not self._to_the_end or self._receiver is None:
            return False
        self._receiver.check()
        return not self._receiver.is_quiet(self._options.idle_seconds)


def _rows(stored: Stored) -> pa.RecordBatch:
    messages = stored.messages
    numbers = pa.array(np.arange(stored.number, stored.end))
    columns = [messages[name].cast(MESSAGES.field(name).type) for name in MESSAGES.names[1:]]
    return pa.RecordBatch.from_arrays([numbers, *columns], schema=MESSAGES)
