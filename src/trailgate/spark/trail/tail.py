"""The stream of the format ``trail``: ``spark.readStream.format("trail").load("dirdat/ot")``.

Nothing is done in ``commit`` and ``stop``, which Spark does not always call, and nothing is remembered
that must outlive the process: the offsets say it all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.trail.options import TrailOptions
from trailgate.spark.trail.partitions import partitions_of, read_partition
from trailgate.storage.files.trail_files import TrailFiles, find_begun_trail
from trailgate.storage.reading.batch_limit import BatchLimit
from trailgate.storage.reading.trail.stream import StreamOffset, TrailStream

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
