"""Writing the format ``trail``: ``df.write.format("trail").mode("append").save("dirdat/ot")``.

Tasks write trail files into a staging folder; the commit numbers and lists them, the manifest
last. Until then nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from trailgate.errors import OptionError
from trailgate.options import COUNT, PATH, TEXT, Option, Options, choice
from trailgate.spark.brief_errors import with_brief_errors
from trailgate.spark.options import BASE, one_path, read_with_paths
from trailgate.storage.writing.options import MAX_BYTES
from trailgate.storage.writing.table_writing import (
    StagedPart,
    TableOptions,
    check_columns,
    prepare_writing,
    publish_parts,
    write_part,
)
from trailgate.storage.writing.target import Target
from trailgate.trail.writing.trail_format import TrailFormat

WRITING: Final = Options(
    "trail",
    (
        Option("definitions", PATH, "the definitions file, where the trail has none or not all"),
        Option("max_bytes", COUNT, "the most bytes of a trail file", MAX_BYTES),
        Option("seq_digits", choice({"6": 6, "9": 9}), "digits of a trail file's number"),
        Option("format_release", TEXT, "the trail's format, as 12.2; else 11.2"),
        Option("byte_order", TEXT, "big or little; little needs release 12.1"),
        Option("update_format", TEXT, "separate, full or compact; the last two need 12.1"),
        BASE,
    ),
)


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """What a task has staged."""

    part: StagedPart


@with_brief_errors
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


def trail_writer(
    options: Any, schema: StructType, folder: str | None = None, *, overwrite: bool
) -> TrailWriter:
    """Return the writer for Spark's options; raises OptionError."""
    if overwrite:
        problem = "a trail is never overwritten"
        raise OptionError(problem, hint='Write with .mode("append"), or to another path')
    paths, values = read_with_paths(WRITING, options, '.save("dirdat/ot")', folder)
    check_columns(schema.names)
    target = prepare_writing(one_path(paths, "writing a trail"), table_options(values))
    return TrailWriter(target)


def table_options(values: Mapping[str, Any]) -> TableOptions:
    """Return how operations are written by the values of the options."""
    form = TrailFormat.named(
        values["format_release"], values["byte_order"], values["update_format"]
    )
    return TableOptions(values["definitions"], values["max_bytes"], values["seq_digits"], form)
