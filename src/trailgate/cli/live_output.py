"""What a live capture prints: a line a batch, as JSON or in words, and how it is stopped."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Final

from trailgate.cli.capture_output import counts_table, many
from trailgate.cli.live_view import LiveView, viewed
from trailgate.cli.output import console, done_already, quiet_pipe, say
from trailgate.jobs.receive.feeds.feed import Link
from trailgate.jobs.receive.options import BatchReport
from trailgate.jobs.receive.repairing import RepairSummary
from trailgate.jobs.receive.run import LiveCapture
from trailgate.jobs.receive.watching.metrics_output import MetricsOutput, metrics_output
from trailgate.jobs.receive.watching.reports import Reporter, ReportOptions
from trailgate.jobs.receive.watching.statistics import Statistics

LOG: Final = logging.getLogger("trailgate.brokers")


@dataclass(frozen=True, slots=True)
class LiveOutput:
    """What a live capture prints and gives away: JSON or words, the adapter's reports, metrics, and a view where that can be."""

    source: str
    trail: str
    reports: ReportOptions
    metrics: str | None = None
    as_json: bool = False
    view: bool = False

    @property
    def is_viewed(self) -> bool:
        """Return whether there is a view: where it is asked for, and the output is a terminal."""
        plain = self.as_json or os.environ.get("TERM") == "dumb"
        return self.view and sys.stdout.isatty() and not plain


def print_live(live: LiveCapture, output: LiveOutput) -> Statistics:
    """Run a live capture until it is stopped, and print what each batch did; return what all did."""
    _log_brokers()
    with ExitStack() as held:
        watch = _Watch(output, held)
        stop = held.enter_context(stoppable())

        def is_asked() -> bool:
            watch.link(live.link)
            watch.tick()
            return stop.is_asked()

        for report in live.run(is_asked):
            watch.batch(report)
        watch.tick()
    total = watch.statistics
    if not output.as_json:
        bad = f", {total.quarantined:,} quarantined" if total.quarantined else ""
        print(f"{total.messages:,} messages, {total.operations:,} operations{bad}", flush=True)
    unfinished = live.unfinished
    if unfinished is not None:
        print(f"note: {unfinished}; its messages are kept for the next start", file=sys.stderr)
    return total


def print_repaired(summary: RepairSummary, *, as_json: bool) -> None:
    """Print what a capture of repaired messages did."""
    with done_already():
        if as_json:
            print(json.dumps(asdict(summary), ensure_ascii=False))
            return
        if summary.counts:
            console().print(counts_table(summary.counts))
        say(
            f"{many(summary.messages, 'message')} repaired, {many(summary.operations, 'operation')} added to {summary.target}"
        )
        if summary.skipped:
            say(f"{many(summary.skipped, 'message')} skipped: captured before")


class _Watch:
    """Hands on what batches did: to the output, the reports, the metrics and the view."""

    def __init__(self, output: LiveOutput, held: ExitStack) -> None:
        self.statistics = Statistics()
        self._as_json, self._targets = output.as_json, output.reports.targets
        self._reporter = Reporter(output.reports, time.monotonic())
        self._metrics: MetricsOutput | None = None
        if output.metrics is not None:
            self._metrics = held.enter_context(metrics_output(output.metrics, output.trail))
        self._view: LiveView | None = None
        if output.is_viewed:
            self._view = held.enter_context(viewed(output.source, output.trail, LOG))

    def batch(self, report: BatchReport) -> None:
        """Hand on what a batch did."""
        self.statistics = self.statistics.with_batch(report, time.time())
        if self._view is None:
            self._print(json.dumps(asdict(report)) if self._as_json else _sentence(report))
        self.tick()

    def link(self, link: Link) -> None:
        """Note how the connection to the broker is."""
        self.statistics = self.statistics.with_link(link)

    def tick(self) -> None:
        """Hand on what was done so far."""
        if self._metrics is not None:
            self._metrics.show(self.statistics)
        if self._view is not None:
            self._view.show(self.statistics)
        due = self._reporter.due(self.statistics, time.monotonic())
        if due is None:
            return
        if "report" in self._targets:
            self._print(json.dumps({"jms_report": due.fields()}) if self._as_json else str(due))
        if "log" in self._targets:
            LOG.info("%s", due)

    def _print(self, line: str) -> None:
        with quiet_pipe():
            print(line, flush=True)


def _sentence(report: BatchReport) -> str:
    lag = "" if report.lag_seconds is None else f", {report.lag_seconds:.1f} s old"
    again = f", {report.repeated:,} given again" if report.repeated else ""
    twice = f", {report.duplicates:,} sent again" if report.duplicates else ""
    bad = f", {report.quarantined:,} quarantined" if report.quarantined else ""
    return (
        f"{report.messages:,} messages{lag}, {report.transactions:,} transactions, {report.operations:,} operations{again}{twice}{bad}; "
        f"trail at file {report.trail_file}, byte {report.trail_offset}"
    )


class Stop:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self._asked = False

    def ask(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Ask to stop after the batch that is worked on."""
        self._asked = True

    def is_asked(self) -> bool:
        """Return whether to stop."""
        return self._asked


@contextmanager
def stoppable() -> Iterator[Stop]:
    """Let SIGTERM and SIGINT ask for a stop; a second SIGINT interrupts."""
    stop = Stop()
    interrupted = signal.getsignal(signal.SIGINT)

    def first(number: int, frame: FrameType | None) -> None:
        stop.ask(number, frame)
        signal.signal(signal.SIGINT, interrupted)

    before = {
        signal.SIGTERM: signal.signal(signal.SIGTERM, stop.ask),
        signal.SIGINT: signal.signal(signal.SIGINT, first),
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log_brokers() -> None:
    """Let the log of connections, made and lost, reach stderr."""
    if not LOG.handlers:
        LOG.setLevel(logging.INFO)
        LOG.addHandler(logging.StreamHandler())
        LOG.propagate = False
