"""Which stream reader a version of PySpark takes."""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.trail.options import TrailOptions
from trailgate.spark.trail.tail import Offset, TrailTail
from trailgate.storage.reading.batch_limit import NO_LIMIT
from trailgate.storage.reading.trail.stream import NOWHERE, StreamOffset


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
        from trailgate.spark.trail.bounded_tail import BoundedTail  # noqa: PLC0415  needs 4.2
    except ImportError:
        return UnboundedTail(options, schema)
    return BoundedTail(options, schema)
