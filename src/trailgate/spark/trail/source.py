"""The format ``trail``: ``spark.read.format("trail").load("dirdat/ot")``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from trailgate.errors import OptionError
from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.options import kept_in, with_kept
from trailgate.spark.trail.options import TrailOptions
from trailgate.spark.trail.partitions import partitions_of, read_partition
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.trail.trails import plan_reading


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
        from trailgate.spark.trail.stream import stream_reader  # noqa: PLC0415  not for batches

        options = TrailOptions.of(with_kept(self.options, schema), self.folder)
        if options.reading.open_transactions:
            problem = "a stream returns complete transactions only"
            raise OptionError(
                problem, hint="openTransactions is about reading a trail as it is now"
            )
        return stream_reader(options.with_columns(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer."""
        from trailgate.spark.trail.sink import trail_writer  # noqa: PLC0415  not to read

        return trail_writer(self.options, schema, self.folder, overwrite=overwrite)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the stream writer."""
        from trailgate.spark.trail.stream_sink import trail_stream_writer  # noqa: PLC0415

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
