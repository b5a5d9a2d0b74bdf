"""What a live capture prints, and how it is stopped.

It prints a line a batch, as JSON or in words, or, on a terminal that follows it, a view that is drawn again and again: rate, lag, operations by table and the last note. SIGTERM and SIGINT end it
after the batch that is worked on.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, Final, Protocol

from trailgate.cli.capture_output import age_text, counts_table, many
from trailgate.jobs.metrics import MetricsOutput, metrics_output
from trailgate.jobs.receive.feed import Link
from trailgate.jobs.receive.metrics import Reporter, ReportOptions, Statistics, as_text
from trailgate.jobs.receive.run import BatchReport, LiveCapture, RepairSummary
from trailgate.terminal.layout import print_rows, row_lines
from trailgate.terminal.output import (
    console,
    done_already,
    printable,
    quiet_pipe,
    say,
    terminal_width,
)

DRAWS: Final = 4  # a second
RATE_SECONDS: Final = 5.0  # that the present rate is of
LINES: Final = 15  # of the view without the rows of tables, where nothing is folded
WARNING: Final = "yellow"
ERROR: Final = "red"


class LiveView(ABC):
    """What is drawn of a run: figures by name, and a table; a log's notes reach it by ``note``."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque([(self._begun, 0)])
        self._note = ("", "dim")

    @abstractmethod
    def figures(self, seconds: float) -> list[tuple[str, str]]:
        """Return the figures after the seconds since the begin."""

    @abstractmethod
    def table(self, room: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
        """Return the headings and rows of the table, as many rows as there is room for, and how many more there are."""

    def note(self, text: str, style: str) -> None:
        """Note what was reported last."""
        self._note = (f"{time.strftime('%H:%M:%S')} {text}", style)

    def drawn(self) -> Any:
        """Return the view as it is now."""
        from rich.console import Group  # noqa: PLC0415  only a terminal needs it
        from rich.text import Text  # noqa: PLC0415  as above

        text, style = self._note
        rows = self.figures(time.monotonic() - self._begun)
        width = max(len(name) for name, _ in rows)
        figures = (Text.assemble((f"{name:<{width}}  ", "dim"), value) for name, value in rows)
        parts = [Text(printable(self._title), "bold", overflow="fold"), *figures]
        heads, rows_of_table, more = self.table(max(1, shutil.get_terminal_size().lines - LINES))
        if rows_of_table:
            heading, lines = row_lines(heads, rows_of_table)
            if more:
                lines.append(f"... {more:,} more tables")
            folded = (f"\n{line}" for line in lines)
            parts += [Text(""), Text.assemble(("\n".join(heading), "bold"), *folded)]
        return Group(*parts, Text(""), Text(printable(text), style, overflow="fold"))

    def rate(self, count: int, seconds: float) -> str:
        """Return a count, how many that is a second of the last seconds, and of all seconds."""
        now, seen = time.monotonic(), self._seen
        seen.append((now, count))
        while len(seen) > 2 and now - seen[1][0] > RATE_SECONDS:
            seen.popleft()
        (begun, before), _ = seen[0], seen[-1]
        present = (count - before) / max(now - begun, 0.001)
        return f"{count:,}, {present:,.0f}/s now, {count / max(seconds, 0.001):,.0f}/s in all"


class CaptureView(LiveView):
    """The view of a live capture: ``show`` gives it the present state."""

    def __init__(self, source: str, trail: str) -> None:
        super().__init__(f"{source} to {trail}")
        self._statistics = Statistics()

    def show(self, statistics: Statistics) -> None:
        """Note what was done so far."""
        self._statistics = statistics

    def figures(self, seconds: float) -> list[tuple[str, str]]:
        """Return messages and what became of them, the lag, and the place in the trail."""
        done, last = self._statistics, self._statistics.last
        rows = [
            ("running", duration(seconds)),
            ("messages", self.rate(done.messages, seconds)),
            ("captured", f"{many(done.transactions, 'transaction')}, {many(done.operations, 'operation')}"),
            ("left out", f"{done.repeated:,} given again, {done.duplicates:,} sent again"),
            ("quarantined", f"{done.quarantined:,}"),
        ]  # fmt: skip
        if last is not None:
            age = "" if last.lag_seconds is None else f", last one {age_text(last.lag_seconds)} old"
            rows += [
                ("lag", f"{many(last.lag_messages, 'message')}{age}"),
                ("trail", f"file {last.trail_file}, byte {last.trail_offset:,}"),
            ]
        return rows

    def table(self, room: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
        """Return operations by table, those with the most first."""
        counts = self._statistics.counts
        ranked = sorted(counts, key=lambda name: (-sum(counts[name].values()), name))
        heads, rows = counts_table({name: counts[name] for name in ranked[:room]})
        return heads, rows, max(0, len(ranked) - room)


class _Stderr(logging.Handler):
    """Prints a log's records to stderr as it is then."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # closed or full
            print(self.format(record), file=sys.stderr, flush=True)


class _Notes(logging.Handler):
    """Gives a log's records to a view."""

    def __init__(self, view: LiveView) -> None:
        super().__init__()
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        style = "dim"
        if record.levelno >= logging.WARNING:
            style = ERROR if record.levelno >= logging.ERROR else WARNING
        self._view.note(record.getMessage(), style)


@contextmanager
def drawn_view(view: LiveView, *logs: logging.Logger) -> Iterator[None]:
    """Draw a view on the terminal until the end; it gets what is logged meanwhile."""
    from rich.live import Live  # noqa: PLC0415  only a terminal needs it

    screen = console()

    def drawn() -> Any:
        screen.width = terminal_width()  # the terminal's size may have changed
        return view.drawn()

    handler, before = _Notes(view), [log.handlers[:] for log in logs]
    for log in logs:
        log.handlers[:] = [handler]
    try:
        with Live(
            get_renderable=drawn, console=screen, refresh_per_second=DRAWS, vertical_overflow="crop"
        ):
            yield
    finally:
        for log, handlers in zip(logs, before, strict=True):
            log.handlers[:] = handlers


def duration(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


LOG: Final = logging.getLogger("trailgate.brokers")
APPLY_LOG: Final = logging.getLogger("trailgate.apply")


def is_terminal() -> bool:
    """Return whether the output is a terminal on which a view can be drawn."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


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
        return self.view and not self.as_json and is_terminal()


class Beside(Protocol):
    """What runs beside a live capture."""

    def published(self, new: bool) -> None:
        """Work on what the capture has published. Called after each batch and, with False, between them."""
        ...

    def text(self) -> str:
        """Return its metrics."""
        ...


def print_live(live: LiveCapture, output: LiveOutput, beside: Beside | None = None) -> Statistics:
    """Run a live capture until it is stopped, and print what each batch did; return what all did."""
    log_to_stderr(LOG, logging.INFO)
    with ExitStack() as held:
        watch = _Watch(output, held, beside)

        def published(new: bool) -> None:
            if beside is not None:
                beside.published(new)

        is_stopped = held.enter_context(stoppable())

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
        print(json.dumps({"total": total.sums()}), flush=True)
    else:
        bad = f", {total.quarantined:,} quarantined" if total.quarantined else ""
        counts = f"{many(total.messages, 'message')}, {many(total.operations, 'operation')}"
        print(f"{counts}{bad}", flush=True)
    unfinished = live.open_problem
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
            print_rows(*counts_table(summary.counts))
        say(
            f"{many(summary.messages, 'message')} repaired, {many(summary.operations, 'operation')} added to {summary.target}"
        )
        if summary.skipped:
            say(f"{many(summary.skipped, 'message')} skipped: captured before")


class _Watch:
    """Hands on what batches did: to the output, the reports, the metrics and the view."""

    def __init__(self, output: LiveOutput, held: ExitStack, beside: Beside | None) -> None:
        self.statistics = Statistics()
        self._as_json, self._targets = output.as_json, output.reports.targets
        self._reporter = Reporter(output.reports, time.monotonic())
        self._metrics: MetricsOutput[tuple[Statistics, str]] | None = None
        self._beside = beside
        if output.metrics is not None:
            first = (self.statistics, self._more())
            self._metrics = held.enter_context(
                metrics_output(
                    output.metrics, lambda both: as_text(both[0], output.trail) + both[1], first
                )
            )
        self._view: CaptureView | None = None
        if output.is_viewed:
            self._view = CaptureView(output.source, output.trail)
            held.enter_context(drawn_view(self._view, LOG, APPLY_LOG))

    def _more(self) -> str:
        """Return the metrics of what runs beside the capture."""
        return "" if self._beside is None else self._beside.text()

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
            self._metrics.show((self.statistics, self._more()))
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
    lag = "" if report.lag_seconds is None else f", {age_text(report.lag_seconds)} old"
    again = f", {report.repeated:,} given again" if report.repeated else ""
    twice = f", {report.duplicates:,} sent again" if report.duplicates else ""
    bad = f", {report.quarantined:,} quarantined" if report.quarantined else ""
    return (
        f"{many(report.messages, 'message')}{lag}, {many(report.transactions, 'transaction')}, "
        f"{many(report.operations, 'operation')}{again}{twice}{bad}; "
        f"trail at file {report.trail_file}, byte {report.trail_offset}"
    )


@contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Yield whether to stop: SIGTERM and SIGINT ask for it, after the batch that is worked on. A second SIGINT interrupts."""
    asked = False
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal asked
        asked = True
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, before[signal.SIGINT])

    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr(log: logging.Logger, level: int = logging.WARNING) -> None:
    """Let a log, such as that of connections made and lost, reach stderr."""
    if not log.handlers:
        log.setLevel(level)
        log.addHandler(_Stderr())
        log.propagate = False
