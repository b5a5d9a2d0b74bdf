"""Writing the format ``trail``: ``df.write.format("trail").mode("append").save("dirdat/ot")``.

Tasks write trail files into a staging folder; the commit numbers and lists them, the manifest
last. Until then nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from trailgate.errors import OptionError
from trailgate.storage.writing.options import MAX_BYTES
from trailgate.storage.writing.table_writing import (
    Part,
    TableOptions,
    check_columns,
    prepare_writing,
    publish_parts,
    write_part,
)
from trailgate.storage.writing.target import Target
from trailgate.trail.format.trail_format import TrailFormat

SEQUENCE_DIGITS: Final = (6, 9)
FORMAT_OPTIONS: Final = ("formatRelease", "byteOrder", "updateFormat")


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """What a task has staged."""

    part: Part


class TrailWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Appends operations to a trail, partitions and rows in their order."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Stage a partition's operations; a second attempt has files of its own."""
        task = TaskContext.get()
        stem = f"{task.partitionId():06}-{task.taskAttemptId()}"
        return Written(write_part(self._target, stem, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what the tasks have staged."""
        parts = [message.part for message in messages if isinstance(message, Written)]
        publish_parts(self._target, parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staging folder."""
        del messages  # those of failed tasks are missing: the folder has all
        self._target.discard()


def trail_writer(options: Any, schema: StructType, *, overwrite: bool) -> TrailWriter:
    """Return the writer for Spark's options; raises OptionError."""
    if overwrite:
        problem = "a trail is never overwritten"
        raise OptionError(problem, hint='Write with .mode("append"), or to another path')
    if not options.get("path"):
        raise OptionError("the format trail needs a path", hint='As in .save("dirdat/ot")')
    check_columns(schema.names)
    digits = _number(options, "seqDigits", 0)
    if digits not in (0, *SEQUENCE_DIGITS):
        raise OptionError(f"seqDigits is 6 or 9, not {digits}")
    size = _number(options, "maxBytes", MAX_BYTES)
    form = TrailFormat.named(*(options.get(name) for name in FORMAT_OPTIONS))
    own = TableOptions(options.get("definitions"), size, digits or None, form)
    return TrailWriter(prepare_writing(options["path"], own))


def _number(options: Any, name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"{name} must be a number above 0, not {text!r}")
    return int(text)
