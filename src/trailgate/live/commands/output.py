"""Print the progress of a live capture.

Each batch is one line, as JSON or in words. On a terminal, ``--follow`` draws a view instead: rate,
lag, operations by table, and the last log message.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from trailgate.errors import count_noun
from trailgate.jobs.metrics import MetricsOutput, metrics_output
from trailgate.live.jobs.feed import ConnectionState
from trailgate.live.jobs.metrics import CaptureStatistics, Reporter, ReportOptions, format_metrics
from trailgate.live.jobs.repaired import RepairSummary
from trailgate.live.jobs.run import BatchReport, LiveCapture
from trailgate.terminal.durations import format_age, format_duration
from trailgate.terminal.layout import counts_table, print_rows
from trailgate.terminal.live_view import LiveView, catch_stop_signals, draw_view, is_terminal
from trailgate.terminal.output import log_to_stderr, print_line, report_finished, say

LOG: Final = logging.getLogger("trailgate.brokers")
APPLY_LOG: Final = logging.getLogger("trailgate.apply")


class CaptureView(LiveView):
    """The terminal view of a live capture. ``show`` updates the statistics."""

    def __init__(self, source: str, trail: str) -> None:
        super().__init__(f"{source} to {trail}")
        self._statistics = CaptureStatistics()

    def show(self, statistics: CaptureStatistics) -> None:
        """Set the live capture's statistics that the view draws from now on."""
        self._statistics = statistics

    def figures(self, seconds: float) -> list[tuple[str, str]]:
        """Return the rows of a live capture's view: counts of messages, lag, and position in the trail.

        ``seconds`` is the time since the start.
        """
        done, last = self._statistics, self._statistics.last
        without = f", {done.skipped:,} without operations" if done.skipped else ""
        rows = [
            ("running", format_duration(seconds)),
            ("messages", self.rate(done.messages, seconds)),
            ("captured", f"{count_noun(done.transactions, 'transaction')}, {count_noun(done.operations, 'operation')}"),
            ("skipped", f"{done.repeated:,} redelivered, {done.duplicates:,} duplicates{without}"),
            ("quarantined", f"{done.quarantined:,}"),
        ]  # fmt: skip
        if last is not None:
            age = (
                "" if last.lag_seconds is None else f", last one {format_age(last.lag_seconds)} old"
            )
            rows += [
                ("lag", f"{count_noun(last.lag_messages, 'message')}{age}"),
                ("trail", f"file {last.trail_file}, byte {last.trail_offset:,}"),
            ]
        return rows

    def table(self, room: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
        """Return the operation counts of each captured table for the terminal view, highest count first."""
        counts = self._statistics.counts
        ranked = sorted(counts, key=lambda name: (-sum(counts[name].values()), name))
        heads, rows = counts_table({name: counts[name] for name in ranked[:room]})
        return heads, rows, max(0, len(ranked) - room)


@dataclass(frozen=True, slots=True)
class LiveOutput:
    """The outputs of a live capture's progress: lines or JSON, periodic reports, metrics, and a view."""

    source: str
    trail: str
    reports: ReportOptions
    metrics: str | None = None
    as_json: bool = False
    view: bool = False

    @property
    def is_viewed(self) -> bool:
        """Whether a view of the live capture is drawn: it was asked for, and the output is a terminal."""
        return self.view and not self.as_json and is_terminal()


class CaptureCompanion(Protocol):
    """Work that is done between the batches of a live capture, such as an apply."""

    def published(self, new: bool) -> None:
        """Process the operations that the live capture has published.

        ``new`` is True right after a batch. It is False while the capture waits for messages.
        """
        ...

    def text(self) -> str:
        """Return the companion's metrics in Prometheus's format, which follow those of the capture."""
        ...


def print_live(
    live: LiveCapture, output: LiveOutput, companions: Sequence[CaptureCompanion] = ()
) -> CaptureStatistics:
    """Run a live capture until it is stopped, print each batch, and return the totals.

    ``companions``, such as an apply, are called after each batch and while the
    capture waits.
    """
    log_to_stderr(LOG, logging.INFO)
    with ExitStack() as stack:
        watch = _Watch(output, stack, companions)

        def published(new: bool) -> None:
            for companion in companions:
                companion.published(new)

        is_stopped = stack.enter_context(catch_stop_signals())

        # The capture calls this whenever it waits, so it also updates the metrics and the apply.
        def is_asked() -> bool:
            watch.link(live.link)
            watch.tick()
            published(False)
            return is_stopped()

        for report in live.run(is_asked):
            watch.batch(report)
            published(True)
        watch.tick()
    total = watch.statistics
    if output.as_json:
        notes = {"notes": live.notes} if live.notes else {}
        print_line(json.dumps({"total": total.sums(), **notes}, ensure_ascii=False))
    else:
        bad = f", {total.quarantined:,} quarantined" if total.quarantined else ""
        counts = (
            f"{count_noun(total.messages, 'message')}, {count_noun(total.operations, 'operation')}"
        )
        print_line(f"{counts}{bad}")
        for note in live.notes:
            say(f"note: {note}", stderr=True)
    unfinished = live.open_problem
    if unfinished is not None:
        say(f"note: {unfinished}; its messages are kept for the next start", stderr=True)
    return total


def print_repaired(summary: RepairSummary, *, as_json: bool) -> None:
    """Print the result of adding repaired messages to the trail of a live capture."""
    with report_finished():
        if as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
            return
        if summary.counts:
            print_rows(*counts_table(summary.counts))
        say(
            f"{count_noun(summary.messages, 'message')} repaired, {count_noun(summary.operations, 'operation')} added to {summary.target}"
        )
        if summary.skipped:
            say(f"{count_noun(summary.skipped, 'message')} skipped: captured before")
        for note in summary.notes:
            say(f"note: {note}", stderr=True)


class _Watch:
    """Passes the batches of a live capture to the output, the reports, the metrics and the view."""

    def __init__(
        self, output: LiveOutput, stack: ExitStack, companions: Sequence[CaptureCompanion]
    ) -> None:
        self.statistics = CaptureStatistics()
        self._as_json, self._targets = output.as_json, output.reports.targets
        self._reporter = Reporter(output.reports, time.monotonic())
        self._metrics: MetricsOutput[tuple[CaptureStatistics, str]] | None = None
        self._companions = companions
        if output.metrics is not None:
            first = (self.statistics, self._companion_metrics())
            self._metrics = stack.enter_context(
                metrics_output(
                    output.metrics,
                    lambda both: format_metrics(both[0], output.trail) + both[1],
                    first,
                )
            )
        self._view: CaptureView | None = None
        if output.is_viewed:
            self._view = CaptureView(output.source, output.trail)
            stack.enter_context(draw_view(self._view, LOG, APPLY_LOG))

    def _companion_metrics(self) -> str:
        """Return the metrics of the capture's companions."""
        return "".join(companion.text() for companion in self._companions)

    def batch(self, report: BatchReport) -> None:
        """Report the result of a live capture's batch."""
        self.statistics = self.statistics.with_batch(report, time.time())
        # Lines would destroy the view.
        if self._view is None:
            print_line(json.dumps(asdict(report)) if self._as_json else _sentence(report))
        self.tick()

    def link(self, link: ConnectionState) -> None:
        """Update the state of the live capture's broker connection."""
        self.statistics = self.statistics.with_link(link)

    def tick(self) -> None:
        """Update the live capture's metrics and view, and print the periodic report if it is due."""
        if self._metrics is not None:
            self._metrics.show((self.statistics, self._companion_metrics()))
        if self._view is not None:
            self._view.show(self.statistics)
        due = self._reporter.due(self.statistics, time.monotonic())
        if due is None:
            return
        if "report" in self._targets:
            print_line(json.dumps({"jms_report": due.fields()}) if self._as_json else str(due))
        if "log" in self._targets:
            LOG.info("%s", due)


def _sentence(report: BatchReport) -> str:
    lag = "" if report.lag_seconds is None else f", {format_age(report.lag_seconds)} old"
    again = f", {report.repeated:,} redelivered" if report.repeated else ""
    twice = f", {report.duplicates:,} duplicates" if report.duplicates else ""
    bad = f", {report.quarantined:,} quarantined" if report.quarantined else ""
    bad += f", {report.skipped:,} without operations" if report.skipped else ""
    return (
        f"{count_noun(report.messages, 'message')}{lag}, {count_noun(report.transactions, 'transaction')}, "
        f"{count_noun(report.operations, 'operation')}{again}{twice}{bad}; "
        f"trail at file {report.trail_file}, byte {report.trail_offset}"
    )
