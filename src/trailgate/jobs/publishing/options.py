"""What publishing a trail did."""

from __future__ import annotations

from dataclasses import dataclass

from trailgate.storage.writing.counts import Counts


@dataclass(frozen=True, slots=True)
class PublishSummary:
    """What a run published: operations by table and kind, messages, and the files it wrote.

    ``position`` is that of the last operation that is published; a later run continues after it. ``open_operations`` belong to a
    transaction that has not ended: they are left for a later run.
    """

    target: str
    format: str
    counts: Counts
    messages: int = 0
    transactions: int = 0
    operations: int = 0
    open_operations: int = 0
    files: tuple[str, ...] = ()
    position: str = ""
