"""The format ``trail`` with the option ``messages``, which returns operations as messages.

``spark.readStream.format("trail").option("messages", "debezium").load("dirdat/ot")`` returns the
columns of ``rows.py``. The other options are the options for reading a trail that also apply to
messages (``_OF_READING``), and the options of the message format. Without ``messages``, the format
behaves like that of ``trailgate.spark.trail``, whose planning of partitions and streams is also
used here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from trailgate.capture.formats import (
    PUBLICATIONS,
    find_publication_format,
    publish_options,
)
from trailgate.errors import OptionError
from trailgate.messages.publishing import PublishOptions
from trailgate.options import TEXT, Option, Options, OptionType
from trailgate.publish.job import read_changes
from trailgate.publish.spark.rows import SCHEMA, MessageRows, topic_names
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import (
    GIVEN,
    PATHS,
    options_of_table,
    read_with_paths,
    refuse_stream_options,
)
from trailgate.spark.trail import (
    READING,
    TrailOptions,
    TrailPart,
    TrailReader,
    TrailSource,
    TrailStreamReader,
    check_single_trail,
)
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.options import ReadOptions

MESSAGES: Final = Option(
    "messages",
    OptionType("a format of messages", lambda text: find_publication_format(text).name),
    "operations as messages of this format: " + ", ".join(row.name for row in PUBLICATIONS),
)
TOPIC: Final = Option(
    "topic", TEXT, "the topic of a message, with ${schema} and ${table} for the names of its table"
)
# The options of reading a trail that apply to messages too.
_OF_READING: Final = ("definitions", "tables", "after")
_OF_SPARK: Final = ("split_bytes", "max_files_per_trigger", "max_bytes_per_trigger", "starting_position")  # fmt: skip


@dataclass(frozen=True, slots=True)
class PublishedMessageOptions:
    """The options of the format ``trail`` with ``messages``: how a trail is read, and how its operations become messages."""

    trail: TrailOptions
    format: str
    publishing: PublishOptions
    topic: str | None

    @classmethod
    def of(cls, given: Mapping[str, Any], folder: str | None = None) -> Self:
        """Parse Spark's options for a trail's messages.

        Relative paths start at ``folder``. Raises OptionError.
        """
        name = next(value for option, value in given.items() if _is_messages(option))
        row = find_publication_format(name)
        options = message_options(row.name)
        paths, values = read_with_paths(options, given, '.load("dirdat/ot")', folder)
        trail = TrailOptions(
            paths,
            ReadOptions(**{option: values[option] for option in _OF_READING}),
            **{option: values[option] for option in _OF_SPARK},
        )
        publishing = publish_options(row.name, {own.name: values[own.name] for own in row.options})
        topic_names(values["topic"], publishing)  # raises OptionError here, and not in a task
        return cls(trail, row.name, publishing, values["topic"])

    def schema(self) -> pa.Schema:
        """Return the schema of rows of published messages."""
        return SCHEMA

    def rows(self, part: TrailPart, trail: TrailFiles) -> Iterator[pa.RecordBatch]:
        """Yield the published messages of a part of a trail, as rows for Spark.

        Messages of a transaction that has no end in this part are not included.
        """
        reading = self.trail.reading
        messages = MessageRows(self.format, self.publishing, self.topic)
        for changes in read_changes(trail, [part.split], reading.after, reading.tables):
            yield from messages.write(changes)
        yield from messages.finish()


def message_options(name: str) -> Options:
    """Return the options of the Spark format ``trail`` as a source of messages, with ``messages=name``, such as "debezium"."""
    reading = [READING.row(option) for option in (*_OF_READING, *_OF_SPARK, "base")]
    own = find_publication_format(name).options
    return Options(f"trail with messages={name}", (MESSAGES, TOPIC, *reading, *own))


def _is_messages(option: str) -> bool:
    return option.casefold().removeprefix(GIVEN) == MESSAGES.name


def _check_is_of_trails(option: str) -> None:
    """Raise OptionError for an option of the format ``trail`` that exists only together with ``messages``."""
    if option.casefold() in PATHS or READING.knows(option):
        return
    formats = [row.name for row in PUBLICATIONS if message_options(row.name).knows(option)]
    if formats:
        raise OptionError(
            f"the format {READING.what} has no option {option}",
            hint=f"It applies only with the option {MESSAGES.name}, which is one of: {', '.join(formats)}",
        )


class TrailOrMessages:
    """The options of the format ``trail``, which returns messages if the option ``messages`` is set."""

    @staticmethod
    def of(
        given: Mapping[str, Any], folder: str | None = None
    ) -> TrailOptions | PublishedMessageOptions:
        """Parse Spark's options of the format ``trail``, with or without ``messages``. Raises OptionError."""
        if any(map(_is_messages, given)):
            return PublishedMessageOptions.of(given, folder)
        for option in options_of_table(given):
            _check_is_of_trails(option)
        return TrailOptions.of(given, folder)


@with_brief_errors
class PublishedMessageReader(TrailReader):
    """Reads a trail's splits in Spark tasks, as published messages."""

    def __init__(
        self, options: PublishedMessageOptions, schema: StructType, trails: tuple[TrailFiles, ...]
    ) -> None:
        super().__init__(options.trail, schema, trails)
        self._messages = options

    def rows(self, part: TrailPart) -> Iterator[pa.RecordBatch]:
        """Yield the published messages of a part of the trail."""
        trail = replace(part.trail, definitions=self._definitions[part.number or 0])
        return self._messages.rows(part, trail)


@with_brief_errors
class PublishedMessageStreamReader(TrailStreamReader):
    """A stream of the published messages of a growing trail."""

    def __init__(self, options: PublishedMessageOptions, schema: StructType) -> None:
        super().__init__(options.trail, schema)
        self._messages = options

    def rows(self, part: TrailPart) -> Iterator[pa.RecordBatch]:
        """Yield the published messages of a part of the stream."""
        return self._messages.rows(part, part.trail)


@with_brief_errors
class PublishingTrailSource(TrailSource):
    """The Spark format ``trail``: operations, rows or records of a trail, or its operations as published messages."""

    _reads: ClassVar[Any] = TrailOrMessages

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader, of published messages if the option ``messages`` is set."""
        options = self.read_options(schema)
        if not isinstance(options, PublishedMessageOptions):
            return super().reader(schema)
        refuse_stream_options(self.options, READING)
        _check_columns(schema)
        return PublishedMessageReader(options, schema, options.trail.trails())

    def _stream(self, schema: StructType) -> DataSourceStreamReader:
        options = self.read_options(schema)
        if not isinstance(options, PublishedMessageOptions):
            return super()._stream(schema)
        check_single_trail(options.trail.paths)
        _check_columns(schema)
        return PublishedMessageStreamReader(options, schema)


def _check_columns(schema: StructType) -> None:
    """Raise OptionError if a schema that the query states has columns other than those of messages."""
    if schema.names != SCHEMA.names:
        problem = f"messages have the columns {', '.join(SCHEMA.names)}"
        raise OptionError(problem, hint="Use select, not schema, to choose columns")
