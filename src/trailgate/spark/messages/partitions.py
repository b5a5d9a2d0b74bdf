"""What a task of the format ``message_capture`` reads: a range of messages, in a batch or in a stream."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from trailgate.jobs.capture.range_reader import RangeReader
from trailgate.messages.capture import Capture
from trailgate.model.changes import ChangeBatch
from trailgate.spark.expected_rows import as_expected
from trailgate.spark.messages.options import MessageOptions
from trailgate.storage.reading.messages.files import MessageFiles, MessageRange

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MessageReading:
    """What messages are read by, and where they are: what all tasks need."""

    options: MessageOptions
    capture: Capture
    source: MessageFiles

    def rows(self, own: MessageRange, schema: StructType) -> Iterator[pa.RecordBatch]:
        """Yield the operations of a range in exactly the schema that Spark expects."""
        projection = self.options.projection(self.capture)
        changes = owned_changes(self.capture, self.source, own)
        batches = (projection.rows(batch) for batch in changes)
        return as_expected((batch for batch in batches if batch.num_rows), schema)


class MessagePartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """A range of messages. All else is the reader's: it is sent once, and not with every partition."""

    def __init__(self, own: MessageRange) -> None:
        super().__init__(None)
        self.own = own


class TailPartition(MessagePartition):
    """A range of a batch's messages, and what it is read by: a stream's reader is sent before its batches are known."""

    def __init__(self, reading: MessageReading, own: MessageRange) -> None:
        super().__init__(own)
        self.reading = reading


def owned_changes(
    capture: Capture, source: MessageFiles, own: MessageRange
) -> Iterator[ChangeBatch]:
    """Yield the operations that a range owns, and log its notes; raises at the first problem."""
    reader = RangeReader(capture, source, own)
    for batch in reader.batches():
        for error in batch.problems.values():
            raise error
        yield batch.operations
    # What only all ranges together know is left out.
    for note in sorted(capture.said(reader.notes) & (reader.notes | capture.options.notes)):
        LOG.warning(note)
