"""Write operations tables to a trail, in parts that are staged separately and published together.

A Spark job calls ``prepare_writing`` once, ``write_part`` in a task for each partition, and finally
``publish_parts`` with the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import pyarrow as pa

from trailgate.columnar.rows import join_small_batches
from trailgate.errors import OptionError, StorageError, TrailgateError, Where
from trailgate.model.changes import OPERATIONS_SCHEMA, ChangeBatch
from trailgate.model.operation_counts import Counts, add_counts, count_operations
from trailgate.model.operations_table import TableSource, conform_operations, from_operations
from trailgate.model.tables import Definitions
from trailgate.storage.writing.run_preparation import (
    check_appendable,
)
from trailgate.storage.writing.segments import (
    EncodedOperations,
    Segment,
    SegmentWriter,
)
from trailgate.storage.writing.trail_location import StagedRun, TrailTarget, publish
from trailgate.storage.writing.transaction_chain import (
    PartEnds,
    RepairingTransactionChain,
    TransactionChain,
    check_repaired,
)

# The required columns. The others may be omitted, and are NULL then.
NEEDED: Final = ("table", "op_type", "op_ts", "tx_id", "tx_ind", "before", "after")


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
    """Convert the batches of an operations table that is written to a trail to change batches. Errors name the row, counted over all batches."""
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
        manifest = location.manifest()
        check_appendable(location, manifest, target.options)
        target.log_notes(manifest)
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
