"""Add up the results of a run of apply, measure its lag, and format both as Prometheus metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from trailgate.apply.jobs.reports import ApplyReport
from trailgate.apply.targets.target import AppliedPosition
from trailgate.errors import TrailgateError, mask_logins
from trailgate.jobs.metrics import COUNTER, GAUGE, Metric, known_lines
from trailgate.jobs.retries import Retries
from trailgate.model.positions import parse_position
from trailgate.storage.files.trail_files import TrailFiles, TrailPosition
from trailgate.storage.reading.transaction_spans import find_first_end

REASONS: Final = ("unreachable", "locked", "conflict")
OPERATIONS: Final = Metric("trailgate_apply_operations_total", "operations", "Operations that were applied.")  # fmt: skip
DISCARDED: Final = Metric("trailgate_apply_discarded_total", "discarded", "Operations that could not be applied, discarded or ignored.")  # fmt: skip
ROWS: Final = Metric("trailgate_apply_rows_total", "rows", "Rows of the target that were written.")
CHANGES: Final = ("inserted", "updated", "replaced", "deleted")
BATCHES: Final = Metric("trailgate_apply_batches_total", "batches", "Batches that were committed.")
ERRORS: Final = Metric("trailgate_apply_errors_total", "faults", "Faults of the target, by reason. All were retried, except one that ended the run.")  # fmt: skip
OUTAGES: Final = Metric("trailgate_apply_outages_total", "outages", "The number of times that the target failed after it had worked.")  # fmt: skip
GAUGES: Final = (
    Metric("trailgate_apply_up", "up", "1 if the target works, 0 if it does not or if the run ended with an error."),
    Metric("trailgate_apply_lag_bytes", "lag_bytes", "Bytes of complete transactions in the trail that are not applied."),
    Metric("trailgate_apply_last_commit_timestamp_seconds", "committed", "When the last batch was committed, in seconds since 1970 UTC."),
)  # fmt: skip
LAG: Final = Metric("trailgate_apply_lag_seconds", "seconds", "The age of the last applied operation, 0 if the trail has no later one.")  # fmt: skip


def find_unapplied_begin(trail: TrailFiles, position: AppliedPosition | None) -> TrailPosition:
    """Return the position from which the lag of apply is measured: where the unapplied part of a trail begins.

    This is the beginning of the next batch if the position states it (``reached``), or else the end
    of the transaction at the position. Without a position it is the beginning of the trail.
    """
    if position is None:
        return trail.begin
    if position.reached is not None:
        return TrailPosition(*parse_position(position.reached))
    at = TrailPosition(*parse_position(position.position))
    if at >= trail.end:
        return trail.end
    # The file of the position may have been purged.
    return find_first_end(trail, max(at, trail.begin)) or trail.end


def try_measure_lag(measure: Callable[[], int]) -> int | None:
    """Return the number of bytes in complete transactions that are not applied yet, or None if the trail cannot be read now.

    ``measure`` is the method ``lag_bytes`` of a run.
    """
    try:
        return measure()
    except (TrailgateError, OSError):
        return None


class ApplyLag(NamedTuple):
    """How much of its trail a group has not applied yet.

    ``bytes`` is the number of bytes in complete transactions that are not applied. ``seconds`` is
    the age of the last applied operation: 0 if everything is applied, None if it is unknown.
    """

    bytes: int
    seconds: float | None

    @classmethod
    def of(cls, lag_bytes: int, position: AppliedPosition | None) -> Self:
        """Compute the lag of the target tables from the number of unapplied bytes and the last applied position."""
        if not lag_bytes:
            return cls(0, 0.0)
        return cls(lag_bytes, measure_apply_lag(position))


def measure_apply_lag(position: AppliedPosition | None) -> float | None:
    """Return the lag of apply: the seconds since the operation at a position was committed at its source, or None if unknown."""
    if position is None or position.op_ts is None:
        return None
    return round(time.time() - position.op_ts / 1e6, 3)


@dataclass(frozen=True, slots=True)
class ApplyStatistics:
    """Totals of a run of apply, from which its metrics are computed.

    ``done`` is the sum of the reports of all batches. ``committed`` is the time of the last commit,
    in seconds since 1970 UTC. ``lag_bytes`` is the number of unapplied bytes after ``position``, or
    None if unknown. ``up`` is false while the target fails, and after an error has ended the run.
    ``outages`` is the number of times that the target failed after it had worked, and ``faults``
    counts its faults by reason, such as "locked".
    """

    done: ApplyReport = field(default_factory=ApplyReport)
    committed: float | None = None
    lag_bytes: int | None = None
    position: AppliedPosition | None = None
    up: bool = True
    outages: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)

    def with_batch(self, report: ApplyReport) -> Self:
        """Return the statistics after a batch that apply has just committed."""
        return replace(self, done=self.done + report, committed=round(time.time(), 3))

    def with_lag(self, lag_bytes: int | None, position: AppliedPosition | None) -> Self:
        """Return the statistics with the lag of the tables after an applied position."""
        return replace(self, lag_bytes=lag_bytes, position=position)

    def with_target(self, retries: Retries) -> Self:
        """Return the statistics with the state of the apply target and the counts of its faults."""
        faults = dict(retries.faults)
        return replace(self, up=not retries.is_out, outages=retries.outages, faults=faults)

    def with_failure(self) -> Self:
        """Return the statistics of a run of apply that was ended by an error."""
        return replace(self, up=False)


def format_apply_metrics(statistics: ApplyStatistics, labels: Mapping[str, str]) -> str:
    """Format all known metrics of apply in Prometheus's text format, each with these labels."""
    tables = sorted(statistics.done.tables.items())
    lines: list[str] = []
    for row in (OPERATIONS, DISCARDED):
        counts = [({**labels, "table": name}, getattr(one, row.of)) for name, one in tables]
        lines += row.lines(COUNTER, counts)
    rows = [
        ({**labels, "table": name, "change": change}, getattr(one, change))
        for name, one in tables
        for change in CHANGES
    ]
    lines += ROWS.lines(COUNTER, rows)
    lines += BATCHES.lines(COUNTER, [(labels, statistics.done.batches)])
    # Reasons without faults are written as 0, so that all counters exist from the start.
    faults = [({**labels, "reason": one}, statistics.faults.get(one, 0)) for one in REASONS]
    lines += ERRORS.lines(COUNTER, faults)
    lines += OUTAGES.lines(COUNTER, [(labels, statistics.outages)])
    lines += known_lines(GAUGE, GAUGES, statistics, labels)
    if statistics.lag_bytes is not None:
        seconds = ApplyLag.of(statistics.lag_bytes, statistics.position).seconds
        if seconds is not None:
            lines += LAG.lines(GAUGE, [(labels, seconds)])
    return "".join(f"{line}\n" for line in lines)


def apply_metric_labels(trail: str, target: str, group: str) -> dict[str, str]:
    """Return the labels of the metrics of apply: trail, target and group."""
    return {"trail": trail, "target": mask_logins(target), "group": group}
