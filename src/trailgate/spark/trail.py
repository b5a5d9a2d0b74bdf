"""The format ``trail``: ``spark.read.format("trail").load("dirdat/ot")``, and its stream.

A partition is a split of a trail, together with the files that its task needs. In a batch query,
the definitions are in the reader, which is sent to the tasks once. In a stream, the reader is sent
before the batches are known, so the partitions contain the definitions. A stream has no state
except its offsets.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from trailgate.errors import OptionError, mask_logins
from trailgate.model.tables import Table
from trailgate.options import COUNT, Options, OptionType, check_arguments, field_options
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
from trailgate.spark.sources import FileStreamReader, Offset, PartitionReader, SparkSource
from trailgate.storage.files.addresses import Address, Addresses, is_pattern
from trailgate.storage.files.trail_files import TrailFiles, find_begun_trail, find_trails
from trailgate.storage.reading.message_stream import NO_LIMIT, BatchLimit
from trailgate.storage.reading.options import OPTIONS, ReadOptions
from trailgate.storage.reading.splits import (
    TRAIL_SPLIT_BYTES,
    NoticeLog,
    TrailSplit,
    files_for_split,
)
from trailgate.storage.reading.trail_file_checks import first_file_notices
from trailgate.storage.reading.trail_rest import RestTimer, notices_of_end
from trailgate.storage.reading.trail_stream import (
    EARLIEST,
    NOWHERE,
    StreamOffset,
    TrailStream,
    check_starting_position,
)
from trailgate.storage.reading.trails import (
    check_csn_limits,
    find_wanted_table,
    option_notices,
    plan_reading,
    read_split,
    schema_of,
)

REST_LOOK: Final = 10.0  # seconds between checks of the bytes at the end that no batch can have
REST_WAITS: Final = 30.0  # seconds after which unchanged bytes at the end are logged
STARTING: Final = OptionType("earliest, latest or a position", check_starting_position)


@dataclass(frozen=True, slots=True)
class TrailOptions:
    """The options of the format ``trail``. Each field except the first two is an option."""

    paths: tuple[str, ...]
    reading: ReadOptions
    split_bytes: Annotated[int, COUNT, "the bytes of a trail that a task reads"] = TRAIL_SPLIT_BYTES
    max_files_per_trigger: MaxFiles = None
    max_bytes_per_trigger: MaxBytes = None
    starting_position: Annotated[str, STARTING, "where a new stream begins"] = EARLIEST

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: str | None = None) -> Self:
        """Parse the options of the format ``trail``.

        Relative paths start at ``folder``. Raises OptionError.
        """
        paths, values = read_with_paths(READING, options, '.load("dirdat/ot")', folder)
        del values["base"]  # all paths are absolute
        spark_values = {row.name: values.pop(row.name) for row in field_options(cls)}
        return cls(paths, ReadOptions(**values), **spark_values)

    def with_columns(self, schema: StructType) -> Self:
        """Return the options of the format ``trail`` with the columns of a schema: only these are decoded."""
        return replace(self, reading=replace(self.reading, columns=tuple(schema.names)))

    def trails(self) -> tuple[TrailFiles, ...]:
        """Return the trails that the options of the format ``trail`` name, with their current files."""
        return find_trails(self.paths, self.reading.definitions)

    def schema(self) -> pa.Schema:
        """Return the schema of the rows that the format ``trail`` returns.

        Operations of all tables have the same schema, so no trail is read.
        """
        # Only the rows of one table need the trail, for the table's definition.
        first = self.paths[0] if self.reading.table is None else self.trails()[0]
        return schema_of(first, self.reading)


READING: Final = Options("trail", (*OPTIONS, *field_options(TrailOptions), BASE))


class TrailPart(NamedTuple):
    """A split of a trail that one Spark task reads, the files that it needs, and the requested table.

    ``number`` is the index of this trail's definitions in the reader, which Spark sends to the
    tasks once. It is None in a stream, in which ``trail`` itself contains the definitions.
    """

    trail: TrailFiles
    split: TrailSplit
    table: Table | None
    number: int | None


def plan_partitions(
    trail: TrailFiles,
    splits: Sequence[TrailSplit],
    options: ReadOptions,
    number: int | None = None,
) -> list[InputPartition]:
    """Return one Spark partition per split of a trail.

    If ``number`` (``TrailPart.number``) is set, the partitions do not contain the definitions.
    """
    table = find_wanted_table(trail, options)
    partitions = []
    for split in splits:
        files = files_for_split(trail, split)
        if number is None:
            files = replace(files, definitions=trail.definitions)
        partitions.append(InputPartition(TrailPart(files, split, table, number)))
    return partitions


def check_single_trail(paths: tuple[str, ...]) -> None:
    """Raise OptionError if the path of a Spark stream is a pattern, because a stream of the format ``trail`` follows only one trail."""
    path = one_path(paths, "a stream of the format trail")
    if is_pattern(path) and find_begun_trail(path) is None:
        raise OptionError(
            f"a stream of the format trail takes one trail, not the pattern {mask_logins(path)}",
            hint="Start a stream for each trail, and put them together with union",
        )


@with_brief_errors
class TrailStreamReader(FileStreamReader):
    """Follows a trail over its files, and returns only complete transactions (stream reader of ``trail``).

    PySpark 4.1 requests the latest offset without stating the query's current offset. The current
    offset becomes known when the first batch is planned, so only this batch is not limited.
    """

    _offsets = StreamOffset
    stream: TrailStream

    def __init__(self, options: TrailOptions, schema: StructType) -> None:
        limit = BatchLimit(options.max_files_per_trigger, options.max_bytes_per_trigger)
        super().__init__(TrailStream(self._find), limit)
        self.options, self._schema = options, schema
        # The end of the last planned batch.
        self._planned: Offset | None = None
        self._checked = False  # whether the CSNs in the options were compared with the trail's
        self._patience, self._notices = RestTimer(REST_WAITS), NoticeLog()
        self._next_look = 0.0

    def _find(self) -> TrailFiles | None:
        path = one_path(self.options.paths, "a stream of the format trail")
        return find_begun_trail(path, self.options.reading.definitions)

    def initialOffset(self) -> Offset:  # noqa: N802  Spark's name
        """Return the trail position at which a new stream starts, and log missing first files."""
        trail = self._find()
        if trail is not None and self.options.starting_position == EARLIEST:
            self._note(first_file_notices(trail))
        if trail is not None:
            self._note(option_notices(trail, self.options.reading))
        return self.stream.initial(self.options.starting_position).json()

    def _note(self, notices: Iterable[str]) -> None:
        for notice in notices:
            self._notices.once(mask_logins(f"{self.options.paths[0]}: {notice}"))

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:  # noqa: N802  Spark's name
        """Return the end of the next batch of the trail, at the end of a transaction."""
        if start is not None:
            end = super().latestOffset(start, limit)
        else:
            # PySpark 4.1 passes no arguments: continue after the last planned batch
            start = self._planned or NOWHERE.json()
            bound = NO_LIMIT if self._planned is None else self.limit
            end = self.stream.latest(StreamOffset.read(start), bound).json()
        if end == start:
            self._note_rest(StreamOffset.read(end))
        return end

    def _note_rest(self, reached: StreamOffset) -> None:
        """Log the bytes at the trail's end that a stream cannot return yet, such as an open transaction.

        If the stream ends with the files as they are now (``availableNow``), they are logged at
        once, otherwise only if they do not change for some time.
        """
        if not self.stream.ends and time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + REST_LOOK
        rest = self.stream.rest(reached)
        if rest is None:
            return
        # A trail that is being written always has a rest for a moment: the record that is just
        # arriving. Only a rest that stays the same is worth a warning.
        self._note(rest.notices if self.stream.ends else self._patience.due(rest))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the Spark partitions of the next batch of a growing trail."""
        self._planned = end
        planned = self.stream.splits(
            StreamOffset.read(start), StreamOffset.read(end), self.options.split_bytes
        )
        if planned is None:
            return []
        if not self._checked:
            check_csn_limits(planned[0], self.options.reading.csn_limits)
            self._checked = True
        return plan_partitions(*planned, self.options.reading)

    def rows(self, part: TrailPart) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split of the growing trail (stream of ``trail``)."""
        return read_split(part.trail, part.split, self.options.reading, part.table)


@with_brief_errors
class TrailReader(PartitionReader, DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads a trail's splits in Spark tasks (batch reader of ``trail``)."""

    def __init__(
        self, options: TrailOptions, schema: StructType, trails: tuple[TrailFiles, ...]
    ) -> None:
        self._options, self._schema, self._trails = options, schema, trails
        self._definitions = tuple(trail.definitions for trail in trails)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for tasks without the list of files, because each partition contains its files."""
        return {**self.__dict__, "_trails": ()}

    def partitions(self) -> list[InputPartition]:
        """Return the Spark partitions of the trails: large files are split, small files packed together."""
        options, notices = self._options, NoticeLog()
        planned = []
        for number, trail in enumerate(self._trails):
            for notice in option_notices(trail, options.reading):
                notices.once(mask_logins(f"{trail.prefix}: {notice}"))
            missing = trail.describe_missing()
            if missing:
                notices.once(mask_logins(f"{trail.prefix}: {missing}"))
            splits = plan_reading(trail, options.reading, options.split_bytes)
            if splits and splits[-1].end == trail.end:
                for notice in notices_of_end(trail):  # log here: tasks log on their machines
                    notices.once(mask_logins(f"{trail.prefix}: {notice}"))
            planned += plan_partitions(trail, splits, options.reading, number)
        return planned

    def rows(self, part: TrailPart) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split of a trail (batch of ``trail``)."""
        # The partitions were sent without definitions; put them back.
        trail = replace(part.trail, definitions=self._definitions[part.number or 0])
        return read_split(trail, part.split, self._options.reading, part.table)


