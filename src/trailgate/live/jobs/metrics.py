"""The statistics of a live capture: totals, periodic reports, and metrics for Prometheus.

Reports correspond to the adapter's JMS statistics. The properties ``jms.report.*`` state when one
is due.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Self

from trailgate.errors import OptionError, Where
from trailgate.jobs.metrics import COUNTER, GAUGE, Metric, known_lines
from trailgate.live.jobs.feed import ConnectionState
from trailgate.live.jobs.run import BatchReport
from trailgate.model.operation_counts import Counts, add_counts

SUMMED: Final = (
    "messages",
    "operations",
    "transactions",
    "repeated",
    "duplicates",
    "quarantined",
    "skipped",
)
COUNTERS: Final = (
    Metric("trailgate_messages_total", "messages", "Messages that were received and stored."),
    Metric("trailgate_transactions_total", "transactions", "Transactions that were appended to the trail."),
    Metric("trailgate_repeated_total", "repeated", "Messages that the broker redelivered; they are skipped."),
    Metric("trailgate_duplicates_total", "duplicates", "Duplicate messages, by jms.id; they are skipped."),
    Metric("trailgate_quarantined_total", "quarantined", "Messages in the quarantine."),
    Metric("trailgate_skipped_total", "skipped", "Messages that contain no operation."),
    Metric("trailgate_batches_total", "batches", "Batches processed."),
    Metric("trailgate_reconnections_total", "reconnections", "Connections to the broker that were made after the first one."),
)  # fmt: skip
OPERATIONS: Final = Metric("trailgate_operations_total", "counts", "Operations that were appended to the trail.")  # fmt: skip
OF_NOW: Final = (
    Metric("trailgate_connected", "connected", "Whether there is a connection to the broker: 1 or 0."),
    Metric("trailgate_last_message_timestamp_seconds", "received", "When the last messages were processed, in seconds since 1970 UTC."),
)  # fmt: skip
GAUGES: Final = (
    Metric("trailgate_lag_messages", "lag_messages", "Messages that were received and are not in the trail."),
    Metric("trailgate_lag_seconds", "lag_seconds", "The age of the last message when its batch was in the trail, by JMSTimestamp."),
    Metric("trailgate_trail_file", "trail_file", "The number of the trail's last file."),
    Metric("trailgate_trail_offset_bytes", "trail_offset", "The end of the trail in its last file."),
    Metric("trailgate_next_message", "number", "The number of the message that comes next."),
)  # fmt: skip
OUTPUT: Final = "jms.report.output"
TIME: Final = "jms.report.time"
RECORDS: Final = "jms.report.records"
USED: Final = frozenset({OUTPUT, TIME, RECORDS})

# Capture properties §2. Our report file is the standard output, and the log is stderr.
TARGETS: Final[Mapping[str, frozenset[str]]] = {
    "report": frozenset({"report"}),
    "log": frozenset({"log"}),
    "both": frozenset({"report", "log"}),
}
UNITS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hr": 3600}
# 10 min, or 30SEC
_TIME: Final = re.compile(rf"(\d+)\s*({'|'.join(UNITS)})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CaptureStatistics:
    """Totals of a live capture over all batches (see ``BatchReport``).

    ``last`` is the last batch, or None before the first one. ``received`` is the time of the last
    batch in seconds since 1970 UTC. ``connected`` states whether the broker is connected now, and
    ``reconnections`` is the number of connections after the first one.
    """

    messages: int = 0
    operations: int = 0
    transactions: int = 0
    repeated: int = 0
    duplicates: int = 0
    quarantined: int = 0
    skipped: int = 0
    batches: int = 0
    counts: Counts = field(default_factory=dict)
    last: BatchReport | None = None
    received: float | None = None
    connected: bool = False
    reconnections: int = 0

    def with_link(self, link: ConnectionState) -> Self:
        """Return the statistics with the state of the broker connection (the same object if nothing changed)."""
        # The first connection is not a reconnection.
        again = max(0, link.made - 1)
        if (link.is_connected, again) == (self.connected, self.reconnections):
            return self
        return replace(self, connected=link.is_connected, reconnections=again)

    def with_batch(self, report: BatchReport, now: float | None = None) -> Self:
        """Return the statistics after another captured batch at the time ``now``."""
        sums = {name: getattr(self, name) + getattr(report, name) for name in SUMMED}
        counts = add_counts(self.counts, report.counts)
        received = None if now is None else round(now, 3)
        return replace(
            self, **sums, counts=counts, last=report, received=received, batches=self.batches + 1
        )

    def sums(self) -> dict[str, int]:
        """Return the live capture's totals by the names in ``SUMMED``."""
        return {name: getattr(self, name) for name in SUMMED}

    @property
    def mostly_bad(self) -> bool:
        """Whether the live capture has quarantined more messages than it captured."""
        return 2 * self.quarantined > self.messages - self.skipped

    def since(self, before: CaptureStatistics) -> Self:
        """Return the totals of the capture since the statistics ``before`` were taken.

        ``counts``, the operations by table, remain those since the start.
        """
        sums = {name: getattr(self, name) - getattr(before, name) for name in (*SUMMED, "batches")}
        return replace(self, **sums)


