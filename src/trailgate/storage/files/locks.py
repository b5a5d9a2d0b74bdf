"""Locks on the local disk, so that only one run at a time writes a trail or a folder.

The lock of ``dirdat/ot`` is on the file ``dirdat/.ot.lock``, which also names the process that holds
it. The operating system releases it when the process ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import convert_write_errors

RETRY_SECONDS: Final = 0.1
# fcntl's struct flock for a lock of the complete file: type, whence, start, length, process.
RANGE: Final = struct.Struct("hhqqi0q")
HOLDER_BYTES: Final = 200  # the maximum length of the text about the holder


@contextmanager
def lock(prefix: str, wait: float = 0.0, subject: str = "trail") -> Iterator[None]:
    """Lock a trail for one run. Raises StorageError with the holder if it is not free in ``wait`` seconds.

    The operating system releases the lock when the process ends, even if it is killed. Errors call
    the trail ``subject``.
    """
    path = _lock_path(prefix)
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        # flock belongs to the open file, so it is released when the process ends.
        if not _acquire(handle, time.monotonic() + wait):
            holder = _holder(handle)
            problem = f"another run is writing this {subject}{holder and f': {holder}'}"
            hint = "Wait until it ends, or stop it"
            raise StorageError(problem, where=Where(source=prefix), hint=hint)
        _write_holder(handle)
        _show_locked(handle)
        yield
    finally:
        os.close(handle)


def lock_holder(prefix: str) -> str | None:
    """Return who has locked a trail ("" if unknown), or None if it is not locked.

    The lock is only queried, not acquired, so that this never blocks a run. Raises OSError, also if
    the system does not support such queries.
    """
    try:
        handle = os.open(_lock_path(prefix), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        # The range 0 to 0 is the complete file. The answer is F_UNLCK if a read lock would be
        # granted, or else the lock that prevents it.
        lock_query = RANGE.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = RANGE.unpack(fcntl.fcntl(handle, fcntl.F_OFD_GETLK, lock_query))
        return None if kind == fcntl.F_UNLCK else _holder(handle)
    except AttributeError:
        raise OSError(
            errno.ENOTSUP, "this system cannot report which process writes the trail"
        ) from None
    finally:
        os.close(handle)


def _lock_path(prefix: str) -> Path:
    target = Path(prefix)
    return target.parent / f".{target.name}.lock"


def _acquire(handle: int, until: float) -> bool:
    """Try to lock a trail's lock file until a time of ``time.monotonic``. Returns False if it was not free."""
    while True:
        try:
            # Without LOCK_NB the call could not be given up after a time.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(RETRY_SECONDS)
        else:
            return True


def _show_locked(handle: int) -> None:
    """Also acquire an OFD lock on a trail's lock file, because ``lock_holder`` can only query locks of this kind.

    If this fails, the trail is locked nevertheless, but ``lock_holder`` reports that it is not.
    """
    with suppress(OSError, AttributeError):
        lock_request = RANGE.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, lock_request)


def _write_holder(handle: int) -> None:
    """Write who holds the lock into a trail's lock file: its process, host and time.

    The lock is also valid if this fails because the disk is full.
    """
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    text = f"process {os.getpid()} of {os.uname().nodename}, since {now}"
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode()[:HOLDER_BYTES], 0)


def _holder(handle: int) -> str:
    with suppress(OSError):
        return os.pread(handle, HOLDER_BYTES, 0).decode("utf-8", "replace")
    return ""
