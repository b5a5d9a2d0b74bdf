"""Spark's options of the format ``trail``: what is read, and how it is spread over tasks and batches.

Partitions of a trail: what one task reads, in batches and in streams alike.

The stream of the format ``trail``: ``spark.readStream.format("trail").load("dirdat/ot")``.

Nothing is done in ``commit`` and ``stop``, which Spark does not always call, and nothing is remembered
that must outlive the process: the offsets say it all.

Which stream reader a version of PySpark takes.

The format ``trail``: ``spark.read.format("trail").load("dirdat/ot")``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.errors import OptionError
from trailgate.model.tables import Definitions, Table
from trailgate.options import COUNT, Kind, Option, Options
from trailgate.spark.errors import as_expected, with_brief_errors
from trailgate.spark.options import BASE, kept_in, one_path, read_with_paths, with_kept
from trailgate.storage.files.trail_files import TrailFiles, find_begun_trail, find_trails
from trailgate.storage.reading.message_stream import NO_LIMIT, BatchLimit
from trailgate.storage.reading.options import OPTIONS, ReadOptions
from trailgate.storage.reading.splits import SPLIT_BYTES, TrailSplit
from trailgate.storage.reading.trail_stream import (
    EARLIEST,
    NOWHERE,
    StreamOffset,
    TrailStream,
    starting_position,
)
from trailgate.storage.reading.trails import plan_reading, read_split, schema_of, wanted_table

SPREADING: Final = (
    Option("split_bytes", COUNT, "how many bytes of a trail a task reads", SPLIT_BYTES),
    Option("max_files_per_trigger", COUNT, "a stream's batch: at most so many files"),
    Option("max_bytes_per_trigger", COUNT, "a stream's batch: at most so many bytes"),
    Option(
        "starting_position",
        Kind("earliest, latest or a position", starting_position),
        "a new stream begins: earliest, latest, a position",
        EARLIEST,
    ),
)
READING: Final = Options("trail", (*OPTIONS, *SPREADING, BASE))


@dataclass(frozen=True, slots=True)
class TrailOptions:
    """What a trail is read by on Spark."""

    paths: tuple[str, ...]
    reading: ReadOptions
    split_bytes: int
    max_files_per_trigger: int | None
    max_bytes_per_trigger: int | None
    starting_position: str

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: str | None = None) -> Self:
        """Return the options of Spark's strings; relative paths are from ``folder``. Raises OptionError."""
        paths, values = read_with_paths(READING, options, '.load("dirdat/ot")', folder)
        del values["base"]  # all paths are absolute
        own = {row.name: values.pop(row.name) for row in SPREADING}
        return cls(paths, ReadOptions(**values), **own)

    def with_columns(self, schema: StructType) -> Self:
        """Return the options for the columns of a schema: what the user's does not have is not decoded."""
        return replace(self, reading=replace(self.reading, columns=tuple(schema.names)))

    @property
    def path(self) -> str:
        """Return the only path, which a stream needs; raises OptionError where there are several."""
        return one_path(self.paths, "a stream of the format trail")

    def trails(self) -> tuple[TrailFiles, ...]:
        """Return the trails as they are now."""
        return find_trails(self.paths, self.reading.definitions)

    def schema(self) -> StructType:
        """Return the schema of what is read."""
        return from_arrow_schema(schema_of(self._first(), self.reading))

    def _first(self) -> TrailFiles | str:
        """Return what the schema is read from; the general shape needs no trail."""
        return self.paths[0] if self.reading.table is None else self.trails()[0]


AHEAD: Final = 16  # files after its split that a task is given; most transactions end in the first


class TrailPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """A split that one task reads, the files of the trail that it needs, and the table asked for.

    ``number`` is the trail's among those that a reader has the definitions of; a stream's partitions have them themselves.
    """

    def __init__(
        self, trail: TrailFiles, split: TrailSplit, table: Table | None, number: int | None
    ) -> None:
        super().__init__(None)
        self.number = number
        self.trail = trail
        self.split = split
        self.table = table


def partitions_of(
    trail: TrailFiles,
    splits: Sequence[TrailSplit],
    options: ReadOptions,
    number: int | None = None,
) -> list[InputPartition]:
    """Return one partition a split; with the trail's ``number`` without definitions."""
    last = trail.end.number
    table = wanted_table(trail, options)
    found = []
    if number is not None:
        trail = trail.undefined()
    for split in splits:
        window = trail.window(split.start.number, min(split.end.number + AHEAD, last))
        found.append(TrailPartition(window, split, table, number))
    return found


