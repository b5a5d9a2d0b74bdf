"""A disk that can be filled: a file system of its own in a mount namespace, else a limit of the size of files."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

MEGABYTES: Final = 256
MOUNT: Final = 'mount -t tmpfs -o size="$1"m tmpfs "$2" && echo mounted && exec cat'


class MountedDisk:
    """A tmpfs that only processes started by ``enter`` see at ``inside``; this process sees it at ``outside``."""

    def __init__(self, folder: Path) -> None:
        self.inside = folder
        self._holder = subprocess.Popen(
            ["unshare", "-rm", "sh", "-c", MOUNT, "sh", str(MEGABYTES), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "mounted\n":
            self.close()
            raise PermissionError("a file system of one's own cannot be mounted here")
        own = str(self._holder.pid)
        self.enter = ["nsenter", "-t", own, "-U", "--preserve-credentials", "-m", "--"]
        self.outside = Path(f"/proc/{own}/root{folder}")
        self._ballast = self.outside / "ballast"

    def fill(self, left: int, process: int) -> None:
        """Take all of the disk but so many bytes; ``process`` is not asked."""
        del process
        with self._ballast.open("wb") as file:
            while (more := self._left() - left) > 0:
                with suppress(OSError):  # somebody else has taken some of it meanwhile
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, more)

    def _left(self) -> int:
        found = os.statvfs(self.outside)
        return found.f_bavail * found.f_frsize

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


class LimitedFiles:
    """A folder in which a process cannot make files longer than they are."""

    enter: tuple[str, ...] = ()

    def __init__(self, folder: Path) -> None:
        self.inside = self.outside = folder

    def fill(self, left: int, process: int) -> None:
        """Let a process write so many bytes after the longest file, and no more."""
        longest = max((path.stat().st_size for path in self.inside.rglob("*")), default=0)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (longest + left, longest + left))

    def free(self) -> None:
        """Do nothing: the limit ends with the process."""

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def small_disk(folder: Path) -> Iterator[MountedDisk | LimitedFiles]:
    """Yield a disk that is mounted at a folder; where that is not permitted, say so and limit files."""
    disk: MountedDisk | LimitedFiles
    try:
        disk = MountedDisk(folder)
    except (OSError, PermissionError) as error:
        sys.stdout.write(f"no disk of its own is filled, but files are limited: {error}\n")
        disk = LimitedFiles(folder)
    try:
        yield disk
    finally:
        disk.close()
