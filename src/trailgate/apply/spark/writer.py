"""Writing the format ``trailgate_apply``: operations of a frame or a stream land in tables, as ``trailgate apply`` puts them there.

Tasks convert the rows to columns of their tables' types, and the commit puts them in the order of their positions and applies them: the target is written by the driver's
process, and needs nothing of the session.
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

from trailgate.apply.jobs.frames import FrameOperations
from trailgate.apply.jobs.options import OPTIONS, ApplyOptions
from trailgate.apply.targets.target import TARGETS
from trailgate.errors import OptionError, mask_logins
from trailgate.model.changes import ChangeBatch
from trailgate.options import FLAG, PATH, TEXT, Option, Options
from trailgate.spark.errors import with_brief_errors
from trailgate.spark.options import BASE, refuse_misplaced
from trailgate.spark.sources import Format
from trailgate.storage.files.addresses import absolute, absolute_value
from trailgate.storage.files.listing import read_definitions
from trailgate.storage.files.trail_files import TrailFiles, find_trail
from trailgate.storage.reading.trail_definitions import TrailDefinitions
from trailgate.storage.writing.table_writing import check_columns, to_changes

WRITING: Final = Options(
    "trailgate_apply",
    (
        Option("to", TEXT, "the tables, as delta:lake/, duckdb:FILE or postgresql://..."),
        Option(
            "trail",
            PATH,
            "the trail that the operations are of: its definitions are used, and positions are its own",
        ),
        Option("definitions", PATH, "the definitions file of the tables, where there is no trail"),
        Option(
            "skip_applied",
            FLAG,
            "a stream leaves out operations that the tables have; without it a batch before these is an error",
            False,
        ),
        *(row for row in OPTIONS if row.name != "batch_bytes"),
        BASE,
    ),
)
LOG: Final = logging.getLogger(__name__)
OF_SPARK: Final = (
    "checkpointlocation",
    "queryname",
)  # options that every sink is given too


@dataclass
class Converted(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """What a task has converted."""

    batches: list[ChangeBatch]


@with_brief_errors
class ApplyWriter(DataSourceArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Applies the operations of a frame."""

    def __init__(self, work: FrameOperations, tables: TrailFiles) -> None:
        self._work, self._tables = work, tables

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Converted:
        """Convert a partition's operations."""
        tables = self._tables
        definitions = TrailDefinitions(tables) if tables.files else tables.definitions
        return Converted(list(to_changes(definitions, filter(len, iterator))))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Apply what the tasks have converted."""
        self._work.apply([one for m in messages if isinstance(m, Converted) for one in m.batches])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Do nothing: nothing was written."""


@with_brief_errors
class ApplyStreamWriter(ApplyWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Applies the batches of a stream; one that was applied before a restart is left out."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803  Spark's name
        """Apply a batch."""
        del batchId  # positions tell what is applied
        ApplyWriter.commit(self, messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # type: ignore[override]  # noqa: N803  Spark's name
        """Do nothing: nothing was written."""


@with_brief_errors
class ApplySink(Format):
    """The format ``trailgate_apply``, which is written only."""

    format = "trailgate_apply"
    does = "It is written, as a batch and as a stream"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer."""
        if overwrite:
            problem = "tables that changes are applied to are not overwritten"
            raise OptionError(problem, hint='Write with .mode("append")')
        return ApplyWriter(*self._planned(schema, streams=False))

    def streamWriter(  # noqa: N802  Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Return the stream writer."""
        if overwrite:
            problem = "tables that changes are applied to are not overwritten"
            raise OptionError(problem, hint='Write with .outputMode("append")')
        return ApplyStreamWriter(*self._planned(schema, streams=True))

    def _planned(self, schema: StructType, *, streams: bool) -> tuple[FrameOperations, TrailFiles]:
        return plan(self.options, schema, self.folder, streams=streams)


def plan(
    given: Mapping[str, Any], schema: StructType, folder: str | None, *, streams: bool
) -> tuple[FrameOperations, TrailFiles]:
    """Return how the operations are applied, and the trail that defines their tables; raises OptionError."""
    own = {name: value for name, value in given.items() if name.casefold() not in OF_SPARK}
    if "path" in map(str.casefold, own):
        problem = "the format trailgate_apply takes no path"
        raise OptionError(problem, hint="Name the tables by the option to, as delta:lake/")
    values = WRITING.read(own)
    if not streams:
        refuse_misplaced(own, WRITING, ["skip_applied"], "is about streams, and this is a batch")
    check_columns(schema.names)
    if "position" not in schema.names:
        hint = "Apply frames of the format trail, or write the operations to a trail first"
        raise OptionError("operations without the column position have no order", hint=hint)
    base = absolute(values.pop("base") or ".", folder)
    to, trail, definitions = (values.pop(name) for name in ("to", "trail", "definitions"))
    skip = values.pop("skip_applied")
    if to is None:
        raise OptionError("the option to is not given", hint="As in .option('to', 'delta:lake/')")
    if trail is None and definitions is None:
        problem = "neither the option trail nor the option definitions is given"
        raise OptionError(problem, hint="Name the trail that the operations were read from")
    for name in ("discards", "params"):
        values[name] = absolute_value(values[name], base)
    options = ApplyOptions(**values)
    where = absolute(trail or definitions, base)
    if trail is None:
        tables = TrailFiles(where, (), read_definitions(where))
    else:
        given_file = None if definitions is None else absolute(definitions, base)
        tables = find_trail(where, given_file)
    files = tables if tables.files else None
    work = FrameOperations(_absolute(to, base), options, where, not streams or skip, files)
    for notice in work.check(tables):
        LOG.warning("%s", mask_logins(f"{where}: {notice}"))
    return work, tables


def _absolute(address: str, base: str) -> str:
    """Return the address of a target that means the same in every process."""
    scheme, _, path = address.partition(":")
    if scheme not in TARGETS or not TARGETS[scheme].is_path or not path:
        return address
    return f"{scheme}:{absolute(path, base)}"
