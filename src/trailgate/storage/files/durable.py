"""Files that last: written whole or not at all, and folders whose renames and removals are safe."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from trailgate.errors import Where, WriteError

TRIES: Final = 10  # to remove a folder


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Raise WriteError with the path where the system refuses what is done to a file."""
    try:
        yield
    except OSError as error:
        where = Where(source=str(error.filename or path))
        raise WriteError(f"cannot write: {error.strerror or error}", where=where) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there with all its bytes, or as it was before; raises WriteError."""
    temporary = path.with_name(f".{path.name}.new")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        temporary.replace(path)
        sync_folder(path.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder of temporary files, which other processes may still be writing into.

    The folder loses its name first, so that no process can add a file while its files are removed.
    """
    doomed = folder.with_name(f"{folder.name}.removed")
    _remove(doomed)
    try:
        folder.rename(doomed)
    except FileNotFoundError:
        return
    _remove(doomed)


def _remove(folder: Path) -> None:
    """Remove a folder that has lost its name; again where a file that was being made then has come into it meanwhile."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
