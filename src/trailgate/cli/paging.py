"""The pager: long output on a terminal is shown in ``less``, as PAGER names it."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final

# As git sets them: end at once where all fits one screen, show colours, leave the text on the screen.
LESS: Final = "FRX"
DEFAULT: Final = "less"


class _Page(io.TextIOWrapper):
    """The pager's input, which is a terminal to whatever asks."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged() -> Iterator[None]:
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
