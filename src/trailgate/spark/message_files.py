"""The format ``message_capture``: operations of messages, parsed in the workers, as a batch or a stream.

``spark.read.format("message_capture").option("properties", FILE).load("messages/")``. A stream
reads each new file of a folder once.

In a batch query, a partition is only a range of messages; everything else is in the reader, which
Spark sends once. In a stream, the reader is sent before the batches are known, so partitions
contain everything they need.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from trailgate.capture.capture import Capture
from trailgate.errors import MissingDependencyError, OptionError
from trailgate.jobs.capture.loading import infer_capture_tables, load_capture
from trailgate.jobs.capture.options import Extract, IgnoreUnsupported, MessagePer, Properties
from trailgate.jobs.capture.ranges import RangeReader, count_skipped_of_range
from trailgate.messages.skipped import SkippedTotals, add_skipped, skipped_notes
from trailgate.model.changes import ChangeBatch
from trailgate.model.shapes import Projection
from trailgate.options import (
    COUNT,
    NAMES,
    TEXT,
    Options,
    OptionType,
    check_arguments,
    field_options,
)
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.frames import frame_of
from trailgate.spark.options import (
    BASE,
    MaxBytes,
    MaxFiles,
    one_path,
    read_with_paths,
    refuse_stream_options,
)
from trailgate.spark.sources import (
    HAS_LIMITS,
    FileStreamReader,
    Offset,
    PartitionReader,
    SparkSource,
)
from trailgate.storage.files.addresses import Address, Addresses
from trailgate.storage.files.file_search import ListedFile, find_growing_folder
from trailgate.storage.reading.message_files import (
    MESSAGE_SPLIT_BYTES,
    MessageFiles,
    MessageRange,
    find_messages,
    messages_of,
    plan_ranges,
)
from trailgate.storage.reading.message_stream import (
    BEGIN,
    BatchLimit,
    MessageOffset,
    MessageStream,
)

LOG: Final = logging.getLogger(__name__)


def _stop(text: str) -> str:
    if text != "stop":
        problem = (
            f"{text!r} is not supported here, only stop: reading stops at the first bad message"
        )
        raise OptionError(problem, hint="A capture into a trail can quarantine bad messages")
    return text


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """The options of the format ``message_capture``. Each field except the paths is an option."""

    paths: tuple[str, ...]
    properties: Properties = None
    extract: Extract = None
    ignore_unsupported: IgnoreUnsupported = False
    table: Annotated[str | None, TEXT, "this table's operations in the types of its columns"] = None
    columns: Annotated[tuple[str, ...] | None, NAMES, "only these columns, comma-separated"] = None
    message_per: MessagePer = "file"
    on_error: Annotated[str, OptionType("stop", _stop), "stop: at the first bad message"] = "stop"
    split_bytes: Annotated[int, COUNT, "the bytes of messages that a task reads"] = (
        MESSAGE_SPLIT_BYTES
    )
    max_files_per_trigger: MaxFiles = None
    max_bytes_per_trigger: MaxBytes = None
    base: str = "."

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: str | None = None) -> Self:
        """Parse the options of the format ``message_capture``.

        Relative paths start at ``folder``. Raises OptionError.
        """
        paths, values = read_with_paths(OPTIONS, options, '.load("messages/")', folder)
        if values["properties"] is None and values["extract"] is None:
            raise OptionError("the format message_capture needs the option properties or extract")
        return cls(paths, **values)

    def capture(self) -> Capture:
        """Load the capture that parses the messages of ``message_capture``."""
        return load_capture(
            self.properties,
            self.extract,
            base=self.base,
            ignore_unsupported=self.ignore_unsupported,
        )

    def schema(self) -> pa.Schema:
        """Return the schema of the captured operations, or of the table's rows."""
        return self.projection(self.capture()).schema

    def projection(self, capture: Capture) -> Projection:
        """Return the columns of the captured rows: of operations, or of the chosen table."""
        table = None if self.table is None else capture.definitions.table(self.table)
        return Projection.of(table, self.columns)


OPTIONS: Final = Options("message_capture", (*field_options(MessageOptions), BASE))


