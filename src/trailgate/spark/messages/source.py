"""The format ``message_capture``: messages as operations, parsed in the workers.

``spark.read.format("message_capture").option("properties", FILE).load("messages/")``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.errors import MissingDependencyError
from trailgate.jobs.capture.learning import learnt
from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.messages.options import MessageOptions
from trailgate.spark.messages.partitions import MessagePartition, MessageReading
from trailgate.spark.options import kept_in, with_kept
from trailgate.storage.reading.messages.files import find_messages, plan_ranges


@with_brief_errors
class MessageCaptureSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Operations of messages, or with the option ``table`` that table's rows in their types."""

    folder: str | None = None  # that relative paths are from: register() sends the user's

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "message_capture"

    def schema(self) -> StructType:
        """Return the operations' schema, or the table's."""
        options = MessageOptions.of(self.options, self.folder)
        schema = from_arrow_schema(options.projection(options.capture()).schema)
        return kept_in(schema, self.options)

    def reader(self, schema: StructType) -> MessageReader:
        """Return the batch reader."""
        return MessageReader(_planned(self._options(schema)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the stream reader."""
        try:
            from trailgate.spark.messages.stream import MessageTail  # noqa: PLC0415  needs 4.2
        except ImportError:
            problem = "a stream of the format message_capture needs PySpark 4.2 or newer"
            raise MissingDependencyError(problem) from None
        return MessageTail(self._options(schema), schema)

    def _options(self, schema: StructType) -> MessageOptions:
        given = MessageOptions.of(with_kept(self.options, schema), self.folder)
        return replace(given, columns=tuple(schema.names))


def _planned(options: MessageOptions) -> MessageReading:
    """Return what is read, with the tables that are learnt of it."""
    capture = options.capture()
    source = find_messages(options.paths, options.message_per == "line", cutter=capture.cutter)
    return MessageReading(options, learnt(capture, source), source)


@with_brief_errors
class MessageReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads ranges of messages in parallel. There is no ``pushFilters``, as for trails."""

    def __init__(self, reading: MessageReading, schema: StructType) -> None:
        self._reading, self._schema = reading, schema

    def partitions(self) -> list[InputPartition]:
        """Return the partitions: large files split, small ones packed together."""
        reading = self._reading
        apart = not reading.capture.options.by_id
        ranges = plan_ranges(reading.source, reading.options.split_bytes, apart=apart)
        return [MessagePartition(own) for own in ranges]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's operations in exactly the schema that Spark expects."""
        if isinstance(
            partition, MessagePartition
        ):  # Spark asks once with None where there are none
            yield from self._reading.rows(partition.own, self._schema)
