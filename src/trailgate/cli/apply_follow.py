"""How ``trailgate apply --follow`` runs: what it prints and measures, and what it does while the target does not work.

A run prints a line a batch, as JSON or in words, or, on a terminal, a view that is drawn again and again. Between two looks at the trail it lets others use the target. SIGTERM and SIGINT end it after the batch
that is worked on, or while it waits for the target.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from trailgate.cli.apply_output import as_values, print_batch, print_total
from trailgate.columnar.digits import short_position
from trailgate.errors import TrailgateError, mask_logins
from trailgate.jobs.apply import ApplyRun
from trailgate.jobs.apply_metrics import ApplyStatistics, age_of, as_text
from trailgate.jobs.apply_retries import LOG, LOOK, Retries
from trailgate.jobs.apply_tables import ApplyReport
from trailgate.jobs.metrics import MetricsOutput, metrics_output
from trailgate.storage.reading.trail_rest import Patience
from trailgate.terminal.counts import age_text
from trailgate.terminal.live_view import (
    LiveView,
    drawn_view,
    duration,
    is_terminal,
    log_to_stderr,
    stoppable,
)
from trailgate.terminal.output import quiet_pipe

PAUSE: Final = 1.0  # seconds between looks at a trail that does not grow
REST_LOOK: Final = 10.0  # seconds between looks at what is not applied of the trail's end
MEASURED: Final = 5.0  # seconds between looks at how much of the trail is not applied
REST_WAITS: Final = 30.0  # seconds after which bytes that do not change are named
COLUMNS: Final = ("operations", "inserted", "updated", "replaced", "deleted")


class ApplyView(LiveView):
    """The view of a run that follows a trail: ``show`` gives it what each batch did."""

    def __init__(self, trail: str, target: str) -> None:
        super().__init__(f"{trail} to {target}")
        self._done = ApplyReport()
        self._notices: tuple[str, ...] = ()

    def show(self, report: ApplyReport) -> None:
        """Note what a batch did."""
        self._done += report
        if report.notices:
            self._notices = report.notices

    def figures(self, seconds: float) -> list[tuple[str, str]]:
        """Return operations and what became of them, the lag, and the place in the trail."""
        done, at = self._done, self._done.position
        rows = [
            ("running", duration(seconds)),
            ("operations", self.rate(done.operations, seconds)),
            ("batches", f"{done.batches:,}"),
        ]
        left_out = [
            f"{count:,} {name}"
            for name in ("ignored", "discarded")
            if (count := sum(getattr(one, name) for one in done.tables.values()))
        ]
        if left_out:
            rows.append(("left out", ", ".join(left_out)))
        rows += [("note", notice) for notice in self._notices]
        if at is not None:
            age = age_of(at)
            rows.append(("lag", "unknown" if age is None else f"last one {age_text(age)} old"))
            csn = "" if at.csn is None else f", CSN {at.csn}"
            rows.append(("trail", f"applied up to {short_position(at.position)}{csn}"))
        return rows

    def table(self, room: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
        """Return what was done to each target table, those with the most operations first."""
        tables = self._done.tables
        ranked = sorted(tables, key=lambda name: (-tables[name].operations, name))
        rows = [
            (name, *(getattr(tables[name], column) for column in COLUMNS)) for name in ranked[:room]
        ]
        return ("table", *COLUMNS), rows, max(0, len(ranked) - room)


class RestWatch:
    """Names what a run that follows a trail does not apply: missing first files at once, and bytes at the end if they do not change for some time."""

    def __init__(self, run: ApplyRun) -> None:
        self._run, self._next = run, time.monotonic()
        self._first = (*run.first_file_notices, *run.pattern_notices)
        self._patience = Patience(REST_WAITS)

    def due(self) -> tuple[str, ...]:
        """Return the notices that are due, each once."""
        found, self._first = self._first, ()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + REST_LOOK
            rest = self._run.rest
            found += () if rest is None else self._patience.due(rest)
        return found


class ApplyWatch:
    """Passes on what the batches of a run did: to the output, the metrics and the view."""

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
        """Pass on what a batch did, or the notices of a report without one."""
        if report.batches:
            self.statistics = self.statistics.with_batch(report)
        self._show(report, self.statistics)
        self.tick(measure=True)

    def tick(self, *, measure: bool = False) -> None:
        """Pass on how the target and the trail are now. What is not applied is measured if asked for, and else every few seconds."""
        if self._metrics is None:
            return
        if self.run is not None:
            was_up = self.statistics.up
            self.statistics = self.statistics.with_target(self.run.retries)
            measure |= self.statistics.up != was_up
            if measure or time.monotonic() - self._measured > MEASURED:
                self.statistics = self.statistics.with_lag(lag_bytes(self.run), self.run.position)
                self._measured = time.monotonic()
        self._metrics.show(self.statistics)

    def failed(self) -> None:
        """State in the metrics that the run ended with an error."""
        self.statistics = self.statistics.failed()
        if self._metrics is not None:
            self._metrics.show(self.statistics)


def lag_bytes(run: ApplyRun) -> int | None:
    """Return the number of bytes of the trail that are not applied, or None if the trail cannot be read now."""
    try:
        return run.lag_bytes()
    except (TrailgateError, OSError):
        return None


def labels_of(trail: str, target: str, group: str) -> dict[str, str]:
    """Return the labels of metrics."""
    return {"trail": trail, "target": mask_logins(target), "group": group}


class Following:
    """A run that follows a trail: ``opened`` is called with how faults are waited for, and returns it."""

    def __init__(self, *, as_json: bool, metrics: str | None, seconds: float | None) -> None:
        self._as_json, self._metrics_at = as_json, metrics
        self._seconds = PAUSE if seconds is None else seconds

    def run(
        self,
        opened: Callable[[Retries], ApplyRun],
        labels: dict[str, str],
        patience: float | None,
    ) -> tuple[ApplyStatistics, bool]:
        """Apply what a trail grows by until SIGTERM or SIGINT; return what was done, and whether the trail lacks something."""
        log_to_stderr(LOG)
        with ExitStack() as held:
            is_asked = held.enter_context(stoppable())
            metrics = None
            if self._metrics_at is not None:
                text = partial(as_text, labels=labels)
                metrics = held.enter_context(
                    metrics_output(self._metrics_at, text, ApplyStatistics())
                )
            watch = ApplyWatch(self._shown(held, labels), metrics)

            def stopped() -> bool:
                watch.tick()
                return is_asked()

            retries = retries_of(patience, lasting=True, stopped=stopped)
            try:
                run = watch.run = held.enter_context(opened(retries))
                self._follow(run, watch, stopped)
                watch.tick(measure=True)
                lacks_operations = run.lacks_operations
            except BaseException:
                watch.failed()
                raise
            return watch.statistics.with_target(run.retries), lacks_operations

    def _shown(
        self, held: ExitStack, labels: dict[str, str]
    ) -> Callable[[ApplyReport, ApplyStatistics], None]:
        """Return what shows a batch."""
        if self._as_json or not is_terminal():
            return lambda report, done: print_batch(report, done.faults, as_json=self._as_json)
        drawn = ApplyView(labels["trail"], labels["target"])
        held.enter_context(drawn_view(drawn, LOG))
        return lambda report, _: drawn.show(report)

    def _follow(self, run: ApplyRun, watch: ApplyWatch, stopped: Callable[[], bool]) -> None:
        """Look for what the trail has grown by, ``seconds`` after the last look or as soon as its batches are applied."""
        rest = RestWatch(run)
        while not stopped():
            due = time.monotonic() + self._seconds
            for report in run.batches():
                watch.batch(report)
                if stopped():
                    return
            if notices := rest.due():
                watch.batch(ApplyReport(notices=notices))
            run.release()
            watch.tick(measure=True)
            while not stopped() and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, LOOK))


def print_followed(statistics: ApplyStatistics, target: str, *, as_json: bool) -> None:
    """Print what a run that followed a trail did in all."""
    with quiet_pipe():
        if as_json:
            total = as_values(statistics.done, statistics.faults)
            print(json.dumps({"total": total}, ensure_ascii=False), flush=True)
        else:
            print_total(statistics.done, statistics.faults, target)


def retries_of(
    patience: float | None,
    *,
    lasting: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Retries:
    """Return how faults of the target are waited for: without end in a ``lasting`` run whose ``patience`` is not stated."""
    if patience is None:
        return Retries(lasting=lasting, stopped=stopped)
    return Retries(patience, stopped=stopped)
