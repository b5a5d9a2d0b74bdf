"""Read standard input: lines typed at a prompt, or the complete input into temporary files.

Commands that read their input more than once use a temporary file in place of a pipe.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import BinaryIO, Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import convert_write_errors

STANDARD: Final = "-"
NAME: Final = "standard-input"
MOST_HISTORY: Final = 1000  # lines in the file of a prompt's history


@contextmanager
def buffer_input(addresses: Sequence[str]) -> Iterator[list[str]]:
    """Yield the addresses with standard input (``-``) and pipes replaced by temporary files.

    ``-`` may have a suffix, such as ``-.jsonl.gz``: the input is read like a file with that suffix.
    The file's name contains a hash of its content, so that the same input is recognised in the next
    run. Raises StorageError if a pipe cannot be read.
    """
    if not any(map(is_stream, addresses)):
        yield list(addresses)
        return
    with TemporaryDirectory(prefix="trailgate-") as folder:
        yield [_kept(one, Path(folder)) if is_stream(one) else one for one in addresses]


def is_stream(address: str) -> bool:
    """Return whether an address is standard input or a pipe."""
    if address == STANDARD or address.startswith("-."):
        return True
    try:
        mode = Path(address).stat().st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode)


def _kept(address: str, folder: Path) -> str:
    """Copy standard input or a pipe into a file of ``folder``, and return the file's path."""
    standard = address.startswith(STANDARD)
    path = folder / NAME
    try:
        if standard:
            _copy(standard_input(), path)
        else:
            with Path(address).open("rb") as stream:
                _copy(stream, path)
    except OSError as error:
        problem = f"the input cannot be read: {error.strerror or error}"
        raise StorageError(problem, where=Where(source=address)) from error
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    kept = path.rename(folder / f"{NAME}-{digest}{address[1:] if standard else ''}")
    os.utime(kept, (0, 0))  # equal input should look equal, also by its time
    return str(kept)


def standard_input() -> BinaryIO:
    """Return standard input as a binary stream. Raises StorageError if it is closed."""
    if sys.stdin is None:
        raise StorageError("standard input is closed", where=Where(source=STANDARD))
    return sys.stdin.buffer


def _copy(stream: BinaryIO, path: Path) -> None:
    with convert_write_errors(path), path.open("wb") as file:
        shutil.copyfileobj(stream, file)


def read_typed_lines(
    history: str,
    prompt: Callable[[], str],
    *,
    default: Callable[[], str] = str,
    complete: Callable[[str], list[str]] | None = None,
) -> Iterator[str]:
    """Yield lines typed at a prompt until the input ends.

    Ctrl-C discards the line and yields "" for it, and Ctrl-D ends the input.

    ``history`` is a file, in which ``~`` is the home folder. ``prompt`` and ``default`` (a text to
    edit) are called before each line. ``complete`` lists possible completions of the last word of a
    line. A Python without readline has neither history nor completion.
    """
    try:
        import readline  # noqa: PLC0415  only a terminal needs it
    except ImportError:
        yield from _typed(prompt)
        return
    path = Path(history).expanduser()
    readline.clear_history()
    with suppress(OSError):  # there is none yet
        readline.read_history_file(path)
    readline.set_history_length(MOST_HISTORY)
    readline.set_completer_delims(" ,;")
    readline.set_completer(None if complete is None else _matches(readline, complete))
    of_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if of_libedit else "tab: complete")
    readline.set_startup_hook(lambda: readline.insert_text(default()))
    try:
        for line in _typed(prompt):
            with suppress(OSError):  # a home folder that is read-only
                readline.write_history_file(path)
            yield line
    finally:
        readline.set_completer(None)
        readline.set_startup_hook(None)


def _typed(prompt: Callable[[], str]) -> Iterator[str]:
    while True:
        try:
            yield input(prompt())
        except KeyboardInterrupt:
            print()
            yield ""
        except EOFError:
            print()
            return


def _matches(
    readline: ModuleType, complete: Callable[[str], list[str]]
) -> Callable[[str, int], str | None]:
    """Return a completer in the form that readline expects: called for the first match, then for each further match until it returns None."""
    found: list[str] = []

    def match(_word: str, number: int) -> str | None:
        if number == 0:
            found[:] = complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    return match
