"""What a live capture has done since it began: the sums of its batches, and the last one."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Final, Self

from trailgate.jobs.receive.feeds.feed import Link
from trailgate.jobs.receive.options import BatchReport
from trailgate.storage.writing.counts import Counts, added

SUMMED: Final = (
    "messages",
    "operations",
    "transactions",
    "repeated",
    "duplicates",
    "quarantined",
)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Sums of what batches report, see ``BatchReport``; ``last`` is the last batch, None before the first one.

    ``received`` is when the last batch came, in seconds since 1970 UTC. ``connected`` and ``reconnections`` are of the broker now.
    """

    messages: int = 0
    operations: int = 0
    transactions: int = 0
    repeated: int = 0
    duplicates: int = 0
    quarantined: int = 0
    batches: int = 0
    counts: Counts = field(default_factory=dict)
    last: BatchReport | None = None
    received: float | None = None
    connected: bool = False
    reconnections: int = 0

    def with_link(self, link: Link) -> Self:
        """Return the statistics with how the connection is now; the same object where nothing has changed."""
        again = max(0, link.made - 1)
        if (link.is_made, again) == (self.connected, self.reconnections):
            return self
        return replace(self, connected=link.is_made, reconnections=again)

    def with_batch(self, report: BatchReport, now: float | None = None) -> Self:
        """Return the statistics with one more batch, which came at a time."""
        sums = {name: getattr(self, name) + getattr(report, name) for name in SUMMED}
        counts = added(self.counts, report.counts)
        return replace(
            self, **sums, counts=counts, last=report, received=now, batches=self.batches + 1
        )

    @property
    def mostly_bad(self) -> bool:
        """Return whether more messages were quarantined than captured."""
        return 2 * self.quarantined > self.messages

    def since(self, before: Statistics) -> Self:
        """Return what was done after an earlier moment; counts by table are those of all."""
        sums = {name: getattr(self, name) - getattr(before, name) for name in (*SUMMED, "batches")}
        return replace(self, **sums)


assert set(SUMMED) < {one.name for one in fields(Statistics)}
