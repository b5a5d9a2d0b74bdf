"""Spark's options of the format ``trail``: what is read, and how it is spread over tasks and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.options import COUNT, Kind, Option, Options
from trailgate.spark.options import read_with_path
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.options import OPTIONS, ReadOptions
from trailgate.storage.reading.stream import EARLIEST, starting_position
from trailgate.storage.reading.trails import SPLIT_BYTES, schema_of

SPREADING: Final = (
    Option("split_bytes", COUNT, "how many bytes of a trail a task reads", SPLIT_BYTES),
    Option("max_files_per_trigger", COUNT, "a stream's batch: at most so many files"),
    Option("max_bytes_per_trigger", COUNT, "a stream's batch: at most so many bytes"),
    Option(
        "starting_position",
        Kind("earliest, latest or a position", starting_position),
        "a new stream begins: earliest, latest, a position",
        EARLIEST,
    ),
)
READING: Final = Options("trail", (*OPTIONS, *SPREADING))


@dataclass(frozen=True, slots=True)
class TrailOptions:
    """What a trail is read by on Spark."""

    path: str
    reading: ReadOptions
    split_bytes: int
    max_files_per_trigger: int | None
    max_bytes_per_trigger: int | None
    starting_position: str

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the options of Spark's texts; raises OptionError."""
        path, values = read_with_path(READING, options, '.load("dirdat/ot")')
        own = {row.name: values.pop(row.name) for row in SPREADING}
        return cls(path, ReadOptions(**values), **own)

    def with_columns(self, schema: StructType) -> Self:
        """Return the options for the columns of a schema: what the user's does not have is not decoded."""
        return replace(self, reading=replace(self.reading, columns=tuple(schema.names)))

    def trail(self) -> TrailFiles:
        """Return the trail as it is now."""
        return find_trail(self.path, self.reading.definitions)

    def schema(self) -> StructType:
        """Return the schema of what is read."""
        return from_arrow_schema(schema_of(self.path, self.reading))
