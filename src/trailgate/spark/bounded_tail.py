"""The stream of the format ``trail`` with admission control, which PySpark has from 4.2 on."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from trailgate.spark.errors import with_brief_errors
from trailgate.spark.trail import Offset, TrailTail
from trailgate.storage.reading.message_stream import NO_LIMIT
from trailgate.storage.reading.trail_stream import StreamOffset


@with_brief_errors
class BoundedTail(TrailTail, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Ends batches where Spark or the options want them to end."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a batch that the options set."""
        if self.limit.bytes is not None:
            return ReadMaxBytes(self.limit.bytes)
        if self.limit.files is not None:
            return ReadMaxFiles(self.limit.files)
        return ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return where the next batch ends."""
        # Spark has no limit of two kinds: both options hold, unless it asks for everything.
        bound = NO_LIMIT if isinstance(limit, ReadAllAvailable) else self.limit
        return self.stream.latest(StreamOffset.read(start), bound).json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end where the trail ends now."""
        self.stream.stop_at_present_end()
