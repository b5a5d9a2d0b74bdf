"""The view of a live capture on a terminal: rate, lag, operations by table and the last note, drawn again and again."""

from __future__ import annotations

import logging
import shutil
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from trailgate.cli.capture_output import counts_table
from trailgate.cli.output import as_cells, console, plain_table, printable, terminal_width
from trailgate.jobs.receive.watching.statistics import Statistics

DRAWS: Final = 4  # a second
RATE_SECONDS: Final = 5.0  # that the present rate is of
LINES: Final = 15  # of the view without the rows of tables, where nothing is folded
WARNING: Final = "yellow"
ERROR: Final = "red"


class LiveView:
    """What is drawn: ``show`` gives it the present state, a log's notes reach it by ``note``."""

    def __init__(self, source: str, trail: str) -> None:
        self._title = f"{source} to {trail}"
        self._begun = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque([(self._begun, 0)])
        self._statistics = Statistics()
        self._note = ("", "dim")

    def show(self, statistics: Statistics) -> None:
        """Note what was done so far."""
        self._statistics = statistics

    def note(self, text: str, style: str) -> None:
        """Note what was reported last."""
        self._note = (f"{time.strftime('%H:%M:%S')} {text}", style)

    def drawn(self) -> Any:
        """Return the view as it is now."""
        from rich.console import Group  # noqa: PLC0415  only a terminal needs it
        from rich.text import Text  # noqa: PLC0415  as above

        text, style = self._note
        parts = [Text(printable(self._title), "bold", overflow="fold"), self._figures()]
        if self._statistics.counts:
            parts += [Text(""), self._tables()]
        return Group(*parts, Text(""), Text(printable(text), style, overflow="fold"))

    def _figures(self) -> Any:
        done, last = self._statistics, self._statistics.last
        seconds = time.monotonic() - self._begun
        table = plain_table(show_header=False)
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        rows = [
            ("running", _duration(seconds)),
            ("messages", f"{done.messages:,}, {self._rate():,.0f}/s now, {done.messages / max(seconds, 0.001):,.0f}/s in all"),
            ("captured", f"{done.transactions:,} transactions, {done.operations:,} operations"),
            ("left out", f"{done.repeated:,} given again, {done.duplicates:,} sent again"),
            ("quarantined", f"{done.quarantined:,}"),
        ]  # fmt: skip
        if last is not None:
            age = "" if last.lag_seconds is None else f", last one {last.lag_seconds:,.1f} s old"
            rows += [
                ("lag", f"{last.lag_messages:,} messages{age}"),
                ("trail", f"file {last.trail_file}, byte {last.trail_offset:,}"),
            ]
        for name, value in rows:
            table.add_row(*as_cells(name, value))
        return table

    def _tables(self) -> Any:
        """Return operations by table, those with the most first, as many as fit."""
        counts = self._statistics.counts
        ranked = sorted(counts, key=lambda name: (-sum(counts[name].values()), name))
        room = max(1, shutil.get_terminal_size().lines - LINES)
        table = counts_table({name: counts[name] for name in ranked[:room]})
        if len(ranked) > room:
            table.add_row(*as_cells(f"... {len(ranked) - room:,} more tables"))
        return table

    def _rate(self) -> float:
        """Return messages a second of the last seconds."""
        now, seen = time.monotonic(), self._seen
        seen.append((now, self._statistics.messages))
        while len(seen) > 2 and now - seen[1][0] > RATE_SECONDS:
            seen.popleft()
        (begun, before), (_, count) = seen[0], seen[-1]
        return (count - before) / max(now - begun, 0.001)


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
def viewed(source: str, trail: str, log: logging.Logger) -> Iterator[LiveView]:
    """Yield a view that is drawn on the terminal until the end, and gets what is logged meanwhile."""
    from rich.live import Live  # noqa: PLC0415  only a terminal needs it

    view, screen = LiveView(source, trail), console()

    def drawn() -> Any:
        screen.width = terminal_width()  # the terminal's size may have changed
        return view.drawn()

    handler, before = _Notes(view), log.handlers[:]
    log.handlers[:] = [handler]
    try:
        with Live(
            get_renderable=drawn, console=screen, refresh_per_second=DRAWS, vertical_overflow="crop"
        ):
            yield view
    finally:
        log.handlers[:] = before


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