@dataclass(frozen=True, slots=True)
class MessageReading:
    """Everything that Spark tasks need to capture messages: the options, the capture, and the message files."""

    options: MessageOptions
    capture: Capture
    source: MessageFiles

    def rows(self, own: MessageRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of message files, captured in a Spark task."""
        projection = self.options.projection(self.capture)
        batches = map(projection.rows, read_owned_changes(self.capture, self.source, own))
        return (batch for batch in batches if batch.num_rows)


def read_owned_changes(
    capture: Capture, source: MessageFiles, own: MessageRange
) -> Iterator[ChangeBatch]:
    """Parse the messages that one Spark task owns, a range of message files, and yield their operations (see ``RangeReader``).

    Logs the warnings of the range at the end. Raises the first error.
    """
    reader = RangeReader(capture, source, own, stops=True)
    skipped: SkippedTotals = {}
    for batch in reader.batches():
        if batch.problems:
            raise batch.problems[0].error
        skipped = add_skipped(skipped, count_skipped_of_range(batch.skipped, source))
        yield batch.operations
    warnings = sorted(capture.warnings_of_part(reader.notes) | capture.options.notes)
    for note in (*warnings, *skipped_notes(skipped)):
        LOG.warning(note)


@with_brief_errors
class MessageReader(PartitionReader, DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads ranges of message files in Spark tasks (batch reader of ``message_capture``)."""

    def __init__(self, options: MessageOptions, schema: StructType) -> None:
        capture = options.capture()
        source = find_messages(options.paths, options.message_per == "line", cutter=capture.cutter)
        _warn_of_empty_files(source)
        self._reading = MessageReading(options, infer_capture_tables(capture, source), source)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the Spark partitions: large message files are split, small ones packed together.

        If transactions are identified by their ids, there is only one partition.
        """
        reading = self._reading
        # If transactions are known by their ids, they may span messages, so one task reads
        # everything.
        apart = not reading.capture.options.by_id
        ranges = plan_ranges(reading.source, reading.options.split_bytes, independent=apart)
        return [InputPartition(own) for own in ranges]

    def rows(self, part: MessageRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of message files (batch of ``message_capture``)."""
        return self._reading.rows(part)


@with_brief_errors
class MessageStreamReader(FileStreamReader):
    """Reads new message files in the order of their names (stream reader of ``message_capture``)."""

    _offsets = MessageOffset
    stream: MessageStream

    def __init__(self, options: MessageOptions, schema: StructType) -> None:
        limit = BatchLimit(options.max_files_per_trigger, options.max_bytes_per_trigger)
        super().__init__(MessageStream(self._find), limit)
        self._options, self._schema = options, schema
        self._capture: Capture | None = None

    def _find(self) -> tuple[ListedFile, ...]:
        return find_growing_folder(
            one_path(self._options.paths, "a stream of the format message_capture")
        )

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the offset of a new message stream: before the first file."""
        return BEGIN.json()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the Spark partitions of the next batch of new message files.

        Positions and generated ids count the files of the complete stream.
        """
        begin, options = MessageOffset.read(start), self._options
        if self._capture is None:
            self._capture = options.capture()
            check_stream(self._capture)
        files = self.stream.files(begin, MessageOffset.read(end))
        if not files:
            return []
        capture = replace(self._capture, first_file=begin.count)
        source = messages_of(files, options.message_per == "line", cutter=capture.cutter)
        _warn_of_empty_files(source)
        capture = infer_capture_tables(capture, source)
        ranges = plan_ranges(source, options.split_bytes)
        parts = []
        for own in ranges:  # each needs only its own files: transactions do not span messages
            first = own.start.file
            moved = replace(capture, first_file=capture.first_file + first)
            reading = MessageReading(options, moved, source.window(own))
            parts.append(InputPartition((reading, own.move(first))))
        return parts

    def rows(self, part: tuple[MessageReading, MessageRange]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range of new message files (stream of ``message_capture``)."""
        reading, own = part
        return reading.rows(own)


def _warn_of_empty_files(source: MessageFiles) -> None:
    """Log a warning with the names of the empty message files."""
    if note := source.empty_note:
        LOG.warning("%s", note)


def check_stream(capture: Capture) -> None:
    """Raise OptionError if transactions span messages, because a batch of a stream could end inside a transaction."""
    if capture.spans_messages or capture.options.by_id:
        problem = "transactions that span messages cannot be taken from a stream of files"
        hint = "Run trailgate capture repeatedly, and stream the trail that it writes"
        raise OptionError(problem, hint=hint)


@with_brief_errors
class MessageCaptureSource(SparkSource):
    """The Spark format ``message_capture``: operations of messages, or, with the option ``table``, the typed rows of one table."""

    format = "message_capture"
    does = "It is read, as a batch and as a stream; the formats trail and trailgate_apply write operations"
    _reads = MessageOptions

    def reader(self, schema: StructType) -> MessageReader:
        """Return the batch reader of message files."""
        refuse_stream_options(self.options, OPTIONS)
        return MessageReader(self.read_options(schema), schema)

    def _stream(self, schema: StructType) -> DataSourceStreamReader:
        if not HAS_LIMITS:
            problem = "a stream of the format message_capture needs PySpark 4.2 or newer"
            raise MissingDependencyError(problem)
        return MessageStreamReader(self.read_options(schema), schema)

    def read_options(self, schema: StructType) -> MessageOptions:
        """Return the options of ``message_capture`` with the columns of a schema."""
        given: MessageOptions = super().read_options(schema)
        return replace(given, columns=tuple(schema.names))


@check_arguments
def read_messages(  # noqa: PLR0913  one parameter an option
    spark: SparkSession,
    path: Addresses,
    properties: Address | None = None,
    *,
    extract: Address | None = None,
    table: str | None = None,
    columns: str | Iterable[str] | None = None,
    message_per: Literal["file", "line"] = "file",
    split_bytes: int | None = None,
    ignore_unsupported: bool = False,
    base: Address | None = None,
) -> DataFrame:
    """Read the operations of message files as a DataFrame.

    The options are those of the format ``message_capture``.
    """
    options = {name: value for name, value in locals().items() if name not in ("spark", "path")}
    return frame_of(spark, MessageCaptureSource, path, options)
