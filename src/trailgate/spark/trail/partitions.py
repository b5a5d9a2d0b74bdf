"""Partitions of a trail: what one task reads, in batches and in streams alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from trailgate.model.tables import Table
from trailgate.spark.expected_rows import as_expected
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.trail.options import ReadOptions
from trailgate.storage.reading.trail.trails import TrailSplit, read_split, wanted_table

AHEAD: Final = 16  # files after its split that a task is given; most transactions end in the first


class TrailPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """A split that one task reads, the files of the trail that it needs, and the table asked for."""

    def __init__(self, trail: TrailFiles, split: TrailSplit, table: Table | None) -> None:
        super().__init__(None)
        self.trail = trail
        self.split = split
        self.table = table


def partitions_of(
    trail: TrailFiles, splits: Sequence[TrailSplit], options: ReadOptions
) -> list[InputPartition]:
    """Return one partition a split."""
    last = trail.end.number
    table = wanted_table(trail, options)
    found = []
    for split in splits:
        window = trail.window(split.start.number, min(split.end.number + AHEAD, last))
        found.append(TrailPartition(window, split, table))
    return found


def read_partition(
    partition: InputPartition | None, options: ReadOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield a partition's batches in exactly the schema that Spark expects."""
    if not isinstance(partition, TrailPartition):
        return  # Spark asks once with None where there are no partitions
    batches = read_split(partition.trail, partition.split, options, partition.table)
    yield from as_expected(batches, schema)
