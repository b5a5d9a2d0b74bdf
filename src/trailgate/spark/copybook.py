"""The format ``copybook``: files of fixed-width records as rows, decoded in the workers.

``spark.read.format("copybook").option("copybook", "ACCOUNT.cpy").load("data/")``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.jobs.record_files import OPTIONS, CopybookOptions, read_splits
from trailgate.model.shapes import names_of
from trailgate.options import Options
from trailgate.spark.errors import as_expected, with_brief_errors
from trailgate.spark.options import BASE, kept_in, read_with_paths, with_kept
from trailgate.storage.reading.record_files import (
    RecordSplit,
    find_record_files,
    plan_record_splits,
)

ON_SPARK: Final = Options("copybook", (*OPTIONS, BASE))
PACKED: Final = 256  # small files that one task reads at most


@with_brief_errors
class CopybookSource(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """Records of files, as structs and arrays or as flat columns."""

    folder: str | None = None  # that relative paths are from: register() sends the user's

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "copybook"

    def schema(self) -> StructType:
        """Return the copybook's schema."""
        schema = from_arrow_schema(_read(self.options, self.folder)[1].decoder().schema)
        return kept_in(schema, self.options)

    def reader(self, schema: StructType) -> CopybookReader:
        """Return the batch reader."""
        paths, options = _read(with_kept(self.options, schema), self.folder)
        names = names_of(options.decoder().schema, schema.names)
        return CopybookReader(paths, options.only(names), schema, names)


def _read(
    options: Mapping[str, Any], folder: str | None
) -> tuple[tuple[str, ...], CopybookOptions]:
    paths, values = read_with_paths(ON_SPARK, options, '.load("data/")', folder)
    return paths, CopybookOptions.of_values(values)


class CopybookPartition(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """Splits that one task reads one after the other."""

    def __init__(self, splits: tuple[RecordSplit, ...]) -> None:
        super().__init__(None)
        self.splits = splits


@with_brief_errors
class CopybookReader(DataSourceReader):  # type: ignore[misc]  # pyspark's types are not followed
    """Reads splits in parallel; there is no ``pushFilters``, as for trails."""

    def __init__(
        self,
        paths: tuple[str, ...],
        options: CopybookOptions,
        schema: StructType,
        names: tuple[str, ...],
    ) -> None:
        self._paths, self._options, self._schema, self._names = paths, options, schema, names

    def partitions(self) -> list[InputPartition]:
        """Return the partitions: large files split, small ones packed together."""
        options = self._options
        splits = plan_record_splits(
            find_record_files(self._paths), options.framing, options.split_bytes
        )
        return [CopybookPartition(own) for own in _pack(splits, options.split_bytes)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield a partition's records in exactly the schema that Spark expects."""
        if not isinstance(partition, CopybookPartition):
            return  # Spark asks once with None where there are no partitions
        batches = read_splits(partition.splits, self._options, self._options.decoder())
        yield from as_expected((batch.select(self._names) for batch in batches), self._schema)


def _pack(splits: list[RecordSplit], size: int) -> Iterator[tuple[RecordSplit, ...]]:
    """Yield neighbouring splits together while they are small."""
    held: list[RecordSplit] = []
    held_bytes = 0
    for split in splits:
        own = split.end - split.start
        if held and (held_bytes + own > size or len(held) == PACKED):
            yield tuple(held)
            held, held_bytes = [], 0
        held.append(split)
        held_bytes += own
    if held:
        yield tuple(held)
