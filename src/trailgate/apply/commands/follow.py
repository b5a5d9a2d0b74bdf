"""Run ``trailgate apply --follow``: apply new operations of the trail, wait, and check again.

``FollowLoop`` applies all complete transactions, releases the target so that others can use it,
waits, and checks the trail again. Each batch is printed as a line or as JSON, or shown in a view on
a terminal, and counted in the metrics. SIGTERM and SIGINT end the run after the current batch, or
while it waits for the target.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from trailgate.apply.commands.output import print_batch
from trailgate.apply.jobs.apply import ApplyRun
from trailgate.apply.jobs.metrics import (
    ApplyStatistics,
    format_apply_metrics,
    measure_apply_lag,
    try_measure_lag,
)
from trailgate.apply.jobs.reports import ApplyReport
from trailgate.jobs.metrics import MetricsOutput, metrics_output
from trailgate.jobs.retries import LOG, LOOK, Retries
from trailgate.model.positions import short_position
from trailgate.storage.reading.trail_rest import RestTimer
from trailgate.terminal.durations import format_age, format_duration
from trailgate.terminal.live_view import LiveView, catch_stop_signals, draw_view, is_terminal
from trailgate.terminal.output import log_to_stderr

PAUSE: Final = 1.0  # seconds between checks of a trail that does not grow
REST_LOOK: Final = 10.0  # seconds between checks of the unapplied bytes at the trail's end
MEASURED: Final = 5.0  # seconds between measurements of the lag in bytes
REST_WAITS: Final = 30.0  # seconds after which unchanged bytes at the end are reported
COLUMNS: Final = ("operations", "inserted", "updated", "replaced", "deleted")


class ApplyView(LiveView):
    """The terminal view of ``trailgate apply --follow``. ``show`` adds the result of a batch."""

    def __init__(self, trail: str, target: str) -> None:
        super().__init__(f"{trail} to {target}")
        self._done = ApplyReport()
        self._notices: tuple[str, ...] = ()

    def show(self, report: ApplyReport) -> None:
        """Add the result of a batch to the terminal view of ``trailgate apply --follow``."""
        self._done += report
        if report.notices:
            self._notices = report.notices

    def figures(self, seconds: float) -> list[tuple[str, str]]:
        """Return the figures of apply's terminal view: counts of operations, lag, and position in the trail."""
        done, at = self._done, self._done.position
        rows = [
            ("running", format_duration(seconds)),
            ("operations", self.rate(done.operations, seconds)),
            ("batches", f"{done.batches:,}"),
        ]
        skipped = [
            f"{count:,} {name}"
            for name in ("ignored", "discarded")
            if (count := sum(getattr(one, name) for one in done.tables.values()))
        ]
        if skipped:
            rows.append(("skipped", ", ".join(skipped)))
        rows += [("note", notice) for notice in self._notices]
        if at is not None:
            age = measure_apply_lag(at)
            rows.append(("lag", "unknown" if age is None else f"last one {format_age(age)} old"))
            csn = "" if at.csn is None else f", CSN {at.csn}"
            rows.append(("trail", f"applied up to {short_position(at.position)}{csn}"))
        return rows

    def table(self, room: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
        """Return the operation counts of each target table for apply's terminal view, highest count first.

        At most ``room`` tables are returned, with the number of those that are not shown.
        """
        tables = self._done.tables
        # The most operations first; equal counts in the order of names.
        ranked = sorted(tables, key=lambda name: (-tables[name].operations, name))
        rows = [
            (name, *(getattr(tables[name], column) for column in COLUMNS)) for name in ranked[:room]
        ]
        return ("table", *COLUMNS), rows, max(0, len(ranked) - room)


class UnappliedWatch:
    """Collects notices about operations that ``trailgate apply --follow`` cannot apply.

    Missing first files are reported at once. Unapplied bytes at the end of the trail are reported
    only if they stay unchanged for some time, because a writer may be about to complete them.
    """

    def __init__(self, run: ApplyRun) -> None:
        self._run, self._next = run, time.monotonic()
        self._first = (*run.first_file_notices, *run.csn_notices, *run.pattern_notices)
        self._patience = RestTimer(REST_WAITS)

    def due(self) -> tuple[str, ...]:
        """Return the notices about unapplied operations that are due. Each notice is returned only once."""
        # The notices of the start are returned once.
        notices, self._first = self._first, ()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + REST_LOOK
            rest = self._run.rest
            notices += () if rest is None else self._patience.due(rest)
        return notices


class ApplyWatch:
    """Passes the results of ``trailgate apply --follow`` to the output, the metrics and the terminal view."""

    def __init__(
        self,
        show: Callable[[ApplyReport, ApplyStatistics], None],
        metrics: MetricsOutput[ApplyStatistics] | None,
        run: ApplyRun | None = None,
    ) -> None:
        self.statistics = ApplyStatistics()
        self.run, self._show, self._metrics = run, show, metrics
        self._measured = 0.0

    def batch(self, report: ApplyReport) -> None:
        """Show the result of a batch of ``trailgate apply --follow``, and update the metrics.

        A report may also consist of notices only.
        """
        if report.batches:
            self.statistics = self.statistics.with_batch(report)
        self._show(report, self.statistics)
        self.tick(measure=True)

    def tick(self, *, measure: bool = False) -> None:
        """Update the metrics of ``trailgate apply --follow`` with the state of the target and the lag.

        The lag is measured if ``measure`` is set, if the target has become available or
        unavailable, and otherwise every few seconds.
        """
        if self._metrics is None:
            return
        if self.run is not None:
            was_up = self.statistics.up
            self.statistics = self.statistics.with_target(self.run.retries)
            # A target that went up or down is reported at once.
            measure |= self.statistics.up != was_up
            if measure or time.monotonic() - self._measured > MEASURED:
                self.statistics = self.statistics.with_lag(
                    try_measure_lag(self.run.lag_bytes), self.run.position
                )
                self._measured = time.monotonic()
        self._metrics.show(self.statistics)

    def record_failure(self) -> None:
        """Record in the metrics that ``trailgate apply --follow`` ended with an error."""
        self.statistics = self.statistics.with_failure()
        if self._metrics is not None:
            self._metrics.show(self.statistics)


class FollowLoop:
    """The loop of ``trailgate apply --follow``, which applies a trail as it grows.

    Results are printed as JSON with ``as_json``. ``metrics`` is where metrics are offered: a port
    or a .prom file. The trail is checked every ``seconds``.
    """

    def __init__(self, *, as_json: bool, metrics: str | None, seconds: float | None) -> None:
        self._as_json, self._metrics_at = as_json, metrics
        self._seconds = PAUSE if seconds is None else seconds

    def run(
        self,
        opened: Callable[[Retries], ApplyRun],
        labels: dict[str, str],
        patience: float | None,
    ) -> tuple[ApplyStatistics, bool]:
        """Apply new operations of a trail until SIGTERM or SIGINT.

        ``opened`` opens the apply run; it is called with the policy of retries, which end after
        ``patience`` seconds, or never if that is None. ``labels`` are those of the metrics.

        Returns the statistics, and whether the trail lacks operations
        (``ApplyRun.lacks_operations``).
        """
        log_to_stderr(LOG)
        with ExitStack() as stack:
            is_asked = stack.enter_context(catch_stop_signals())
            metrics = None
            if self._metrics_at is not None:
                text = partial(format_apply_metrics, labels=labels)
                metrics = stack.enter_context(
                    metrics_output(self._metrics_at, text, ApplyStatistics())
                )
            watch = ApplyWatch(self._shown(stack, labels), metrics)

            # Retries call this while they wait for the target, which keeps the metrics up to date.
            def stopped() -> bool:
                watch.tick()
                return is_asked()

            retries = build_target_retries(patience, lasting=True, stopped=stopped)
            try:
                run = watch.run = stack.enter_context(opened(retries))
                self._follow(run, watch, stopped)
                # Measure once more, so that the final metrics are those of the end.
                watch.tick(measure=True)
                lacks_operations = run.lacks_operations
            except BaseException:
                watch.record_failure()
                raise
            return watch.statistics.with_target(run.retries), lacks_operations

    def _shown(
        self, stack: ExitStack, labels: dict[str, str]
    ) -> Callable[[ApplyReport, ApplyStatistics], None]:
        """Return the function that shows the result of a batch: as JSON, as a line, or in a view on a terminal."""
        if self._as_json or not is_terminal():
            return lambda report, done: print_batch(report, done.faults, as_json=self._as_json)
        drawn = ApplyView(labels["trail"], labels["target"])
        stack.enter_context(draw_view(drawn, LOG))
        return lambda report, _: drawn.show(report)

    def _follow(self, run: ApplyRun, watch: ApplyWatch, stopped: Callable[[], bool]) -> None:
        """Apply new batches, and check the trail for more every ``seconds``.

        If applying takes longer than that, the next check follows at once.
        """
        rest = UnappliedWatch(run)
        while not stopped():
            due = time.monotonic() + self._seconds
            for report in run.batches():
                watch.batch(report)
                if stopped():
                    return
            if notices := rest.due():
                watch.batch(ApplyReport(notices=notices))
            # Close the target until the next check: an open DuckDB file, for example, is locked.
            run.release()
            watch.tick(measure=True)
            while not stopped() and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, LOOK))


def build_target_retries(
    patience: float | None,
    *,
    lasting: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Retries:
    """Build the retries with which a command of apply waits for its target after faults.

    Retries end after ``patience`` seconds. If that is None, a ``lasting`` run retries without end.
    """
    if patience is None:
        return Retries(lasting=lasting, stopped=stopped)
    return Retries(patience, stopped=stopped)
