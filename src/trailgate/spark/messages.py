"""The options of the format ``message_capture``.

What a task of the format ``message_capture`` reads: a range of messages, in a batch or in a stream.

The format ``message_capture``: messages as operations, parsed in the workers.

``spark.read.format("message_capture").option("properties", FILE).load("messages/")``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.capture.capture import Capture
from trailgate.errors import MissingDependencyError, OptionError
from trailgate.jobs.capture.loading import infer_tables, load_capture
from trailgate.jobs.capture.options import Extract, IgnoreUnsupported, MessagePer, Properties
from trailgate.jobs.capture.range_reader import RangeReader
from trailgate.model.changes import ChangeBatch
from trailgate.model.shapes import Projection
from trailgate.options import COUNT, NAMES, TEXT, Kind, Options, declared
from trailgate.spark.errors import as_expected, with_brief_errors
from trailgate.spark.options import BASE, kept_in, read_with_paths, with_kept
from trailgate.storage.reading.message_files import (
    SPLIT_BYTES,
    MessageFiles,
    MessageRange,
    find_messages,
    plan_ranges,
)


def _stop(text: str) -> str:
    if text != "stop":
        problem = "reading stops at the first bad message"
        raise OptionError(problem, hint="The capture job can quarantine bad messages")
    return text


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What messages are read by: each field but the paths is an option of the format."""

    paths: tuple[str, ...]
    properties: Properties = None
    extract: Extract = None
    ignore_unsupported: IgnoreUnsupported = False
    table: Annotated[str | None, TEXT, "this table's operations in the types of its columns"] = None
    columns: Annotated[tuple[str, ...] | None, NAMES, "only these columns, comma-separated"] = None
    message_per: MessagePer = "file"
    on_error: Annotated[str, Kind("stop", _stop), "stop: at the first bad message"] = "stop"
    split_bytes: Annotated[int, COUNT, "how many bytes of messages a task reads"] = SPLIT_BYTES
    max_files_per_trigger: Annotated[
        int | None, COUNT, "a stream's batch: at most so many files"
    ] = None
    max_bytes_per_trigger: Annotated[
        int | None, COUNT, "a stream's batch: at most so many bytes, or one file"
    ] = None
    base: str = "."

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: str | None = None) -> Self:
        """Return the options of Spark's strings; relative paths are from ``folder``. Raises OptionError."""
        paths, values = read_with_paths(OPTIONS, options, '.load("messages/")', folder)
        if values["properties"] is None and values["extract"] is None:
            raise OptionError("the format message_capture needs the option properties or extract")
        return cls(paths, **values)

    def capture(self) -> Capture:
        """Return what parses the messages."""
        return load_capture(
            self.properties,
            self.extract,
            base=self.base,
            ignore_unsupported=self.ignore_unsupported,
        )

    def projection(self, capture: Capture) -> Projection:
        """Return the columns of the rows."""
        table = None if self.table is None else capture.definitions.table(self.table)
        return Projection.of(table, self.columns)


OPTIONS: Final = Options("message_capture", (*declared(MessageOptions), BASE))
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
    for note in sorted(capture.warnings(reader.notes) & (reader.notes | capture.options.notes)):
        LOG.warning(note)


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
        return MessageReader(_plan_images(self._options(schema)), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the stream reader."""
        try:
            from trailgate.spark.message_stream import MessageTail  # noqa: PLC0415  needs 4.2
        except ImportError:
            problem = "a stream of the format message_capture needs PySpark 4.2 or newer"
            raise MissingDependencyError(problem) from None
        return MessageTail(self._options(schema), schema)

    def _options(self, schema: StructType) -> MessageOptions:
        given = MessageOptions.of(with_kept(self.options, schema), self.folder)
        return replace(given, columns=tuple(schema.names))


def _plan_images(options: MessageOptions) -> MessageReading:
    """Return what is read, with the tables that are inferred of it."""
    capture = options.capture()
    source = find_messages(options.paths, options.message_per == "line", cutter=capture.cutter)
    return MessageReading(options, infer_tables(capture, source), source)


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
