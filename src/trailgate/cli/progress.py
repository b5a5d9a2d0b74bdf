"""A bar for work that takes a while, on a terminal alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from trailgate.cli.output import console


@contextmanager
def progress_bar(
    doing: str, total: int | None = None, *, unit: str = "", show: bool = True
) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that shows how much is done, of a total or in units; None if there is no terminal to show it."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress  # noqa: PLC0415  only a terminal needs it

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)

        def shown(done: int) -> None:
            counted = "" if total is not None else f" {done:,} {unit}"
            bar.update(task, completed=done, description=doing + counted)

        yield shown