def read_partition(
    partition: InputPartition | None,
    options: ReadOptions,
    schema: StructType,
    definitions: Sequence[Definitions] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield a partition's batches in exactly the schema that Spark expects."""
    if not isinstance(partition, TrailPartition):
        return  # Spark asks once with None where there are no partitions
    trail, number = partition.trail, partition.number
    if number is not None:
        trail = replace(trail, definitions=definitions[number])
    batches = read_split(trail, partition.split, options, partition.table)
    yield from as_expected(batches, schema)


Offset = dict[str, Any]


@with_brief_errors
class TrailTail(DataSourceStreamReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Tails a trail over its files; returns whole transactions only."""

    def __init__(self, options: TrailOptions, schema: StructType) -> None:
        self.options = options
        self._schema = schema
        self.stream = TrailStream(self._find)

    def _find(self) -> TrailFiles | None:
        return find_begun_trail(self.options.path, self.options.reading.definitions)

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return where a new stream begins."""
        return self.stream.initial(self.options.starting_position).json()

    @property
    def limit(self) -> BatchLimit:
        """Return how much the options let a batch hold."""
        return BatchLimit(self.options.max_files_per_trigger, self.options.max_bytes_per_trigger)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of a batch."""
        found = self.stream.splits(
            StreamOffset.read(start), StreamOffset.read(end), self.options.split_bytes
        )
        return [] if found is None else partitions_of(*found, self.options.reading)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's batches."""
        return read_partition(partition, self.options.reading, self._schema)


@with_brief_errors
class UnboundedTail(TrailTail):
    """For PySpark before 4.2, which asks for the latest offset without saying where the query is.

    Where it is shows when its first batch is planned, so this one batch is not bounded.
    """

    _planned: StreamOffset | None = None

    def latestOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return where the next batch ends."""
        if self._planned is None:
            return self.stream.latest(NOWHERE, NO_LIMIT).json()
        return self.stream.latest(self._planned, self.limit).json()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of a batch."""
        self._planned = StreamOffset.read(end)
        return super().partitions(start, end)


def stream_reader(options: TrailOptions, schema: StructType) -> DataSourceStreamReader:
    """Return the stream reader for this version of PySpark."""
    try:
        from trailgate.spark.bounded_tail import BoundedTail  # noqa: PLC0415  needs 4.2
    except ImportError:
        return UnboundedTail(options, schema)
    return BoundedTail(options, schema)


@with_brief_errors
class TrailSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Operations of a trail, one table's rows in their types, or records: by the options."""

    folder: str | None = None  # that relative paths are from: register() sends the user's

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "trail"

    def schema(self) -> StructType:
        """Return the schema of what the options ask for."""
        return kept_in(TrailOptions.of(self.options, self.folder).schema(), self.options)

    def reader(self, schema: StructType) -> TrailReader:
        """Return the batch reader."""
        options = TrailOptions.of(with_kept(self.options, schema), self.folder)
        return TrailReader(options.with_columns(schema), schema, options.trails())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the stream reader."""
        options = TrailOptions.of(with_kept(self.options, schema), self.folder)
        if options.reading.open_transactions:
            problem = "a stream returns complete transactions only"
            raise OptionError(
                problem, hint="openTransactions is about reading a trail as it is now"
            )
        return stream_reader(options.with_columns(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer."""
        from trailgate.spark.trail_sink import trail_writer  # noqa: PLC0415  not to read

        return trail_writer(self.options, schema, self.folder, overwrite=overwrite)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the stream writer."""
        from trailgate.spark.trail_sink import trail_stream_writer  # noqa: PLC0415

        if overwrite:
            problem = "a trail is never overwritten"
            raise OptionError(problem, hint='Write with .outputMode("append")')
        return trail_stream_writer(self.options, schema, self.folder)


@with_brief_errors
class TrailReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads a trail's splits in parallel.

    There is no ``pushFilters``: Spark 4.3 gives wrong rows where one relation is scanned twice (decision 0060).
    """

    def __init__(
        self, options: TrailOptions, schema: StructType, trails: tuple[TrailFiles, ...]
    ) -> None:
        self._options = options
        self._schema = schema
        self._trails = trails
        self._definitions = tuple(trail.definitions for trail in trails)

    def __getstate__(self) -> dict[str, Any]:
        """Return what tasks need: each is sent its own files with its partition, and the definitions with the reader."""
        return {**self.__dict__, "_trails": ()}

    def partitions(self) -> list[InputPartition]:
        """Return the partitions: large files split, small ones put together."""
        options = self._options
        found = []
        for number, trail in enumerate(self._trails):
            splits = plan_reading(trail, options.reading, options.split_bytes)
            found += partitions_of(trail, splits, options.reading, number)
        return found

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's batches."""
        return read_partition(partition, self._options.reading, self._schema, self._definitions)
