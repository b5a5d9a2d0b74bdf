"""The format ``jms``: messages of a broker from their journal, ``spark.readStream.format("jms").load("dirdat/ot.journal")``.

A journal is filled by ``trailgate capture --from amqp://... --follow``. Its messages are rows with ``body`` and ``headers``, of which
``trailgate.spark.capture`` makes operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from trailgate.options import COUNT, Option, Options
from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.expected_rows import as_expected
from trailgate.spark.options import BASE, one_path, read_with_paths
from trailgate.storage.files.journal.ranges import held_in, messages_between, segments_between

OPTIONS: Final = Options(
    "jms",
    (
        Option("max_messages_per_trigger", COUNT, "a stream's batch: at most so many messages"),
        BASE,
    ),
)
SCHEMA: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("id", pa.string()),
        ("received", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("body", pa.binary()),
        ("fault", pa.string()),
    ]
)
Offset = dict[str, Any]


@with_brief_errors
class JmsSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Messages of a journal in the order in which they were received."""

    folder: str | None = None  # that relative paths are from: register() sends the user's

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "jms"

    def schema(self) -> StructType:
        """Return the schema of messages."""
        return from_arrow_schema(SCHEMA)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the stream reader."""
        example = '.load("dirdat/ot.journal")'
        paths, values = read_with_paths(OPTIONS, self.options, example, self.folder)
        path = one_path(paths, "a stream of the format jms")
        return JmsTail(path, values["max_messages_per_trigger"], schema)


class JournalPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """The messages of one segment that are in a batch."""

    def __init__(self, path: Path, begin: int, end: int) -> None:
        super().__init__(None)
        self.path, self.begin, self.end = path, begin, end


@with_brief_errors
class JmsTail(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark's types are not followed
    """Follows a journal: an offset is the number of the next message."""

    def __init__(self, path: str, most: int | None, schema: StructType) -> None:
        self._path, self._most, self._schema = Path(path), most, schema
        self._target: int | None = None

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return where a new stream begins: with the first message that is there."""
        return {"message": held_in(self._path).first}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return the limit of a batch that the options set."""
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802  Spark's name
        """Return where the next batch ends."""
        begin, end = int(start["message"]), held_in(self._path).end
        if self._target is not None:
            end = min(end, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return {"message": max(begin, end)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end with the messages that are there now."""
        self._target = held_in(self._path).end

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return a partition for each segment of a batch."""
        begin, stop = int(start["message"]), int(end["message"])
        paths = segments_between(self._path, begin, stop)
        return [JournalPartition(path, begin, stop) for path in paths]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's messages."""
        if not isinstance(partition, JournalPartition):
            return  # Spark asks once with None where there are no partitions
        found = messages_between(partition.path, partition.begin, partition.end)
        yield from as_expected((_rows(*held) for held in found), self._schema)


def _rows(number: int, messages: pa.RecordBatch) -> pa.RecordBatch:
    numbers = pa.array(np.arange(number, number + len(messages)))
    columns = [messages[name].cast(SCHEMA.field(name).type) for name in SCHEMA.names[1:]]
    return pa.RecordBatch.from_arrays([numbers, *columns], schema=SCHEMA)
