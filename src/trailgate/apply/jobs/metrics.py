"""What a run of apply has done since it began, how much of its trail is left, and both as metrics for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from trailgate.apply.jobs.retries import Retries
from trailgate.apply.jobs.tables import ApplyReport
from trailgate.apply.targets.target import Position
from trailgate.columnar.digits import parse_position
from trailgate.jobs.metrics import COUNTER, GAUGE, Metric
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.transaction_spans import find_first_end, find_last_end


def place_after(trail: TrailFiles, position: Position | None) -> TrailPosition:
    """Return where the transaction of a position ends; the trail's begin if there is no position."""
    if position is None:
        return trail.begin
    if position.reached is not None:
        return TrailPosition(*parse_position(position.reached))
    at = TrailPosition(*parse_position(position.position))
    if at >= trail.end:
        return trail.end
    return find_first_end(trail, max(at, trail.begin)) or trail.end


def bytes_after(trail: TrailFiles, place: TrailPosition) -> int:
    """Return the number of bytes from a place to the end of the trail's last whole transaction."""
    if place >= trail.end:
        return 0
    end = find_last_end(trail, trail.end, max(place, trail.begin))
    if end is None or end <= place:
        return 0
    sizes = {
        one.number: one.size for one in trail.files if place.number <= one.number <= end.number
    }
    return (
        sum(sizes.values())
        - (sizes[end.number] - end.offset)
        - min(place.offset, sizes.get(place.number, 0))
    )


class Lag(NamedTuple):
    """The lag of tables: bytes of whole transactions that are not applied, and the age of the last operation that is, 0 if nothing is left."""

    bytes: int
    seconds: float | None

    @classmethod
    def of(cls, lag_bytes: int, position: Position | None) -> Self:
        """Return the lag of now for a number of bytes."""
        if not lag_bytes:
            return cls(0, 0.0)
        return cls(lag_bytes, age_of(position))


def age_of(position: Position | None) -> float | None:
    """Return how many seconds ago the operation at a position was committed at its source, or None if that is unknown."""
    if position is None or position.op_ts is None:
        return None
    return round(time.time() - position.op_ts / 1e6, 3)


@dataclass(frozen=True, slots=True)
class ApplyStatistics:
    """Sums of what a run has done. ``committed`` is when it committed its last batch, in seconds since 1970 UTC; ``lag_bytes`` the bytes after ``position`` that are not applied, None if unknown.

    ``faults`` are those of the target, by their reasons.
    """

    done: ApplyReport = field(default_factory=ApplyReport)
    committed: float | None = None
    lag_bytes: int | None = None
    position: Position | None = None
    up: bool = True
    outages: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)

    def with_batch(self, report: ApplyReport) -> Self:
        """Return the statistics with one more batch, committed now."""
        return replace(self, done=self.done + report, committed=round(time.time(), 3))

    def with_lag(self, lag_bytes: int | None, position: Position | None) -> Self:
        """Return the statistics with how much of the trail is not applied after a position."""
        return replace(self, lag_bytes=lag_bytes, position=position)

    def with_target(self, retries: Retries) -> Self:
        """Return the statistics with how the target is now."""
        faults = dict(retries.faults)
        return replace(self, up=not retries.is_out, outages=retries.outages, faults=faults)

    def failed(self) -> Self:
        """Return the statistics of a run that ended with an error: nothing is applied any more."""
        return replace(self, up=False)

    @property
    def retried(self) -> int:
        """Return the number of faults of the target."""
        return sum(self.faults.values())


REASONS: Final = ("unreachable", "locked", "conflict")
OPERATIONS: Final = Metric("trailgate_apply_operations_total", "operations", "Operations that were applied.")  # fmt: skip
DISCARDED: Final = Metric("trailgate_apply_discarded_total", "discarded", "Operations that could not be applied, discarded or ignored.")  # fmt: skip
ROWS: Final = Metric("trailgate_apply_rows_total", "rows", "Rows of the target that were written.")
CHANGES: Final = ("inserted", "updated", "replaced", "deleted")
BATCHES: Final = Metric("trailgate_apply_batches_total", "batches", "Batches that were committed.")
ERRORS: Final = Metric("trailgate_apply_errors_total", "faults", "Faults of the target, by reason; each but a last one was retried.")  # fmt: skip
OUTAGES: Final = Metric("trailgate_apply_outages_total", "outages", "Times at which the target failed after it had worked.")  # fmt: skip
GAUGES: Final = (
    Metric("trailgate_apply_up", "up", "Whether the target works: 1, or 0; 0 also after a run that ended with an error."),
    Metric("trailgate_apply_lag_bytes", "lag_bytes", "Bytes of whole transactions of the trail that are not applied."),
    Metric("trailgate_apply_last_commit_timestamp_seconds", "committed", "When the last batch was committed, in seconds since 1970 UTC."),
)  # fmt: skip
LAG: Final = Metric("trailgate_apply_lag_seconds", "seconds", "The age of the last operation that is applied, 0 if the trail has no later one.")  # fmt: skip


def as_text(statistics: ApplyStatistics, labels: Mapping[str, str]) -> str:
    """Return all metrics that are known, each with these labels."""
    tables = sorted(statistics.done.tables.items())
    lines: list[str] = []
    for row in (OPERATIONS, DISCARDED):
        own = [({**labels, "table": name}, getattr(one, row.of)) for name, one in tables]
        lines += row.lines(COUNTER, own)
    rows = [
        ({**labels, "table": name, "change": change}, getattr(one, change))
        for name, one in tables
        for change in CHANGES
    ]
    lines += ROWS.lines(COUNTER, rows)
    lines += BATCHES.lines(COUNTER, [(labels, statistics.done.batches)])
    faults = [({**labels, "reason": one}, statistics.faults.get(one, 0)) for one in REASONS]
    lines += ERRORS.lines(COUNTER, faults)
    lines += OUTAGES.lines(COUNTER, [(labels, statistics.outages)])
    for row in GAUGES:
        value = getattr(statistics, row.of)
        if value is not None:
            lines += row.lines(GAUGE, [(labels, value)])
    if statistics.lag_bytes is not None:
        seconds = Lag.of(statistics.lag_bytes, statistics.position).seconds
        if seconds is not None:
            lines += LAG.lines(GAUGE, [(labels, seconds)])
    return "".join(f"{line}\n" for line in lines)
