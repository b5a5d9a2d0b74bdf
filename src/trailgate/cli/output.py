"""The standard output: pipes that close early, and tables that fit the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from trailgate.errors import WriteError

WIDTH: Final = 140  # of a table if there is no terminal


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Let a reader of the output, such as ``head``, stop early without an error.

    Raises WriteError where the output cannot be written for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise  # about a file
        # Python flushes again at exit: give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise WriteError(f"the output cannot be written: {error.strerror}") from error


@contextmanager
def done_already() -> Iterator[None]:
    """Print what was done: where that fails, it is a note on stderr, since the work itself is done."""
    try:
        with quiet_pipe():
            yield
    except WriteError as error:
        with suppress(OSError):
            print(f"note: all is done, but {error}", file=sys.stderr)


def terminal_width() -> int:
    """Return the width of the terminal in columns."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def console(*, wrap: bool = True, **options: Any) -> Any:
    """Return a console as wide as the terminal; ``wrap`` folds long lines."""
    from rich.console import Console  # noqa: PLC0415  only output for people needs it

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  the error that rich has caught: it would exit with 1

    plain = {"highlight": False, "emoji": False, **options}
    return Plain(width=terminal_width(), soft_wrap=not wrap, **plain)


def plain_table(**options: Any) -> Any:
    """Return a table without lines, to which columns and rows are added."""
    from rich.table import Table  # noqa: PLC0415  only output for people needs it

    return Table(box=None, pad_edge=False, header_style="bold", **options)


def as_cells(*texts: str) -> list[Any]:
    """Return texts as cells of a table, in which square brackets have no meaning."""
    from rich.text import Text  # noqa: PLC0415  only output for people needs it

    return [Text(text) for text in texts]


def printable(text: str) -> str:
    """Return a text with its control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
