"""Draw a view of a run on the terminal, show log messages in it, and stop the run on a signal.

SIGTERM and SIGINT end a run after its current batch.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from trailgate.terminal.layout import row_lines
from trailgate.terminal.output import make_console, printable, terminal_width

DRAWS: Final = 4  # per second
RATE_SECONDS: Final = 5.0  # the period of the current rate
LINES: Final = 15  # lines of the view besides the rows of its table, if nothing is folded
WARNING: Final = "yellow"
ERROR: Final = "red"


class LiveView(ABC):
    """A view of a running command on the terminal: named figures, a table, and the last log message."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = time.monotonic()
        self._seen: deque[tuple[float, int]] = deque([(self._begun, 0)])
        self._note = ("", "dim")

    @abstractmethod
    def figures(self, seconds: float) -> list[tuple[str, str]]:
        """Return the named figures of the view. ``seconds`` is the time since the start."""

    @abstractmethod
    def table(self, room: int) -> tuple[tuple[str, ...], list[tuple[Any, ...]], int]:
        """Return headings and at most ``room`` rows of the view's table, and the number of rows omitted."""

    def note(self, text: str, style: str) -> None:
        """Set the message in the last line of the view."""
        self._note = (f"{time.strftime('%H:%M:%S')} {text}", style)

    def drawn(self) -> Any:
        """Render the current state of the view."""
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
        """Format a count of the view with its current rate (over the last seconds) and its average rate."""
        now, seen = time.monotonic(), self._seen
        seen.append((now, count))
        # Keep one sample that is older than RATE_SECONDS, so that the rate covers at least that
        # time.
        while len(seen) > 2 and now - seen[1][0] > RATE_SECONDS:
            seen.popleft()
        (begun, before), _ = seen[0], seen[-1]
        present = (count - before) / max(now - begun, 0.001)
        return f"{count:,}, {present:,.0f}/s now, {count / max(seconds, 0.001):,.0f}/s in all"


class _Notes(logging.Handler):
    """A log handler that shows the last message in a view."""

    def __init__(self, view: LiveView) -> None:
        super().__init__()
        self._view = view

    def emit(self, record: logging.LogRecord) -> None:
        style = "dim"
        if record.levelno >= logging.WARNING:
            style = ERROR if record.levelno >= logging.ERROR else WARNING
        self._view.note(record.getMessage(), style)


@contextmanager
def draw_view(view: LiveView, *logs: logging.Logger) -> Iterator[None]:
    """Draw a view on the terminal until the block ends, and redirect the logs to it."""
    from rich.live import Live  # noqa: PLC0415  only a terminal needs it

    screen = make_console()

    def drawn() -> Any:
        screen.width = terminal_width()  # the terminal's size may have changed
        return view.drawn()

    # The view owns the terminal, so log messages are shown in it instead of printed.
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


def is_terminal() -> bool:
    """Return whether the output is a terminal on which a view can be drawn."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def catch_stop_signals() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether SIGTERM or SIGINT has asked to stop.

    The run stops after the current batch. A second SIGINT interrupts it at once.
    """
    asked = False
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal asked
        asked = True
        # The next Ctrl-C interrupts as usual, in case the run does not come to a batch's end.
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, before[signal.SIGINT])

    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
