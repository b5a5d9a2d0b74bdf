"""Partitions of a trail: what one task reads, in batches and in streams alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from trailgate.model.tables import Definitions, Table
from trailgate.spark.expected_rows import as_expected
from trailgate.storage.files.trail_files import TrailFiles
from trailgate.storage.reading.trail.options import ReadOptions
from trailgate.storage.reading.trail.trails import TrailSplit, read_split, wanted_table

AHEAD: Final = 16  # files after its split that a task is given; most transactions end in the first


class TrailPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """A split that one task reads, the files of the trail that it needs, and the table asked for.

    ``number`` is the trail's among those that a reader has the definitions of; a stream's partitions have them themselves.
    """

    def __init__(
        self, trail: TrailFiles, split: TrailSplit, table: Table | None, number: int | None
    ) -> None:
        super().__init__(None)
        self.number = number
        self.trail = trail
        self.split = split
        self.table = table


def partitions_of(
    trail: TrailFiles,
    splits: Sequence[TrailSplit],
    options: ReadOptions,
    number: int | None = None,
) -> list[InputPartition]:
    """Return one partition a split; with the trail's ``number`` without definitions."""
    last = trail.end.number
    table = wanted_table(trail, options)
    found = []
    if number is not None:
        trail = trail.undefined()
    for split in splits:
        window = trail.window(split.start.number, min(split.end.number + AHEAD, last))
        found.append(TrailPartition(window, split, table, number))
    return found


def read_partition(
    partition: InputPartition | None,
    options: ReadOptions,
    schema: StructType,
    definitions: Sequence[Definitions] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield a partition's batches in exactly the schema that Spark expects."""
    if not isinstance(partition, TrailPartition):
        return  # Spark asks once with None where there are no partitions
    trail, number = partition.trail, partition.number
    if number is not None:
        trail = replace(trail, definitions=definitions[number])
    batches = read_split(trail, partition.split, options, partition.table)
    yield from as_expected(batches, schema)
