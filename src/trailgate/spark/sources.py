"""The base classes of our Spark data sources: formats, readers of partitions, and streams of files.

A format (``SparkSource``) has a name and a class for its options. Its reader plans partitions, and
reads the rows of a partition in a task (``PartitionReader``). A stream over files
(``FileStreamReader``) has a class for its offsets, and its batches end where Spark or the options
require.

Only this module depends on the version of PySpark: ``HAS_LIMITS`` states whether Spark can limit
the batches of a stream (from 4.2 on).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, NoReturn

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

from trailgate.errors import OptionError, TrailgateError
from trailgate.spark.errors import brief_errors, with_brief_errors
from trailgate.spark.options import restore_table_options, store_table_options
from trailgate.spark.schemas import cast_batches, spark_schema
from trailgate.storage.reading.message_stream import NO_LIMIT, BatchLimit, MessageStream
from trailgate.storage.reading.trail_stream import TrailStream

try:
    from pyspark.sql.streaming import datasource as limits
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1
    HAS_LIMITS: Final = False
    SupportsTriggerAvailableNow: Any = object  # type: ignore[no-redef]
else:
    HAS_LIMITS: Final = True  # type: ignore[misc]  # one of two

Offset = dict[str, Any]


@with_brief_errors
class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark's types are not followed
    """A Spark stream that raises an error at its first call.

    PySpark hides an error raised by ``streamReader``: its runner then stops a reader that does not
    exist, and reports only that failure.
    """

    def __init__(self, error: TrailgateError) -> None:
        self._error = error

    def _refuse(self, *_: Any) -> NoReturn:
        with brief_errors():
            raise self._error

    def initialOffset(self) -> NoReturn:  # noqa: N802  Spark's name
        """Raise the error for which the Spark stream was refused."""
        self._refuse()

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802  Spark's name
        """Raise the error for which the Spark stream was refused."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> NoReturn:  # noqa: N802  Spark's name
        """Raise the error for which the Spark stream was refused."""
        self._refuse()

    def partitions(self, start: Any, end: Any) -> NoReturn:
        """Raise the error for which the Spark stream was refused."""
        self._refuse(start, end)

    def read(self, partition: Any) -> NoReturn:
        """Raise the error for which the Spark stream was refused."""
        self._refuse(partition)

    def latestOffset(self, start: Any = None, limit: Any = None) -> NoReturn:  # noqa: N802  Spark's name
        """Raise the error for which the Spark stream was refused."""
        self._refuse(start, limit)


class SparkFormat(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """The base class of all our Spark formats: a name, and a Trailgate error for everything that a format does not support.

    A format that can be streamed overrides ``_stream``.
    """

    format: ClassVar[str]
    does: ClassVar[str]  # the hint of errors: what can be done with the format
    folder: str | None = None  # where relative paths start: register() sends the user's folder

    @classmethod
    def name(cls) -> str:
        """Return the name of the Spark format."""
        return cls.format

    def schema(self) -> StructType:
        """Return the schema of the rows. Formats that can be read override this; the default raises OptionError."""
        self._cannot("cannot be read")

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for batch queries. Formats that can be read override this; the default raises OptionError."""
        del schema
        self._cannot("cannot be read as a batch")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Return the reader for streaming queries. For a format that cannot be streamed, its methods raise OptionError."""
        try:
            return self._stream(schema)
        except TrailgateError as error:
            return RefusedStream(error)

    def _stream(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        self._cannot("cannot be read as a stream")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer for batch queries. Formats that can be written override this; the default raises OptionError."""
        del schema, overwrite
        self._cannot("cannot be written as a batch")

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer for streaming queries. Formats that can be written override this; the default raises OptionError."""
        del schema, overwrite
        self._cannot("cannot be written as a stream")

    def _cannot(self, what: str) -> NoReturn:
        with brief_errors():
            raise OptionError(f"the format {self.format} {what}", hint=self.does)


@with_brief_errors
class SparkSource(SparkFormat):
    """The base class of our Spark formats that can be read.

    ``_reads`` is its class of options, with the methods ``of`` and ``schema``.
    """

    _reads: ClassVar[Any]

    def schema(self) -> StructType:
        """Return the schema of the format's rows, which depends on its options."""
        schema = spark_schema(self._reads.of(self.options, self.folder).schema())
        return store_table_options(schema, self.options)

    def read_options(self, schema: StructType) -> Any:
        """Return the format's options, including those stored in the schema of a catalog's table."""
        return self._reads.of(restore_table_options(self.options, schema), self.folder)


@with_brief_errors
class PartitionReader:
    """The base class of readers that read partitions in Spark tasks.

    No reader has ``pushFilters``, because Spark 4.3 returns wrong rows with it (decision 0060).
    """

    _schema: StructType

    @abstractmethod
    def rows(self, part: Any) -> Iterable[pa.RecordBatch]:
        """Yield the rows of one partition, in a Spark task."""

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's rows, in a Spark task, in exactly the schema that Spark expects."""
        # If there are no partitions, Spark calls this once without a value.
        if partition is not None and partition.value is not None:
            yield from cast_batches(self.rows(partition.value), self._schema)


@with_brief_errors
class FileStreamReader(PartitionReader, DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # pyspark's types are not followed
    """The base class of Spark streams over files that are added and grow.

    ``_offsets`` is the class of its offsets. ``stream`` finds the files of the next batch.

    ``commit`` and ``stop`` do nothing, because Spark does not always call them. No state has to
    survive the process.
    """

    _offsets: ClassVar[Any]
    stream: Any

    def __init__(self, stream: MessageStream | TrailStream, limit: BatchLimit) -> None:
        self.stream, self.limit = stream, limit

    def getDefaultReadLimit(self) -> Any:  # noqa: N802  Spark's name
        """Return the maximum size of a batch of a stream over files, from the options."""
        if self.limit.bytes is not None:
            return limits.ReadMaxBytes(self.limit.bytes)
        if self.limit.files is not None:
            return limits.ReadMaxFiles(self.limit.files)
        return limits.ReadAllAvailable()

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: N802  Spark's name
        """Return the end of the next batch of a stream over files."""
        # Spark's limit is by files or by bytes. Apply both options, unless Spark asks for everything.
        bound = NO_LIMIT if isinstance(limit, limits.ReadAllAvailable) else self.limit
        return dict(self.stream.latest(self._offsets.read(start), bound).json())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Let the stream end at the current end of the files (Spark's ``availableNow``)."""
        self.stream.stop_at_present_end()
