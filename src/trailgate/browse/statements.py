"""SQL statements of the pages: one runs at a time, and each one ends.

A statement ends at a time limit, if it is canceled on the page, if its client disconnects, and if the server ends.
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
from trailgate.sql.job import Cancellation

PAGE_SECONDS: Final = 60.0  # of a statement whose answer is a page
FILE_SECONDS: Final = 600.0  # of one whose answer is saved
WAIT_SECONDS: Final = 1.0  # a statement that was just canceled ends within this time
CANCELED: Final = "the statement was canceled"
LEFT: Final = "the statement was canceled, because its page was left"
ENDING: Final = "the statement was canceled, because trailgate browse is ending"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Running:
    """A statement that runs, and since when, in ``time.monotonic()`` seconds."""

    text: str
    since: float
    cancellation: Cancellation

    @property
    def seconds(self) -> int:
        """Return how long it has run."""
        return int(monotonic() - self.since)


@dataclass(slots=True)
class Statements:
    """The statement that runs, if any."""

    running: Running | None = None
    _changed: Condition = field(default_factory=Condition)
    _is_closed: bool = False

    @contextmanager
    def run(self, text: str, cancellation: Cancellation, seconds: float) -> Iterator[None]:
        """Run a statement inside. Raises OptionError if another one runs."""
        mine = Running(text, monotonic(), cancellation)
        with self._changed:
            # A new statement of the same page comes before the old one has noticed that its client is gone.
            self._changed.wait_for(lambda: self.running is None, WAIT_SECONDS)
            if self._is_closed:
                raise OptionError(ENDING)
            if self.running is not None:
                raise OptionError(
                    f"another statement is running, since {self.running.seconds} s, and one runs at a time",
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
        """Cancel the statement that runs."""
        with self._changed:
            if self.running is not None:
                self.running.cancellation.cancel(reason)

    def end(self) -> None:
        """Cancel the statement that runs, and wait a moment until it has ended."""
        self.cancel()
        with self._changed:
            self._changed.wait_for(lambda: self.running is None, WAIT_SECONDS)

    def close(self) -> None:
        """Cancel the statement that runs, and refuse others."""
        with self._changed:
            self._is_closed = True
        self.cancel(ENDING)


def _too_long(seconds: float) -> str:
    return (
        f"the statement took more than {seconds:g} s and was canceled. "
        "trailgate sql runs statements without a limit"
    )


async def until_left(request: Request, make: Callable[[Cancellation], R]) -> R:
    """Return what ``make`` returns, which runs in a thread. It is canceled if the client disconnects."""
    cancellation = Cancellation()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        cancellation.cancel(LEFT)

    watching = asyncio.create_task(watch())
    try:
        return await run_in_threadpool(make, cancellation)
    finally:
        watching.cancel()
