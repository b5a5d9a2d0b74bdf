"""The format ``trail``: ``spark.read.format("trail").load("dirdat/ot")``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from trailgate.definitions.operations import typed_schema
from trailgate.errors import OptionError
from trailgate.model.operations import OPERATIONS_SCHEMA
from trailgate.storage.trails import (
    SPLIT_BYTES,
    TrailFiles,
    TrailSplit,
    find_trail,
    plan_splits,
    read_split,
)

# Spark reserves none of these; "path" is what load() is given.
OPTIONS: Final = ("path", "table", "definitions", "splitBytes")


@dataclass(frozen=True, slots=True)
class TrailOptions:
    """What a trail is read by."""

    path: str
    table: str | None = None
    definitions: str | None = None
    split_bytes: int = SPLIT_BYTES

    @classmethod
    def read(cls, options: Any) -> TrailOptions:
        """Return the options of Spark's texts; raises OptionError."""
        if not options.get("path"):
            raise OptionError("the format trail needs a path", hint='As in .load("dirdat/ot")')
        size = options.get("splitBytes", str(SPLIT_BYTES))
        if not size.isdecimal() or int(size) < 1:
            raise OptionError(f"splitBytes must be a number of bytes, not {size!r}")
        return cls(options["path"], options.get("table"), options.get("definitions"), int(size))

    def trail(self) -> TrailFiles:
        """Return the trail as it lies there now."""
        return find_trail(self.path, self.definitions)


class TrailSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Operations of a trail, or with the option ``table`` that table's rows in their types."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "trail"

    def schema(self) -> StructType:
        """Return the operations' schema, or the table's."""
        options = TrailOptions.read(self.options)
        if options.table is None:
            return from_arrow_schema(OPERATIONS_SCHEMA)
        table = options.trail().definitions.table(options.table)
        return from_arrow_schema(typed_schema(table))

    def reader(self, schema: StructType) -> TrailReader:
        """Return the batch reader."""
        return TrailReader(TrailOptions.read(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer."""
        from trailgate.spark.trail_sink import trail_writer  # noqa: PLC0415  not to read

        return trail_writer(self.options, schema, overwrite=overwrite)


class TrailPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """Splits that one task reads, and the trail they belong to."""

    def __init__(self, trail: TrailFiles, splits: tuple[TrailSplit, ...]) -> None:
        super().__init__(None)
        self.trail = trail
        self.splits = splits


class TrailReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads a trail's splits in parallel.

    There is no ``pushFilters``: Spark 4.3 gives wrong rows where one relation is scanned twice.
    """

    def __init__(self, options: TrailOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the partitions: large files split, small ones packed together."""
        trail = self._options.trail()
        splits = plan_splits(trail, self._options.split_bytes)
        packed = packed_splits(splits, self._options.split_bytes)
        return [TrailPartition(trail, part) for part in packed]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's batches in exactly the schema that Spark expects."""
        if not isinstance(partition, TrailPartition):
            return  # Spark asks once with None where there are no partitions
        schema = to_arrow_schema(self._schema, timezone="UTC")
        for split in partition.splits:
            for batch in read_split(partition.trail, split, self._options.table):
                yield batch.select(schema.names).cast(schema)


def packed_splits(splits: list[TrailSplit], size: int) -> list[tuple[TrailSplit, ...]]:
    """Return neighbouring splits put together up to a size."""
    packs: list[list[TrailSplit]] = []
    room = 0
    for split in splits:
        length = split.end - split.start
        if not packs or length > room:
            packs.append([])
            room = size
        packs[-1].append(split)
        room -= length
    return [tuple(pack) for pack in packs]
