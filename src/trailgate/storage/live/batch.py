"""A batch of a streaming query: what its tasks staged, and the transaction that it leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trailgate.errors import StorageError, Where
from trailgate.storage.files.manifest import Manifest, Published, QueryPosition
from trailgate.storage.writing.segments import Segment
from trailgate.storage.writing.transaction_chain import Ends, chained


@dataclass(frozen=True, slots=True)
class BatchPart:
    """What one task has staged: files, how many bytes each begins with before its first operation, and its transactions."""

    segments: tuple[Segment, ...] = ()
    begin: int = 0
    ends: Ends | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, and how old a file becomes before another is begun, in seconds; None: any age."""

    query: str
    number: int
    max_age: int | None = None


def left_unfinished(
    prefix: str, manifest: Manifest, batch: Batch, parts: Sequence[BatchPart]
) -> dict[str, str]:
    """Return the transaction that the trail ends inside of after a batch."""
    held = manifest.unfinished
    if held and held["query"] != batch.query:
        problem = f"the trail ends inside the transaction {held['transaction']} of another query"
        hint = "One trail takes one query at a time"
        raise StorageError(problem, where=Where(source=prefix), hint=hint)
    ends = [part.ends for part in parts if part.ends is not None]
    left = chained(held.get("transaction"), ends)
    return {} if left is None else {"query": batch.query, "transaction": left}


def moved_positions(
    manifest: Manifest, batch: Batch, files: Sequence[Published], parts: Sequence[BatchPart]
) -> dict[str, QueryPosition]:
    """Return where the queries are after a batch; one without operations leaves its query where it was."""
    ids = [part.ends.seq_id for part in parts if part.ends is not None]
    if not ids:
        return manifest.positions
    position = QueryPosition(ids[-1], files[-1].number, files[-1].size)
    return {**manifest.positions, batch.query: position}
