"""Read standard input or a pipe, as a binary stream or completely into a temporary file.

Commands that read their input more than once use a temporary file in place of a pipe.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import convert_write_errors

STANDARD: Final = "-"
# Errors and notes do not print these names, but what was copied (``shown_source``).
COPY_OF_STANDARD: Final = "standard-input"
COPY_OF_PIPE: Final = "pipe"


@contextmanager
def buffer_input(addresses: Sequence[str]) -> Iterator[list[str]]:
    """Yield the addresses with standard input (``-``) and pipes replaced by temporary files.

    Each is read once, also if it is named twice.

    ``-`` may have a suffix, such as ``-.jsonl.gz``: the input is read like a file with that suffix.
    The file's name contains a hash of its content, so that the same input is recognised in the next
    run. Raises StorageError if a pipe cannot be read.
    """
    if not any(map(is_standard_input_or_pipe, addresses)):
        yield list(addresses)
        return
    with TemporaryDirectory(prefix="trailgate-") as folder:
        once = [*dict.fromkeys(addresses)]
        yield [_kept(one, Path(folder)) if is_standard_input_or_pipe(one) else one for one in once]


def is_standard_input_or_pipe(address: str) -> bool:
    """Return whether a command's argument is standard input (``-``) or a pipe, which can be read only once."""
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
    name = COPY_OF_STANDARD if standard else COPY_OF_PIPE
    path = folder / name
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
    kept = path.rename(folder / f"{name}-{digest}{address[1:] if standard else ''}")
    os.utime(kept, (0, 0))  # equal input should look equal, also by its time
    return str(kept)


def standard_input() -> BinaryIO:
    """Return standard input as a binary stream. Raises StorageError if it is closed."""
    if sys.stdin is None:
        raise StorageError("standard input is closed")
    return sys.stdin.buffer


def _copy(stream: BinaryIO, path: Path) -> None:
    with convert_write_errors(path), path.open("wb") as file:
        shutil.copyfileobj(stream, file)
