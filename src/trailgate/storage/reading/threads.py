"""Process parts in several threads, and return their results in order.

Compiled loops and Arrow release Python's lock, so that the threads of one process use all cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from queue import SimpleQueue
from threading import Event, Semaphore
from typing import Final, Generic, NamedTuple, TypeVar

from trailgate.errors import OptionError

Part = TypeVar("Part")
Result = TypeVar("Result")

HELD: Final = 4  # the most results of a part that wait for earlier parts, to limit memory


def thread_count(requested: int | None) -> int:
    """Return the number of threads to use: as asked for, or one per core. Raises OptionError."""
    if requested is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if requested < 1:
        raise OptionError(f"threads must be at least 1, not {requested}")
    return requested


class _Outcome(NamedTuple, Generic[Result]):
    """One result of a part, or the end of the part and the error that ended it."""

    results: tuple[Result, ...] = ()
    error: BaseException | None = None


class _Work(Generic[Part, Result]):
    """A part that is processed in a thread.

    The thread blocks while ``HELD`` results are waiting to be consumed.
    """

    def __init__(self, work: Callable[[Part], Iterable[Result]], part: Part, stop: Event) -> None:
        self._work, self._part, self._stop = work, part, stop
        self._outcomes: SimpleQueue[_Outcome[Result]] = SimpleQueue()
        self._room = Semaphore(HELD)

    def run(self) -> None:
        """Process the part, in a thread of the pool."""
        try:
            for result in self._work(self._part):
                self._room.acquire()
                # The caller does not want any more results.
                if self._stop.is_set():
                    return
                self._outcomes.put(_Outcome((result,)))
        except BaseException as error:  # noqa: BLE001  raised again by results()
            self._outcomes.put(_Outcome(error=error))
        else:
            self._outcomes.put(_Outcome())

    def results(self) -> Iterator[Result]:
        """Yield the results in the caller's thread, and finally raise the error, if any."""
        while (outcome := self._outcomes.get()).results:
            self._room.release()
            yield outcome.results[0]
        if outcome.error is not None:
            raise outcome.error

    def release(self) -> None:
        """Wake the thread, so that it sees the stop event."""
        self._room.release()


def run_in_order(
    work: Callable[[Part], Iterable[Result]], parts: Iterable[Part], threads: int
) -> Generator[Result, None, None]:
    """Run ``work`` on each part in threads, and yield the results in order, as a single thread would.

    Parts are started in order, as many at a time as there are threads. Errors are raised where a
    single thread would raise them. Closing the generator stops all threads.
    """
    if threads == 1:
        for part in parts:
            yield from work(part)
        return
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  3 ms, and one thread needs none

    # A started part is at the right of ``running``; results are taken from the left.
    waiting = iter(parts)
    running: deque[_Work[Part, Result]] = deque()
    stop = Event()
    with ThreadPoolExecutor(threads, "trailgate") as pool:

        def begin() -> None:
            for part in waiting:
                running.append(_Work(work, part, stop))
                pool.submit(running[-1].run)
                return

        try:
            for _ in range(threads):
                begin()
            while running:
                # Later parts run meanwhile. Each one waits when ``HELD`` of its results are buffered.
                yield from running[0].results()
                running.popleft()
                begin()
        finally:
            # Also if the caller closes the generator or an error was raised. A thread that waits
            # for room must be released, or the pool would wait for it without end.
            stop.set()
            for one in running:
                one.release()
