"""The stream of the format ``message_capture``: new files of a folder, each once.

Nothing is done in the constructor, in ``commit`` and in ``stop``: the offsets are all that is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from trailgate.capture.capture import Capture
from trailgate.errors import OptionError
from trailgate.jobs.capture.loading import infer_tables
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.messages import MessageOptions, MessageReading, TailPartition
from trailgate.spark.options import one_path
from trailgate.storage.files.found_files import FoundFile, find_growing
from trailgate.storage.reading.message_files import (
    MessageFiles,
    MessageRange,
    messages_of,
    plan_ranges,
)
from trailgate.storage.reading.message_stream import (
    BEGIN,
    NO_LIMIT,
    BatchLimit,
    MessageOffset,
    MessageStream,
)

Offset = dict[str, Any]


@with_brief_errors
class MessageTail(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark's types are not followed
    """Takes new files in the order of their names."""

    def __init__(self, options: MessageOptions, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._stream = MessageStream(self._find)
        self._capture: Capture | None = None

    def _find(self) -> tuple[FoundFile, ...]:
        return find_growing(one_path(self._options.paths, "a stream of the format message_capture"))

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return where a new stream begins: before the first file."""
        return BEGIN.json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a batch that the options set."""
        if self._limit.bytes is not None:
            return ReadMaxBytes(self._limit.bytes)
        if self._limit.files is not None:
            return ReadMaxFiles(self._limit.files)
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return where the next batch ends."""
        # Spark has no limit of two kinds: both options hold, unless it asks for everything.
        bound = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self._limit
        return self._stream.latest(MessageOffset.read(start), bound).json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end with the files that are there now."""
        self._stream.stop_at_present_end()

    @property
    def _limit(self) -> BatchLimit:
        return BatchLimit(self._options.max_files_per_trigger, self._options.max_bytes_per_trigger)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of a batch; positions and generated ids count the files of the whole stream."""
        begin, options = MessageOffset.read(start), self._options
        if self._capture is None:
            self._capture = options.capture()
            check_stream(self._capture)
        found = self._stream.files(begin, MessageOffset.read(end))
        if not found:
            return []
        capture = replace(self._capture, first_file=begin.count)
        source = messages_of(found, options.message_per == "line", cutter=capture.cutter)
        capture = infer_tables(capture, source)
        ranges = plan_ranges(source, options.split_bytes)
        return [self._partition(capture, source, own) for own in ranges]

    def _partition(
        self, capture: Capture, source: MessageFiles, own: MessageRange
    ) -> InputPartition:
        """Return a range with its own files alone: transactions do not span messages."""
        first = own.start.file
        capture = replace(capture, first_file=capture.first_file + first)
        reading = MessageReading(self._options, capture, source.window(own))
        return TailPartition(reading, own.move(first))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's operations."""
        if isinstance(partition, TailPartition):  # Spark asks with None where there are none
            yield from partition.reading.rows(partition.own, self._schema)


def check_stream(capture: Capture) -> None:
    """Raise OptionError where transactions span messages: a batch ends where files end, inside a transaction maybe."""
    if capture.spans_messages or capture.options.by_id:
        problem = "transactions that span messages cannot be taken from a stream of files"
        hint = "Capture into a trail by trailgate capture, again and again, and stream the trail"
        raise OptionError(problem, hint=hint)
