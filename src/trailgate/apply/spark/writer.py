"""Write the format ``trailgate_apply``: apply the operations of a DataFrame or a stream to tables.

Tasks convert rows to columns in the types of their tables. The commit sorts them by position and
applies them in the driver's process, like ``trailgate apply``; the session itself needs no support
for the target.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from trailgate.apply.jobs.frames import FrameApplier
from trailgate.apply.jobs.options import OPTIONS, ApplyOptions
from trailgate.apply.targets.target import absolute_address
from trailgate.errors import OptionError, mask_logins
from trailgate.model.changes import ChangeBatch
from trailgate.options import FLAG, PATH, TEXT, Option, Options
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import BASE, refuse_misplaced
from trailgate.spark.sources import SparkFormat
from trailgate.storage.files.addresses import absolute, make_addresses_absolute
from trailgate.storage.files.text_files import read_definitions_file
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.trail_definitions import TrailDefinitions
from trailgate.storage.writing.table_writing import check_columns, to_changes

WRITING: Final = Options(
    "trailgate_apply",
    (
        Option("to", TEXT, "the tables, such as delta:lake/, duckdb:FILE or postgresql://..."),
        Option(
            "trail",
            PATH,
            "the trail of the operations, with its definitions and positions",
        ),
        Option("definitions", PATH, "the definitions file of the tables, if there is no trail"),
        Option(
            "skip_applied",
            FLAG,
            "skip operations of a stream that are applied already; by default such a batch is an error",
            False,
        ),
        *(row for row in OPTIONS if row.name != "batch_bytes"),
        BASE,
    ),
)
LOG: Final = logging.getLogger("trailgate.spark.apply")  # `--follow` prints "trailgate.apply"
# Options that Spark passes to every sink.
OF_SPARK: Final = ("checkpointlocation", "queryname")


@dataclass
class ConvertedOperations(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """The operations that a task of the format ``trailgate_apply`` has converted."""

    batches: list[ChangeBatch]


@with_brief_errors
class ApplyWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Applies the operations of a DataFrame (batch writer of ``trailgate_apply``)."""

    def __init__(self, work: FrameApplier, tables: TrailFiles) -> None:
        self._work, self._tables = work, tables

    def write(self, iterator: Iterator[pa.RecordBatch]) -> ConvertedOperations:
        """Convert the operations of a DataFrame's partition in a Spark task. Nothing is applied yet."""
        tables = self._tables
        definitions = TrailDefinitions(tables) if tables.files else tables.definitions
        return ConvertedOperations(list(to_changes(definitions, filter(len, iterator))))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Apply all operations of the DataFrame that the Spark tasks have converted, in the driver."""
        self._work.apply(
            [one for m in messages if isinstance(m, ConvertedOperations) for one in m.batches]
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing, because the tasks of the applied DataFrame only convert operations."""


@with_brief_errors
class ApplyStreamWriter(ApplyWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Applies the batches of a stream (stream writer of ``trailgate_apply``).

    A batch that was applied before a restart is skipped.
    """

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803  Spark's name
        """Apply the operations of a stream's batch, unless they were applied before a restart."""
        del batchId  # the positions of the operations show whether they are applied already
        ApplyWriter.commit(self, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803  Spark's name
        """Do nothing, because tasks of the applied stream only convert operations."""


@with_brief_errors
class ApplySink(SparkFormat):
    """The format ``trailgate_apply``. It can only be written, not read."""

    format = "trailgate_apply"
    does = "It is written, as a batch and as a stream"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of ``trailgate_apply`` for a DataFrame's operations."""
        if overwrite:
            problem = "apply changes existing tables and does not overwrite them"
            raise OptionError(problem, hint='Write with .mode("append")')
        return ApplyWriter(*self._plan(schema, streams=False))

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the writer of ``trailgate_apply`` for a stream's operations."""
        if overwrite:
            problem = "apply changes existing tables and does not overwrite them"
            raise OptionError(problem, hint='Write with .outputMode("append")')
        return ApplyStreamWriter(*self._plan(schema, streams=True))

    def _plan(self, schema: StructType, *, streams: bool) -> tuple[FrameApplier, TrailFiles]:
        return plan_writer_apply(self.options, schema, self.folder, streams=streams)


def plan_writer_apply(
    stated: Mapping[str, Any], schema: StructType, folder: str | None, *, streams: bool
) -> tuple[FrameApplier, TrailFiles]:
    """Parse the options of the Spark writer ``trailgate_apply``, and plan its work. Raises OptionError.

    Returns the job that applies DataFrames, and the trail (or only the definitions) that defines
    the tables. Logs the notices of the job.
    """
    named = {name: value for name, value in stated.items() if name.casefold() not in OF_SPARK}
    if "path" in map(str.casefold, named):
        problem = "the format trailgate_apply has no path"
        raise OptionError(problem, hint="Name the tables with the option 'to', such as delta:lake/")
    values = WRITING.read(named)
    if not streams:
        refuse_misplaced(
            named, WRITING, ["skip_applied"], "applies only to streams, not to a batch"
        )
    check_columns(schema.names)
    if "position" not in schema.names:
        hint = "Apply frames of the format trail, or write the operations to a trail first"
        raise OptionError("operations without the column position have no order", hint=hint)
    base = absolute(values.pop("base") or ".", folder)
    to, trail, definitions = (values.pop(name) for name in ("to", "trail", "definitions"))
    skip = values.pop("skip_applied")
    if to is None:
        raise OptionError(
            "the option 'to' is missing", hint="For example .option('to', 'delta:lake/')"
        )
    if trail is None and definitions is None:
        problem = "one of the options trail and definitions is required"
        raise OptionError(problem, hint="Name the trail that the operations were read from")
    for name in ("discards", "params"):
        values[name] = make_addresses_absolute(values[name], base)
    options = ApplyOptions(**values)
    source = absolute(trail or definitions, base)
    if trail is None:
        tables = TrailFiles(source, (), read_definitions_file(source))
    else:
        given_file = None if definitions is None else absolute(definitions, base)
        tables = find_trail(source, given_file)
    files = tables if tables.files else None
    work = FrameApplier(absolute_address(to, base), options, source, not streams or skip, files)
    for notice in work.check(tables):
        LOG.warning("%s", mask_logins(f"{source}: {notice}"))
    return work, tables
