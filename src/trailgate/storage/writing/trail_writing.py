"""Operations tables to a trail, in parts that are staged apart and published together."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import time_ns
from typing import Final

import pyarrow as pa

from trailgate.definitions.defgen.record_layout import complete
from trailgate.definitions.defgen.sourcedefs import read_sourcedefs
from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.model.operations_schema import OPERATIONS_SCHEMA
from trailgate.model.tables import Definitions
from trailgate.operations.operations_table import from_operations
from trailgate.storage.files.manifest import (
    CaptureOptions,
    CaptureSummary,
    Manifest,
    Target,
    check_tables,
    check_trail,
    file_header,
    locked,
    publish_target,
    read_manifest,
    write_manifest,
)
from trailgate.storage.files.trail_files import URI, Place, locate, read_whole
from trailgate.storage.writing.segments import Counts, Segment, added, counted
from trailgate.trail.format.trail_format import LEVEL_3, TrailFormat

# The others may be left out: then they are null.
NEEDED: Final = ("table", "op_type", "op_ts", "tx_id", "tx_ind", "before", "after")


@dataclass(frozen=True)
class WriteJob:
    """All that a worker needs to stage a part; it can be pickled."""

    target: Target
    options: CaptureOptions


@dataclass(frozen=True, slots=True)
class Part:
    """The staged files of one part, and its operations by table and kind."""

    segments: tuple[Segment, ...] = ()
    counts: Counts | None = None


def check_columns(names: Sequence[str]) -> None:
    """Raise OptionError where columns are not those of the operations table."""
    hint = f"The operations table has {', '.join(OPERATIONS_SCHEMA.names)}"
    for name in NEEDED:
        if name not in names:
            raise OptionError(f"there is no column {name}", hint=hint)
    for name in names:
        if name not in OPERATIONS_SCHEMA.names:
            raise OptionError(f"the column {name} has no place in a trail", hint=hint)


def prepare_writing(
    path: Place,
    definitions: Place | None,
    max_bytes: int,
    seq_digits: int | None = None,
    trail_format: TrailFormat = LEVEL_3,
) -> WriteJob:
    """Return a job that adds to the trail at a prefix, or begins one there.

    Its staging folder is there from now on, so that a job given up is known by its absence. Definitions may be left out where the trail has them already. Raises OptionError.
    """
    prefix = local_prefix(path)
    manifest = read_manifest(prefix)
    options = CaptureOptions(
        max_bytes=max_bytes,
        seq_digits=seq_digits or _digits(prefix, manifest),
        trail_format=trail_format,
    )
    check_trail(prefix, manifest, options)
    run = uuid.uuid4().hex
    staging = Path(prefix).with_name(f".{Path(prefix).name}.write-{run}")
    header = file_header(prefix, options.seq_digits, time_ns() // 1000)
    tables = tables_of(prefix, definitions)
    check_tables(tables, options)
    staging.mkdir(parents=True)
    return WriteJob(Target(prefix, staging, run, header, tables), options)


def write_part(job: WriteJob, stem: str, batches: Iterable[pa.RecordBatch]) -> Part:
    """Stage the operations of one part in their order; raises with the row in its part."""
    if not job.target.staging.is_dir():
        # A task that goes on after the job was given up must not leave anything behind.
        problem = "the staging folder is not there: the write was given up"
        raise StorageError(problem, where=Where(source=str(job.target.staging)))
    writer = job.target.writer(stem, job.options)
    encoding = job.target.encoding(job.options)
    counts: Counts = {}
    rows = 0
    for batch in batches:
        try:
            changes = from_operations(conformed(batch), job.target.definitions)
            encoded = encoding(changes)
        except TrailgateError as error:
            if error.where.record is not None:
                error.where = replace(error.where, record=error.where.record + rows)
            writer.close()
            raise
        writer.append(encoded, changes, 0, changes.rows)
        counts = added(counts, counted(changes, 0, changes.rows)[0])
        rows += changes.rows
    return Part(writer.close(), counts)


def publish_parts(job: WriteJob, parts: Sequence[Part]) -> CaptureSummary:
    """Add the parts' files to the trail in the order of the parts."""
    target = job.target
    with locked(target.prefix):
        manifest = read_manifest(target.prefix)
        check_trail(target.prefix, manifest, job.options)
        if manifest is None:
            # From here on nobody takes files that are not published yet for the trail's.
            write_manifest(target.prefix, Manifest())
        tables = _existing(target.prefix)
        if tables is not None:
            target = replace(target, definitions=tables.merged(target.definitions))
        counts: Counts = {}
        for part in parts:
            counts = added(counts, part.counts or {})
        segments = [segment for part in parts for segment in part.segments]
        operations = sum(count for kinds in counts.values() for count in kinds.values())
        summary = CaptureSummary(target.prefix, counts, operations=operations)
        return publish_target(target, job.options, summary, segments, ())


def discard(job: WriteJob) -> None:
    """Take away what is staged."""
    job.target.discard()


def local_prefix(path: Place) -> str:
    """Return a prefix on a local disk as an absolute path; raises OptionError for anything else."""
    store, place = locate(path)
    if store.type_name != "local" or URI.match(place) or not Path(place).name:
        raise OptionError(f"{path} is no prefix of a trail on a local disk")
    return str(Path(place).absolute())


def _digits(prefix: str, manifest: Manifest | None) -> int:
    if manifest is None or not manifest.files:
        return 9
    return len(manifest.files[-1].name) - len(Path(prefix).name)


def _existing(prefix: str) -> Definitions | None:
    path = Path(f"{prefix}.def")
    return read_sourcedefs(path.read_bytes(), source=str(path)) if path.exists() else None


def tables_of(prefix: str, given: Place | Definitions | None) -> Definitions:
    """Return the definitions of a trail's tables with those given; raises where there are none."""
    existing = _existing(prefix)
    if given is None:
        if existing is not None:
            return existing
        problem = "a new trail needs definitions of its tables"
        raise StorageError(problem, where=Where(source=prefix), hint="Give the option definitions")
    if isinstance(given, Definitions):
        tables = Definitions(tuple(complete(table) for table in given), given.database)
    else:
        tables = read_sourcedefs(read_whole(given), source=str(given))
    return tables if existing is None else existing.merged(tables)


def conformed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with all columns of the operations table in its types."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in OPERATIONS_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=OPERATIONS_SCHEMA)
