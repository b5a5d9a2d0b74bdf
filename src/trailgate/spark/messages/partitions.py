"""What a task of the format ``message_capture`` reads: a range of messages, in a batch or in a stream."""

from __future__ import annotations

import logging
from collections.abc import Iterator
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


class MessagePartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """A range of messages, and all that is needed to parse them."""

    def __init__(self, capture: Capture, source: MessageFiles, own: MessageRange) -> None:
        super().__init__(None)
        self.capture = capture
        self.source = source
        self.own = own


def read_partition(
    partition: InputPartition | None, options: MessageOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield a partition's operations in exactly the schema that Spark expects."""
    if not isinstance(partition, MessagePartition):
        return  # Spark asks once with None where there are no partitions
    projection = options.projection(partition.capture)
    changes = owned_changes(partition.capture, partition.source, partition.own)
    batches = (projection.rows(batch) for batch in changes)
    yield from as_expected((batch for batch in batches if batch.num_rows), schema)


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