assert set(SUMMED) < {one.name for one in fields(CaptureStatistics)}


def format_metrics(statistics: CaptureStatistics, trail: str) -> str:
    """Format all known metrics of a live capture for Prometheus, with the trail's prefix as the label ``trail``."""
    labels = {"trail": trail}
    counts = [
        ({**labels, "table": table, "kind": kind}, count)
        for table, kinds in sorted(statistics.counts.items())
        for kind, count in sorted(kinds.items())
    ]
    # Before the first batch the last one is None, and its metrics are omitted.
    lines = (
        *known_lines(COUNTER, COUNTERS, statistics, labels),
        *OPERATIONS.lines(COUNTER, counts),
        *known_lines(GAUGE, OF_NOW, statistics, labels),
        *known_lines(GAUGE, GAUGES, statistics.last, labels),
    )
    return "".join(f"{line}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of a live capture's periodic reports: where they are written, and after how many seconds or messages.

    If ``seconds`` and ``records`` are both None, there are no reports.
    """

    targets: frozenset[str] = TARGETS["report"]
    seconds: int | None = None
    records: int | None = None


def read_reports(connection: Mapping[str, str]) -> ReportOptions:
    """Read the options of periodic reports from the properties ``jms.report.*``. Raises OptionError."""
    target = connection.get(OUTPUT, "report")
    if target.casefold() not in TARGETS:
        raise _error(OUTPUT, target, f"one of {', '.join(TARGETS)}")
    seconds, records = connection.get(TIME), connection.get(RECORDS)
    # int("0") is false: 0 messages are not an interval.
    if records is not None and not (records.isascii() and records.isdecimal() and int(records)):
        raise _error(RECORDS, records, "a number of messages such as 1000")
    return ReportOptions(
        TARGETS[target.casefold()],
        None if seconds is None else _seconds(seconds),
        None if records is None else int(records),
    )


def _seconds(text: str) -> int:
    matched = _TIME.fullmatch(text)
    count = int(matched[1]) * UNITS[matched[2].casefold()] if matched else 0
    if not count:
        raise _error(TIME, text, "an interval such as 30sec, 45min or 8hr")
    return count


def _error(name: str, value: str, expected: str) -> OptionError:
    return OptionError(f"{name} is {value!r}, expected {expected}", where=Where(field=name))


@dataclass(frozen=True, slots=True)
class IntervalReport:
    """A periodic report of a live capture: the totals of the last ``seconds``, and the totals since the start."""

    seconds: float
    interval: CaptureStatistics
    total: CaptureStatistics

    @property
    def rate(self) -> float:
        """The messages per second in the report's interval."""
        return self.interval.messages / self.seconds if self.seconds else 0.0

    def fields(self) -> dict[str, Any]:
        """Return the periodic report as a dictionary for JSON."""
        last = self.total.last
        return {
            "seconds": round(self.seconds, 3),
            "messages_per_second": round(self.rate, 1),
            **self.interval.sums(),
            "total": self.total.sums(),
            "lag_messages": None if last is None else last.lag_messages,
            "lag_seconds": None if last is None else last.lag_seconds,
        }

    def __str__(self) -> str:
        done, every = self.interval, self.total
        without = f", {done.skipped:,} without operations" if done.skipped else ""
        return (
            f"JMS report: {done.messages:,} messages in {self.seconds:,.1f} s ({self.rate:,.1f}/s), {done.transactions:,} transactions, "
            f"{done.operations:,} operations; {done.repeated:,} redelivered, {done.duplicates:,} duplicates, {done.quarantined:,} quarantined{without}; "
            f"in all {every.messages:,} messages, {every.operations:,} operations"
        )


class Reporter:
    """Decides when a periodic report is due: after an interval or a number of messages, whichever comes first."""

    def __init__(self, options: ReportOptions, now: float) -> None:
        self._options, self._begun, self._before = options, now, CaptureStatistics()

    def due(self, total: CaptureStatistics, now: float) -> IntervalReport | None:
        """Return the report that is due at the time ``now``, or None. ``total`` are the current statistics."""
        seconds, done = now - self._begun, total.since(self._before)
        by_time = self._options.seconds is not None and seconds >= self._options.seconds
        by_count = self._options.records is not None and done.messages >= self._options.records
        if not by_time and not by_count:
            return None
        self._begun, self._before = now, total
        return IntervalReport(seconds, done, total)
