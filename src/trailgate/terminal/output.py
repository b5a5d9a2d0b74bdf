"""Print to a terminal or a pipe: colours, folded lines, logs, a pager, a progress bar, and pipes that close early."""

from __future__ import annotations

import io
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import IO, Any, Final

from trailgate.errors import WriteError

GAP: Final = "  "  # between two cells, or two parts of data
NULL: Final = "NULL"  # how every table prints NULL
WIDTH: Final = 140  # of a table if there is no terminal
NOT_ALL: Final = 4  # the exit code of a run that processed only a part, and listed the rest

# Parameters of the sequences that colour a terminal (ECMA-48 §8.3.117, SGR).
STYLES: Final[Mapping[str, str]] = MappingProxyType(
    {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
)

_WRITING: Final = threading.Lock()

# The options that git sets too: exit at once if everything fits on one screen (F), show colours (R),
# and leave the text on the screen (X).
LESS: Final = "FRX"
DEFAULT: Final = "less"


@contextmanager
def quiet_pipe() -> Iterator[None]:
    """Leave the block silently if the reader of its output, such as ``head``, stops early.

    Raises WriteError if the output cannot be written for another reason.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise  # not an error of the output: it names a file, or comes from a store
        # Python flushes again at exit: give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise WriteError(f"the output cannot be written: {error.strerror}") from error


@contextmanager
def report_finished() -> Iterator[None]:
    """Let a block print the result of a command whose work is finished.

    If its output cannot be written, print a note on stderr instead of raising an error.
    """
    try:
        with quiet_pipe():
            yield
    except WriteError as error:
        with suppress(OSError):
            print(f"note: everything is done, but {error}", file=sys.stderr)


def terminal_width() -> int:
    """Return the width of the terminal in columns."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def shows_colours(stream: IO[str] | None = None) -> bool:
    """Return whether the output is a terminal that may show colours (https://no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return (stream or sys.stdout).isatty() and not plain


def make_painter(stream: IO[str] | None = None) -> Callable[[str, str], str]:
    """Return a function that colours a text, or returns it unchanged if the output has no colours."""
    if not shows_colours(stream):
        return lambda text, _: text
    return lambda text, style: f"\x1b[{STYLES[style]}m{text}\x1b[0m" if text else text


def say(text: str, style: str = "", *, indent: str = "", stderr: bool = False) -> None:
    """Print a sentence of a command's output.

    On a terminal it is folded between words, and continuation lines are indented.
    """
    stream = sys.stderr if stderr else sys.stdout
    for line in fold(text, indent, stream):
        _write_line(make_painter(stream)(line, style) if style else line, stream)


def print_line(text: str) -> None:
    """Print one line, such as the report of a batch in JSON, so that a reader gets it at once.

    Unlike lines of ``print``, it stays whole if another thread prints at the same time. Does
    nothing if the reader has stopped. Raises WriteError.
    """
    with quiet_pipe():
        _write_line(text, sys.stdout)


def _write_line(text: str, stream: IO[str]) -> None:
    # print() writes the end of the line separately: another thread's line can come between.
    with _WRITING:
        stream.write(f"{text}\n")


def fold(text: str, indent: str = "", stream: IO[str] | None = None) -> list[str]:
    """Split a text into lines that fit the terminal, or return it as one line if there is no terminal.

    Lines after the first are indented.
    """
    if not (stream or sys.stdout).isatty():
        return [text]
    # On a narrow terminal a deep indent would leave no room for words, so it is at most half the
    # width.
    width = terminal_width()
    lines = textwrap.wrap(
        text, width, subsequent_indent=indent[: width // 2], break_on_hyphens=False
    )
    return lines or [text]


def make_console(**options: Any) -> Any:
    """Return a rich console that is as wide as the terminal."""
    from rich.console import Console  # noqa: PLC0415  only output for people needs it

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704  the error that rich has caught: it would exit with 1

    plain = {"highlight": False, "emoji": False, **options}
    return Plain(width=terminal_width(), **plain)


def printable(text: str) -> str:
    """Escape the control characters of a string for the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _Page(io.TextIOWrapper):
    """The pager's input. It claims to be a terminal, so that colours and widths are preserved."""

    def isatty(self) -> bool:
        return True


@contextmanager
def show_in_pager() -> Iterator[None]:
    """Show printed text in the pager, if the output is a terminal and a pager exists.

    Text on stderr is also shown in it if stderr is a terminal, because the pager would overwrite
    it.
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
    """Close the pager's input, and wait until the user quits the pager."""
    with suppress(BrokenPipeError):
        page.close()
    # Ctrl-C must not end this process while the pager is still open.
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.wait()
    finally:
        signal.signal(signal.SIGINT, earlier)


def _pager() -> list[str] | None:
    """Return the pager's command, or None if there is no terminal or no pager."""
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
    """Yield a function that updates a progress bar, or None if there is no terminal to show it.

    The function takes the amount done and, if it is known, the total.
    """
    if not show or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress  # noqa: PLC0415  only a terminal needs it

    with Progress(console=make_console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)

        def update(done: int, total: int | None = None) -> None:
            counted = "" if total is not None else f" {done:,} {unit}"
            bar.update(task, completed=done, total=total, description=doing + counted)

        yield update


class _Stderr(logging.Handler):
    """A log handler that prints to the current ``sys.stderr``, even if it is replaced later."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # closed or full
            # A StreamHandler would keep the stream that was current when it was created.
            _write_line(self.format(record), sys.stderr)
            sys.stderr.flush()


def log_to_stderr(log: logging.Logger, level: int = logging.WARNING) -> None:
    """Print the messages of a logger to stderr, for example about connections that were opened and lost."""
    if not log.handlers:
        log.setLevel(level)
        log.addHandler(_Stderr())
        log.propagate = False
