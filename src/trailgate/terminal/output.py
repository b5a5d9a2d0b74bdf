"""The standard output: pipes that close early, colours, tables that fit the terminal, the pager that PAGER names, and a bar for work that takes a while."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
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


def say(text: str, style: str = "", *, indent: str = "", stderr: bool = False) -> None:
    """Print a sentence; on a terminal it is folded between words, and lines after the first are indented."""
    stream = sys.stderr if stderr else sys.stdout
    for line in fold(text, indent, stream):
        print(painter(stream)(line, style) if style else line, file=stream)


def fold(text: str, indent: str = "", stream: IO[str] | None = None) -> list[str]:
    """Return the lines of a text: on a terminal none is wider, and those after the first are indented."""
    if not (stream or sys.stdout).isatty():
        return [text]
    width = terminal_width()
    lines = textwrap.wrap(
        text, width, subsequent_indent=indent[: width // 2], break_on_hyphens=False
    )
    return lines or [text]


def console(**options: Any) -> Any:
    """Return a console as wide as the terminal."""
    from rich.console import Console  # noqa: PLC0415  only output for people needs it

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  the error that rich has caught: it would exit with 1

    plain = {"highlight": False, "emoji": False, **options}
    return Plain(width=terminal_width(), **plain)


def printable(text: str) -> str:
    """Return a text with its control characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# As git sets them: end at once where all fits one screen, show colours, leave the text on the screen.
LESS: Final = "FRX"
DEFAULT: Final = "less"


class _Page(io.TextIOWrapper):
    """The pager's input, which is a terminal to whatever asks."""

    def isatty(self) -> bool:
        return True


@contextmanager
def show_in_pager() -> Iterator[None]:
    """Show what is printed in the pager, if the output is a terminal and there is a pager.

    What goes to stderr on a terminal is shown there too, since the pager would overwrite it.
    """
    pager = _pager()
    if pager is None:
        yield
        return
    environment = {"LESS": LESS, "LV": "-c", **os.environ}
    # The terminal's interrupt reaches the pager as well, which stays open and ignores it.
    with subprocess.Popen(pager, stdin=subprocess.PIPE, env=environment) as process:  # noqa: S603  the user's own choice
        assert process.stdin is not None
        before = sys.stdout, sys.stderr
        page = _Page(process.stdin, encoding="utf-8", errors="backslashreplace", write_through=True)
        sys.stdout = page
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr = page
        try:
            yield
        except (BrokenPipeError, KeyboardInterrupt):
            pass  # the pager was left
        finally:
            sys.stdout, sys.stderr = before
            _finish(page, process)


def _finish(page: IO[str], process: subprocess.Popen[bytes]) -> None:
    """Close the pager's input and wait until it is left."""
    with suppress(BrokenPipeError):
        page.close()
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, earlier)


def _pager() -> list[str] | None:
    """Return the pager's command; None where nobody could read it, or there is none."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        command = shlex.split(os.environ.get("TRAILGATE_PAGER", os.environ.get("PAGER", DEFAULT)))
    except ValueError:
        return None
    if not command or command == ["cat"] or shutil.which(command[0]) is None:
        return None
    return command


@contextmanager
def progress_bar(
    doing: str, *, unit: str = "", show: bool = True
) -> Iterator[Callable[..., None] | None]:
    """Yield a function that shows how much is done, of a total or in units; None if there is no terminal to show it."""
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress  # noqa: PLC0415  only a terminal needs it

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)

        def update(done: int, total: int | None = None) -> None:
            counted = "" if total is not None else f" {done:,} {unit}"
            bar.update(task, completed=done, total=total, description=doing + counted)

        yield update
