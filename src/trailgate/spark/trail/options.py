"""Spark's options of the format ``trail``: what is read, and how it is spread over tasks and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.options import COUNT, Kind, Option, Options
from trailgate.spark.options import BASE, one_path, read_with_paths
from trailgate.storage.files.trail_files import TrailFiles, find_trails
from trailgate.storage.reading.trail.options import OPTIONS, ReadOptions
from trailgate.storage.reading.trail.stream import EARLIEST, starting_position
from trailgate.storage.reading.trail.trails import SPLIT_BYTES, schema_of

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
READING: Final = Options("trail", (*OPTIONS, *SPREADING, BASE))


@dataclass(frozen=True, slots=True)
class TrailOptions:
    """What a trail is read by on Spark."""

    paths: tuple[str, ...]
    reading: ReadOptions
    split_bytes: int
    max_files_per_trigger: int | None
    max_bytes_per_trigger: int | None
    starting_position: str

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: str | None = None) -> Self:
        """Return the options of Spark's texts; relative paths are from ``folder``. Raises OptionError."""
        paths, values = read_with_paths(READING, options, '.load("dirdat/ot")', folder)
        del values["base"]  # all paths are absolute
        own = {row.name: values.pop(row.name) for row in SPREADING}
        return cls(paths, ReadOptions(**values), **own)

    def with_columns(self, schema: StructType) -> Self:
        """Return the options for the columns of a schema: what the user's does not have is not decoded."""
        return replace(self, reading=replace(self.reading, columns=tuple(schema.names)))

    @property
    def path(self) -> str:
        """Return the only path, which a stream needs; raises OptionError where there are several."""
        return one_path(self.paths, "a stream of the format trail")

    def trails(self) -> tuple[TrailFiles, ...]:
        """Return the trails as they are now."""
        return find_trails(self.paths, self.reading.definitions)

    def schema(self) -> StructType:
        """Return the schema of what is read."""
        return from_arrow_schema(schema_of(self._first(), self.reading))

    def _first(self) -> TrailFiles | str:
        """Return what the schema is read from; the general shape needs no trail."""
        return self.paths[0] if self.reading.table is None else self.trails()[0]
