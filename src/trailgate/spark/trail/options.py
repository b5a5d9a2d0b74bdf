"""Spark's options of the format ``trail``: what is read, and how it is spread over tasks and batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from trailgate.errors import OptionError
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.options import OPTIONS, OptionRow, ReadOptions, read_options
from trailgate.storage.reading.stream import EARLIEST, starting_position
from trailgate.storage.reading.trails import EVERYTHING, SPLIT_BYTES, schema_of


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise OptionError(f"a number above 0 was expected, not {text!r}")
    return int(text)


SPREADING: Final = (
    OptionRow("split_bytes", _number, "how many bytes of a trail a task reads"),
    OptionRow("max_files_per_trigger", _number, "a stream's batch: at most so many files"),
    OptionRow("max_bytes_per_trigger", _number, "a stream's batch: at most so many bytes"),
    OptionRow(
        "starting_position", starting_position, "a new stream begins: earliest, latest, a position"
    ),
)
_PATH: Final = OptionRow("path", str, "the trail")


@dataclass(frozen=True, slots=True)
class TrailOptions:
    """What a trail is read by on Spark."""

    path: str
    reading: ReadOptions = EVERYTHING
    split_bytes: int = SPLIT_BYTES
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    starting_position: str = EARLIEST

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the options of Spark's texts; raises OptionError."""
        if not options.get("path"):
            raise OptionError("the format trail needs a path", hint='As in .load("dirdat/ot")')
        values = read_options(dict(options), (_PATH, *OPTIONS, *SPREADING))
        own = {field.name for field in fields(cls)}
        reading = ReadOptions(**{key: values[key] for key in values if key not in own})
        return cls(reading=reading, **{key: values[key] for key in values if key in own})

    def trail(self) -> TrailFiles:
        """Return the trail as it lies there now."""
        return find_trail(self.path, self.reading.definitions)

    def schema(self) -> StructType:
        """Return the schema of what is read."""
        return from_arrow_schema(schema_of(self.path, self.reading))
