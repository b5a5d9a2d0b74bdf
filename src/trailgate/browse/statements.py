"""Run the SQL statements of the pages, one at a time, and make sure that each one ends.

A statement is cancelled after a time limit, by a button on the page, if its client disconnects, and
when the server ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Timer
from time import monotonic
from typing import Final, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from trailgate.errors import OptionError
from trailgate.sql.job import QueryCancellation

PAGE_SECONDS: Final = 60.0  # the time limit of a statement whose result is a page
FILE_SECONDS: Final = 600.0  # the time limit of a statement whose result is downloaded
WAIT_SECONDS: Final = 1.0  # a cancelled statement ends within this time
CANCELED: Final = "the statement was canceled"
LEFT: Final = "the statement was canceled, because its page was left"
ENDING: Final = "the statement was canceled, because trailgate browse is ending"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RunningStatement:
    """The SQL statement that is running, and its start in ``time.monotonic()`` seconds."""

    text: str
    since: float
    cancellation: QueryCancellation

    @property
    def seconds(self) -> int:
        """The seconds since the start of the SQL statement."""
        return int(monotonic() - self.since)


@dataclass(slots=True)
class StatementRunner:
    """Runs SQL statements of the pages, one at a time. ``running`` is the current statement, or None."""

    running: RunningStatement | None = None
    _changed: Condition = field(default_factory=Condition)
    _is_closed: bool = False

    @contextmanager
    def run(self, text: str, cancellation: QueryCancellation, seconds: float) -> Iterator[None]:
        """Reserve the runner for an SQL statement, which the block of this context manager runs.

        No other statement can run in the meantime. The statement is cancelled after ``seconds``.
        Raises OptionError if another statement is still running, or if the server ends.
        """
        mine = RunningStatement(text, monotonic(), cancellation)
        with self._changed:
            # If a page sends a new statement, it may arrive before the server has noticed that the
            # client of the old one is gone.
            self._changed.wait_for(lambda: self.running is None, WAIT_SECONDS)
            if self._is_closed:
                raise OptionError(ENDING)
            if self.running is not None:
                raise OptionError(
                    f"another statement has been running for {self.running.seconds} s, and only one can run at a time",
                    hint="Wait for it, or cancel it below",
                )
            self.running = mine
        limit = Timer(seconds, cancellation.cancel, [_too_long(seconds)])
        limit.daemon = True
        limit.start()
        try:
            yield
        finally:
            limit.cancel()
            cancellation.end()
            with self._changed:
                self.running = None
                self._changed.notify_all()

    def cancel(self, reason: str = CANCELED) -> None:
        """Cancel the pages' running SQL statement, if any."""
        with self._changed:
            if self.running is not None:
                self.running.cancellation.cancel(reason)

    def end(self) -> None:
        """Cancel the pages' running SQL statement, and wait up to a second for it to end."""
        self.cancel()
        with self._changed:
            self._changed.wait_for(lambda: self.running is None, WAIT_SECONDS)

    def close(self) -> None:
        """Cancel the running SQL statement, and refuse new statements, because the server ends."""
        with self._changed:
            self._is_closed = True
        self.cancel(ENDING)


def _too_long(seconds: float) -> str:
    return (
        f"the statement took more than {seconds:g} s and was canceled. "
        "trailgate sql runs statements without a limit"
    )


async def until_left(request: Request, make: Callable[[QueryCancellation], R]) -> R:
    """Run ``make`` in a thread and return its result. Cancel it if the client disconnects."""
    cancellation = QueryCancellation()

    # a disconnect arrives as a message of the request
    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        cancellation.cancel(LEFT)

    watching = asyncio.create_task(watch())
    try:
        return await run_in_threadpool(make, cancellation)
    finally:
        watching.cancel()
