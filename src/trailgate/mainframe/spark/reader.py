"""The format ``copybook``: files of fixed-width records as rows, decoded in the workers.

``spark.read.format("copybook").option("copybook", "ACCOUNT.cpy").load("data/")``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

import pyarrow as pa
from pyspark import Accumulator
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from trailgate.cobol.records.policy_counts import PolicyTally
from trailgate.mainframe.files.record_files import RecordSplit
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.options import OPTIONS, with_base
from trailgate.mainframe.jobs.reading import read_copybook_splits
from trailgate.model.shapes import resolve_columns
from trailgate.options import Options
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import BASE, read_with_paths
from trailgate.spark.sources import PartitionReader, SparkSource

ON_SPARK: Final = Options("copybook", (*OPTIONS, BASE))
PACKED: Final = 256  # the most small files that one task reads


@dataclass(frozen=True, slots=True)
class RecordFileOptions:
    """The paths of record files, and the options of the format ``copybook`` for reading them."""

    paths: tuple[str, ...]
    records: CopybookOptions

    @classmethod
    def of(cls, given: Mapping[str, Any], folder: str | None = None) -> Self:
        """Parse Spark's options of the format ``copybook``.

        Relative paths start at ``folder``. Raises OptionError.
        """
        paths, values = read_with_paths(ON_SPARK, given, '.load("data/")', folder)
        return cls(paths, CopybookOptions.of_values(with_base(OPTIONS, values, values["base"])))

    def schema(self) -> pa.Schema:
        """Return the schema of the copybook's rows."""
        return self.records.decoder().schema


@with_brief_errors
class CopybookReader(PartitionReader, DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads splits of record files in Spark tasks (batch reader of ``copybook``).

    A partition is one or more splits that a task reads in sequence.
    """

    def __init__(self, files: RecordFileOptions, schema: StructType) -> None:
        names = resolve_columns(files.schema(), schema.names)
        self._paths, self._options = files.paths, files.records.only(names)
        self._schema, self._names = schema, names

    def partitions(self) -> list[InputPartition]:
        """Return the partitions of record files: large files are split, small files packed together."""
        options = self._options
        splits = options.splits(self._paths)
        return [InputPartition(own) for own in pack_splits(splits, options.split_bytes)]

    def rows(self, part: tuple[RecordSplit, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the records of a partition's splits as Arrow batches."""
        for batch in read_copybook_splits(part, self._options, self._options.decoder()):
            yield batch.select(self._names)

    def counted_rows(
        self, part: tuple[RecordSplit, ...], counts: Accumulator[PolicyTally]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a partition's splits, and count the applied policies.

        Before each batch, its policy counts are added to ``counts``.
        """
        tally = PolicyTally()
        for batch in read_copybook_splits(part, self._options, self._options.decoder(tally)):
            # a copy, because the tally is cleared for the next batch
            counts.add(PolicyTally(tally))
            tally.clear()
            yield batch.select(self._names)
        counts.add(tally)


@with_brief_errors
class CopybookSource(SparkSource):
    """The Spark format ``copybook``: records of files, nested as structs and arrays, or as flat columns."""

    format = "copybook"
    does = "It can only be read and written as a batch"
    _reads = RecordFileOptions

    def reader(self, schema: StructType) -> CopybookReader:
        """Return the batch reader of record files."""
        return CopybookReader(self.read_options(schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer of record files."""
        from trailgate.mainframe.spark.writer import copybook_writer  # noqa: PLC0415  not to read

        return copybook_writer(self.options, schema, self.folder, overwrite=overwrite)


def pack_splits(splits: Iterable[RecordSplit], size: int) -> Iterator[tuple[RecordSplit, ...]]:
    """Group neighbouring splits of record files into the work of one Spark task, until it reaches ``size`` bytes or ``PACKED`` splits."""
    group: list[RecordSplit] = []
    group_bytes = 0
    for split in splits:
        size_of_split = split.end - split.start
        if group and (group_bytes + size_of_split > size or len(group) == PACKED):
            yield tuple(group)
            group, group_bytes = [], 0
        group.append(split)
        group_bytes += size_of_split
    if group:
        yield tuple(group)