@with_brief_errors
class TrailSource(SparkSource):
    """The Spark format ``trail``: depending on the options, operations of a trail, typed rows of one table, or records."""

    format = "trail"
    does = "It is read and written, as a batch and as a stream"
    _reads: ClassVar[Any] = TrailOptions

    def reader(self, schema: StructType) -> TrailReader:
        """Return the batch reader of trails."""
        refuse_stream_options(self.options, READING)
        options = self.read_options(schema)
        return TrailReader(options.with_columns(schema), schema, options.trails())

    def _stream(self, schema: StructType) -> DataSourceStreamReader:
        options = self.read_options(schema)
        if options.reading.open_transactions:
            problem = "a stream returns complete transactions only"
            raise OptionError(
                problem, hint="openTransactions applies only to reading a trail as a batch"
            )
        check_single_trail(options.paths)
        return TrailStreamReader(options.with_columns(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer of trails."""
        from trailgate.spark.trail_sink import trail_writer  # noqa: PLC0415  not to read

        return trail_writer(self.options, schema, self.folder, overwrite=overwrite)

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the stream writer of trails."""
        from trailgate.spark.trail_sink import trail_stream_writer  # noqa: PLC0415

        if overwrite:
            problem = "a trail is never overwritten"
            raise OptionError(problem, hint='Write with .outputMode("append")')
        return trail_stream_writer(self.options, schema, self.folder)


@check_arguments
def read_trail(  # noqa: PLR0913  one parameter an option
    spark: SparkSession,
    path: Addresses,
    *,
    table: str | None = None,
    tables: str | Iterable[str] | None = None,
    records: Literal["operations", "all"] = "operations",
    columns: str | Iterable[str] | None = None,
    definitions: Address | None = None,
    charset: str | None = None,
    after: str | None = None,
    from_position: str | None = None,
    to_position: str | None = None,
    from_csn: str | None = None,
    to_csn: str | None = None,
    times: Literal["timestamp", "text"] = "timestamp",
    undo: Literal["show", "exclude"] = "show",
    open_transactions: Literal["hold", "show"] = "hold",
    split_bytes: int | None = None,
    base: Address | None = None,
) -> DataFrame:
    """Read a trail as a DataFrame. The options are those of the format ``trail``."""
    options = {name: value for name, value in locals().items() if name not in ("spark", "path")}
    return frame_of(spark, TrailSource, path, options)
