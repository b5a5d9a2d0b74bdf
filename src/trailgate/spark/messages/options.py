"""The options of the format ``message_capture``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from trailgate.errors import OptionError
from trailgate.jobs.capture.loading import load_capture
from trailgate.messages.capture import Capture
from trailgate.operations.projection import Projection
from trailgate.options import COUNT, FLAG, NAMES, PATH, TEXT, Kind, Option, Options, choice
from trailgate.spark.options import BASE, read_with_paths
from trailgate.storage.reading.messages.files import SPLIT_BYTES


def _stop(text: str) -> str:
    if text != "stop":
        problem = "reading stops at the first bad message"
        raise OptionError(problem, hint="The capture job can quarantine bad messages")
    return text


OPTIONS: Final = Options(
    "message_capture",
    (
        Option("properties", PATH, "the capture's properties"),
        Option("extract", PATH, "an Extract parameter file that names them"),
        Option(
            "ignore_unsupported",
            FLAG,
            "capture without what the parameter file has that is not obeyed",
            False,
        ),
        Option("table", TEXT, "this table's operations in the types of its columns"),
        Option("columns", NAMES, "only these columns, comma-separated"),
        Option(
            "message_per",
            choice({"file": "file", "line": "line"}),
            "what a message is; .jsonl files hold one a line",
            "file",
        ),
        Option("on_error", Kind("stop", _stop), "stop: at the first bad message", "stop"),
        Option("split_bytes", COUNT, "how many bytes of messages a task reads", SPLIT_BYTES),
        Option("max_files_per_trigger", COUNT, "a stream's batch: at most so many files"),
        Option(
            "max_bytes_per_trigger", COUNT, "a stream's batch: at most so many bytes, or one file"
        ),
        BASE,
    ),
)


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What messages are read by."""

    paths: tuple[str, ...]
    properties: str | None
    extract: str | None
    ignore_unsupported: bool
    table: str | None
    columns: tuple[str, ...] | None
    message_per: str
    on_error: str
    split_bytes: int
    max_files_per_trigger: int | None
    max_bytes_per_trigger: int | None
    base: str

    @classmethod
    def of(cls, options: Mapping[str, Any], folder: str | None = None) -> Self:
        """Return the options of Spark's texts; relative paths are from ``folder``. Raises OptionError."""
        paths, values = read_with_paths(OPTIONS, options, '.load("messages/")', folder)
        if values["properties"] is None and values["extract"] is None:
            raise OptionError("the format message_capture needs the option properties or extract")
        return cls(paths, **values)

    def capture(self) -> Capture:
        """Return what parses the messages."""
        return load_capture(
            self.properties,
            self.extract,
            base=self.base,
            ignore_unsupported=self.ignore_unsupported,
        )

    def projection(self, capture: Capture) -> Projection:
        """Return the columns of the rows."""
        table = None if self.table is None else capture.definitions.table(self.table)
        return Projection.of(table, self.columns)
