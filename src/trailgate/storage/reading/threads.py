"""Parts worked on by several threads, their results in the order of the parts.

Compiled loops and Arrow release the interpreter, so threads of one process use all cores.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event, Semaphore
from typing import Final, Generic, NamedTuple, TypeVar

from trailgate.errors import OptionError

Part = TypeVar("Part")
Result = TypeVar("Result")

HELD: Final = 4  # results of a part that wait for those of earlier parts: memory stays flat


def thread_count(asked: int | None) -> int:
    """Return how many threads to use: those asked for, else one a core. Raises OptionError."""
    if asked is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if asked < 1:
        raise OptionError(f"{asked} threads: there must be one at least")
    return asked


class _Outcome(NamedTuple, Generic[Result]):
    """One result of a part, or its end with the error that ended it."""

    results: tuple[Result, ...] = ()
    error: BaseException | None = None


class _Work(Generic[Part, Result]):
    """One part on a thread: it waits while ``HELD`` results are not taken yet."""

    def __init__(self, work: Callable[[Part], Iterable[Result]], part: Part, stop: Event) -> None:
        self._work, self._part, self._stop = work, part, stop
        self._outcomes: SimpleQueue[_Outcome[Result]] = SimpleQueue()
        self._room = Semaphore(HELD)

    def run(self) -> None:
        """Do the work."""
        try:
            for result in self._work(self._part):
                self._room.acquire()
                if self._stop.is_set():
                    return
                self._outcomes.put(_Outcome((result,)))
        except BaseException as error:  # noqa: BLE001  raised where the results are taken
            self._outcomes.put(_Outcome(error=error))
        else:
            self._outcomes.put(_Outcome())

    def results(self) -> Iterator[Result]:
        """Yield the results; raises the work's error after them."""
        while (outcome := self._outcomes.get()).results:
            self._room.release()
            yield outcome.results[0]
        if outcome.error is not None:
            raise outcome.error

    def release(self) -> None:
        """Let the work see that it is to stop."""
        self._room.release()


def in_order(
    work: Callable[[Part], Iterable[Result]], parts: Iterable[Part], threads: int
) -> Generator[Result, None, None]:
    """Yield what ``work`` gives for each part, in order, with an error where one thread would raise it.

    Parts are begun in order, no more of them than there are threads. Whoever takes no more results ends the work
    of all threads.
    """
    if threads == 1:
        for part in parts:
            yield from work(part)
        return
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
                yield from running[0].results()
                running.popleft()
                begin()
        finally:
            stop.set()
            for one in running:
                one.release()
