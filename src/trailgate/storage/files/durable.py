"""Local files that survive a crash: replaced completely or written in place, and synced to the disk.

A write is finished when the file and the folder that contains its name are synced.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from trailgate.errors import Where, WriteError

TRIES: Final = 10  # the attempts to delete a folder


@contextmanager
def convert_write_errors(path: str | Path) -> Iterator[None]:
    """Convert an operating system error raised in the block to a WriteError with the file's path."""
    try:
        yield
    except OSError as error:
        where = Where(source=str(error.filename or path))
        raise WriteError(f"cannot write: {error.strerror or error}", where=where) from error


def replace_whole_file(path: Path, data: bytes) -> None:
    """Replace a file's content completely or not at all, and sync it. Raises WriteError."""
    temporary = path.with_name(f".{path.name}.new")
    with convert_write_errors(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        # The data must be on the disk before the new name, else a power failure may leave an empty
        # file under it. The folder is synced last, because the new name is part of the folder's
        # data.
        temporary.replace(path)
        sync_folder(path.parent)


def remove_temporary_folder(folder: Path) -> None:
    """Delete a folder of temporary files on a local disk safely, even while other processes still write to it.

    The folder is renamed first, so that no process can create files in it during the deletion.
    """
    to_delete = folder.with_name(f"{folder.name}.removed")
    _remove(to_delete)
    try:
        folder.rename(to_delete)
    except FileNotFoundError:
        return
    _remove(to_delete)


def _remove(folder: Path) -> None:
    """Delete a renamed temporary folder. Retries if a file that was just being created appears in it."""
    for _ in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def sync_folder(folder: Path) -> None:
    """Sync a local folder, so that renames in it are durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class WrittenFile:
    """A local file that is written in place. It is created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path, self._is_named = path, False
        with convert_write_errors(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, offset: int, data: Any) -> None:
        """Write bytes at an offset of the local file; readers see them at once."""
        rest = memoryview(data)
        with convert_write_errors(self.path):
            while rest:
                written = os.pwrite(self._handle, rest, offset)
                offset, rest = offset + written, rest[written:]

    def truncate(self, size: int) -> None:
        """Truncate the local file at a size."""
        with convert_write_errors(self.path):
            os.ftruncate(self._handle, size)

    def sync(self) -> None:
        """Sync the file's bytes to the disk. The first call also syncs its folder, so that the new name is durable."""
        with convert_write_errors(self.path):
            os.fsync(self._handle)
            if not self._is_named:
                sync_folder(self.path.parent)
                self._is_named = True

    def close(self) -> None:
        """Close the local file."""
        os.close(self._handle)
