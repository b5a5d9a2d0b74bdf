"""What a live trail does to a disk, one method a step, so that a test can stop it at each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from trailgate.storage.files.durable import sync_folder, write_whole, writing


class WrittenFile:
    """One file that is written in place; it is made where it is not there."""

    def __init__(self, path: Path) -> None:
        self.path, self._is_named = path, False
        with writing(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def write(self, offset: int, data: Any) -> None:
        """Write bytes at a place; readers see them at once."""
        rest = memoryview(data)
        with writing(self.path):
            while rest:
                written = os.pwrite(self._handle, rest, offset)
                offset, rest = offset + written, rest[written:]

    def truncate(self, size: int) -> None:
        """Cut the file off."""
        with writing(self.path):
            os.ftruncate(self._handle, size)

    def sync(self) -> None:
        """Return when bytes and name last."""
        with writing(self.path):
            os.fsync(self._handle)
            if not self._is_named:
                sync_folder(self.path.parent)
                self._is_named = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._handle)


class Disk:
    """The local disk."""

    def open(self, path: Path) -> WrittenFile:
        """Return a file to be written in place."""
        return WrittenFile(path)

    def replace(self, path: Path, data: bytes) -> None:
        """Write a whole file, or leave it as it was; return when it lasts."""
        write_whole(path, data)

    def rename(self, path: Path, final: Path) -> None:
        """Give a file another name, in place of any that has it; return when that lasts."""
        with writing(final):
            path.replace(final)
            sync_folder(final.parent)

    def remove(self, path: Path) -> None:
        """Take a file away; return when that lasts."""
        with writing(path):
            path.unlink()
            sync_folder(path.parent)
