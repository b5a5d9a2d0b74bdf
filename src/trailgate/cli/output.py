"""The standard output: pipes that close early, colours, and tables that fit the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import IO, Any, Final

from trailgate.errors import WriteError

WIDTH: Final = 140  # of a table if there is no terminal
# Parameters of the sequences that colour a terminal (ECMA-48 §8.3.117, SGR).
STYLES: Final[Mapping[str, str]] = MappingProxyType(
    {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
)


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Let a reader of the output, such as ``head``, stop early without an error.

    Raises WriteError where the output cannot be written for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise  # about a file, or of a store: what the system refuses has a number
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


def in_colours(stream: IO[str] | None = None) -> bool:
    """Return whether the output is a terminal that shows colours (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return (stream or sys.stdout).isatty() and not plain


def painter(stream: IO[str] | None = None) -> Callable[[str, str], str]:
    """Return a function that gives a text a style; on an output without colours it does nothing."""
    if not in_colours(stream):
        return lambda text, _: text
    return lambda text, style: f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text else text


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """Print a sentence; on a terminal it is folded between words."""
    stream = sys.stderr if stderr else sys.stdout
    lines = [text]
    if stream.isatty():
        lines = textwrap.wrap(text, terminal_width(), break_on_hyphens=False) or lines
    for line in lines:
        print(painter(stream)(line, style) if style else line, file=stream)


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
