"""Files that last: written whole or not at all, or in place; folders whose renames and removals are safe; the lock of a run on what it writes."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from trailgate.errors import StorageError, Where, WriteError

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
    to_delete = folder.with_name(f"{folder.name}.removed")
    _remove(to_delete)
    try:
        folder.rename(to_delete)
    except FileNotFoundError:
        return
    _remove(to_delete)


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


RETRY_SECONDS: Final = 0.1
# A lock of the whole file, as fcntl takes and returns it: type, whence, start, length, process.
RANGE: Final = struct.Struct("hhqqi0q")
HOLDER_BYTES: Final = 200  # of the text that names the holder, at most


@contextmanager
def lock(prefix: str, wait: float = 0.0, what: str = "trail") -> Iterator[None]:
    """Hold a trail for one run; raises StorageError, which names the holder, where another run holds it for ``wait`` seconds.

    The system frees the lock when the process ends, however it ends.
    """
    path = _lock_path(prefix)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _taken(handle, time.monotonic() + wait):
            holder = _holder(handle)
            problem = f"another run is writing this {what}{holder and f': {holder}'}"
            raise StorageError(problem, where=Where(source=prefix))
        _note_holder(handle)
        _show_held(handle)
        yield
    finally:
        os.close(handle)


def lock_holder(prefix: str) -> str | None:
    """Return who holds a trail for a run, as its lock has it, empty where that is not known; None where nobody does.

    The lock is asked for and never taken, so that no run is kept from it. Raises OSError, also where the system has no such question.
    """
    try:
        handle = os.open(_lock_path(prefix), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        asked = RANGE.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = RANGE.unpack(fcntl.fcntl(handle, fcntl.F_OFD_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else _holder(handle)
    except AttributeError:
        raise OSError(errno.ENOTSUP, "this system cannot be asked who writes the trail") from None
    finally:
        os.close(handle)


def _lock_path(prefix: str) -> Path:
    target = Path(prefix)
    return target.parent / f".{target.name}.lock"


def _taken(handle: int, until: float) -> bool:
    """Return whether the lock was free before a moment of ``time.monotonic``."""
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(RETRY_SECONDS)
        else:
            return True


def _show_held(handle: int) -> None:
    """Lock the file in the other way too, in which others can ask for it; one that cannot be asked for is held all the same."""
    with suppress(OSError, AttributeError):
        own = RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, own)


def _note_holder(handle: int) -> None:
    """Write who holds the lock; a full disk does not keep anybody from holding it."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    text = f"process {os.getpid()} of {os.uname().nodename}, since {now}"
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode()[:HOLDER_BYTES], 0)


def _holder(handle: int) -> str:
    with suppress(OSError):
        return os.pread(handle, HOLDER_BYTES, 0).decode("utf-8", "replace")
    return ""
