"""What ``trailgate apply --follow`` prints: a line a batch, as JSON or in words, or, on a terminal, a view that is drawn again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from trailgate.cli.live import LiveView, drawn_view, duration, is_terminal, stoppable
from trailgate.columnar.digits import short_position
from trailgate.jobs.apply_tables import ApplyReport
from trailgate.storage.reading.trail_rest import Patience

if TYPE_CHECKING:
    from trailgate.jobs.apply import ApplyRun

LOG: Final = logging.getLogger("trailgate.apply")
LOOK: Final = 0.2  # seconds between looks at whether to stop
REST_LOOK: Final = 10.0  # seconds between looks at what is not applied of the trail's end
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
            age = lag_seconds(done)
            rows.append(("lag", "unknown" if age is None else f"last one {age:,.1f} s old"))
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


def lag_seconds(report: ApplyReport) -> float | None:
    """Return how many seconds ago the last operation was committed at its source."""
    at = report.position
    return None if at is None or at.op_ts is None else round(time.time() - at.op_ts / 1e6, 3)


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


def follow(
    run: ApplyRun,
    names: tuple[str, str],
    show: Callable[[ApplyReport], None],
    *,
    view: bool,
    seconds: float,
) -> None:
    """Apply what a trail grows by, until SIGTERM or SIGINT, which take effect between batches.

    ``names`` are those of the trail and the target. ``show`` gets the report of each batch, unless there is a ``view``. A look at the trail is made ``seconds`` after the one
    before, or as soon as that one's batches are applied.
    """
    with ExitStack() as held:
        stopped = held.enter_context(stoppable())
        if view and is_terminal():
            drawn = ApplyView(*names)
            held.enter_context(drawn_view(drawn, LOG))
            show = drawn.show
        rest = RestWatch(run)
        while not stopped():
            due = time.monotonic() + seconds
            for report in run.batches():
                show(report)
                if stopped():
                    return
            if notices := rest.due():
                show(ApplyReport(notices=notices))
            while not stopped() and (left := due - time.monotonic()) > 0:
                time.sleep(min(left, LOOK))
