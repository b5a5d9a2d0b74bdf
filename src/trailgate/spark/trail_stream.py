"""The stream of the format ``trail``: ``spark.readStream.format("trail").load("dirdat/ot")``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import datasource as admission
from pyspark.sql.types import StructType

from trailgate.spark.trail_options import TrailOptions
from trailgate.spark.trail_source import partitions_of, read_partition
from trailgate.storage.trail_files import TrailFiles, find_begun_trail
from trailgate.storage.trail_stream import BatchLimit, StreamOffset, TrailStream

Offset = dict[str, Any]


def stream_reader(options: TrailOptions, schema: StructType) -> DataSourceStreamReader:
    """Return the stream reader."""
    return TrailStreamReader(options, schema)


class TrailStreamReader(DataSourceStreamReader, admission.SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Tails a trail over its files; hands on whole transactions only.

    Nothing is remembered between batches that the offsets do not say, and nothing is done in
    ``commit`` and ``stop``, which Spark does not always call.
    """

    def __init__(self, options: TrailOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._stream = TrailStream(self._find)

    def _find(self) -> TrailFiles | None:
        return find_begun_trail(self._options.path, self._options.reading.definitions)

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return where a new stream begins."""
        return self._stream.initial(self._options.starting_position).json()

    def getDefaultReadLimit(self) -> admission.ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a batch that the options set."""
        if self._options.max_bytes_per_trigger is not None:
            return admission.ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_files_per_trigger is not None:
            return admission.ReadMaxFiles(self._options.max_files_per_trigger)
        return admission.ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: admission.ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return where the next batch ends."""
        return self._stream.latest(StreamOffset.read(start), self._limit(limit)).json()

    def _limit(self, limit: admission.ReadLimit) -> BatchLimit:
        # Spark has no limit of two kinds: both options hold, unless it asks for everything.
        if isinstance(limit, admission.ReadAllAvailable):
            return BatchLimit()
        options = self._options
        return BatchLimit(options.max_files_per_trigger, options.max_bytes_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end where the trail ends now."""
        self._stream.stop_at_present_end()

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the partitions of a batch."""
        found = self._stream.splits(
            StreamOffset.read(start), StreamOffset.read(end), self._options.split_bytes
        )
        return [] if found is None else partitions_of(*found, self._options.reading)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a partition's batches."""
        return read_partition(partition, self._options.reading, self._schema)
