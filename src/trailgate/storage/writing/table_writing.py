"""Write operations tables to a trail, in parts that are staged separately and published together.

A Spark job calls ``prepare_writing`` once, ``write_part`` in a task for each partition, and finally
``publish_parts`` with the results. Also counts the operations of each table and type.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from time import time_ns
from typing import Final

import numpy as np
import pyarrow as pa

from trailgate.columnar.rows import join_small_batches
from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operations_table import TableSource, conform_operations, from_operations
from trailgate.model.tables import Definitions
from trailgate.model.transactions import mask_begins
from trailgate.storage.files.addresses import Address, absolute
from trailgate.storage.writing.segments import (
    MAX_BYTES,
    EncodedOperations,
    Segment,
    SegmentWriter,
    WriteOptions,
)
from trailgate.storage.writing.target import (
    check_tables,
    check_trail,
    digits_of,
    file_header,
    location_of,
    tables_of,
)
from trailgate.storage.writing.trail_location import StagedRun, TrailTarget, publish
from trailgate.storage.writing.transaction_chain import (
    PartEnds,
    RepairingTransactionChain,
    TransactionChain,
    check_repaired,
)
from trailgate.trail.writing.trail_format import LEVEL_3, TrailFormat

Counts = dict[str, dict[str, int]]

# The required columns. The others may be omitted, and are NULL then.
NEEDED: Final = ("table", "op_type", "op_ts", "tx_id", "tx_ind", "before", "after")


def count_operations(batch: ChangeBatch, begin: int, stop: int) -> tuple[Counts, int]:
    """Count the operations [begin, stop) of a batch by table and type, and the transactions that begin there."""
    counts_found: list[Counts] = []
    transactions = 0
    for block in batch.blocks:
        here = (block.order >= begin) & (block.order < stop)
        # Operation types are ASCII letters, so 256 bins are enough for any of them.
        kinds = np.bincount(block.op_type[here], minlength=256)
        by_kind = {chr(kind): int(kinds[kind]) for kind in np.flatnonzero(kinds).tolist()}
        if by_kind:
            counts_found.append({block.table.name: by_kind})
        transactions += int(mask_begins(block.tx_ind[here]).sum())
    return sum_counts(counts_found), transactions


def add_counts(one: Counts, other: Counts) -> Counts:
    """Add two counts of operations by table and type."""
    return sum_counts((one, other))


def sum_counts(parts: Iterable[Counts]) -> Counts:
    """Add many counts of operations. Tables are in the order in which they first occur."""
    total: Counts = {}
    for part in parts:
        for table, kinds in part.items():
            into = total.setdefault(table, {})
            for kind, count in kinds.items():
                into[kind] = into.get(kind, 0) + count
    return total


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of writing operations tables to a trail.

    If ``seq_digits`` is None, file numbers have as many digits as in the existing trail, or 9.
    """

    definitions: Address | None = None
    max_bytes: int = MAX_BYTES
    seq_digits: int | None = None
    trail_format: TrailFormat = LEVEL_3


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A staged part of a write to a trail: its files, operation counts, and first and last operation."""

    segments: tuple[Segment, ...] = ()
    counts: Counts = field(default_factory=dict)
    ends: PartEnds | None = None


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """The result of writing a trail: operations by table and type, and the published files."""

    target: str
    counts: Counts
    operations: int = 0
    files: tuple[str, ...] = ()


def check_columns(names: Sequence[str]) -> None:
    """Raise OptionError if the columns to write are not the columns of the operations table."""
    hint = f"The operations table has {', '.join(OPERATIONS_SCHEMA.names)}"
    for name in NEEDED:
        if name not in names:
            raise OptionError(f"there is no column {name}", hint=hint)
    for name in names:
        if name not in OPERATIONS_SCHEMA.names:
            raise OptionError(f"the column {name} cannot be written to a trail", hint=hint)


def prepare_writing(path: Address, options: TableOptions) -> TrailTarget:
    """Prepare a run that writes to the trail at a prefix, or begins a trail there.

    Returns its target, which can be pickled.

    The staging folder is created here. If it does not exist later, the run was cancelled.
    Definitions may be omitted if the trail already has them. Raises OptionError.
    """
    target = plan_target(path, options)
    target.location.backend.check()
    target.location.backend.create_staging(target.staging)
    return target


def plan_target(path: Address, options: TableOptions) -> TrailTarget:
    """Plan a run that writes to a trail: the result of ``prepare_writing``, without creating its staging folder."""
    location, manifest = location_of(absolute(path)).recover()
    prefix = location.prefix
    digits = digits_of(prefix, manifest) if manifest is not None and manifest.files else 9
    write_options = WriteOptions(
        max_bytes=options.max_bytes,
        seq_digits=options.seq_digits or digits,
        trail_format=options.trail_format,
    )
    check_trail(location, manifest, write_options)
    run = uuid.uuid4().hex
    header = file_header(prefix, write_options.seq_digits, time_ns() // 1000)
    tables = tables_of(location, options.definitions)
    check_tables(tables, write_options)
    return TrailTarget(
        location=location,
        staging=location.backend.staging(f"write-{run}"),
        run=run,
        header=header,
        definitions=tables,
        options=write_options,
    )


def write_part(
    target: TrailTarget,
    stem: str,
    batches: Iterable[pa.RecordBatch],
    chain: TransactionChain | None = None,
) -> StagedPart:
    """Stage the operations of one part as trail files ``<stem>.0``, ``<stem>.1`` and so on.

    ``chain`` checks their transactions. If it is None, a ``RepairingTransactionChain`` does, which
    recomputes indicators if rows are missing. Errors name rows by their number in the part.
    """
    if not target.location.backend.has_staging(target.staging):
        # A task that outlives its job must not leave files.
        problem = "the staging folder no longer exists: the write was abandoned"
        raise StorageError(problem, where=Where(source=str(target.staging)))
    with target.staged_folder() as folder:
        writer = target.writer(folder, stem)
        try:
            return _write_batches(target, writer, batches, chain or RepairingTransactionChain())
        except BaseException:
            # A failed task does not report its files, so nobody else could delete them by name.
            with suppress(StorageError):
                writer.rollback(())
            raise
        finally:
            writer.close()


def _write_batches(
    target: TrailTarget,
    writer: SegmentWriter,
    batches: Iterable[pa.RecordBatch],
    chain: TransactionChain,
) -> StagedPart:
    encoding = target.encoding()
    counts: Counts = {}
    rows = 0
    for changes in chain.checked_batches(to_changes(target.definitions, batches)):
        with _move(rows):
            encoded = encoding(changes)
        writer.append(EncodedOperations(encoded, changes), 0, changes.rows)
        counts = add_counts(counts, count_operations(changes, 0, changes.rows)[0])
        rows += changes.rows
    return StagedPart(writer.close(), counts, chain.ends)


def to_changes(
    definitions: Definitions | TableSource, batches: Iterable[pa.RecordBatch]
) -> Iterator[ChangeBatch]:
    """Convert operations tables to changes. Errors name the row, counted over all batches."""
    rows = 0
    for batch in join_small_batches(batches):
        with _move(rows):
            changes = from_operations(conform_operations(batch), definitions)
        yield changes
        rows += changes.rows


@contextmanager
def _move(rows: int) -> Iterator[None]:
    """Add ``rows``, the number of rows of earlier batches, to the row number of an error in the block."""
    try:
        yield
    except TrailgateError as error:
        if error.where.record is not None:
            error.where = replace(error.where, record=error.where.record + rows)
        raise


def publish_parts(target: TrailTarget, parts: Sequence[StagedPart]) -> WriteSummary:
    """Add the staged files of all parts to the trail, in order.

    Raises the TransactionError of ``check_repaired`` if a transaction was divided between parts.
    """
    check_repaired([part.ends for part in parts if part.ends is not None])
    location = target.location
    with location.backend.locked():
        check_trail(location, location.manifest(), target.options)
        # From here on, files that are not in the manifest are not mistaken for the trail's.
        location.begin_manifest()
        # Another run may have added tables to the definitions meanwhile.
        target = replace(target, definitions=location.merge_definitions(target.definitions))
        counts: Counts = {}
        for part in parts:
            counts = add_counts(counts, part.counts)
        segments = [segment for part in parts for segment in part.segments]
        operations = sum(count for kinds in counts.values() for count in kinds.values())
        summary = WriteSummary(target.prefix, counts, operations)
        names, _ = publish(target, StagedRun(segments, summary=asdict(summary)))
        return replace(summary, files=names)
