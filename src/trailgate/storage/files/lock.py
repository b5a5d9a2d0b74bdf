"""The lock that a run holds on the trail, or the journal, that it writes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import writing

RETRY_SECONDS: Final = 0.1
HOLDER_BYTES: Final = 200  # of the text that names the holder, at most


@contextmanager
def locked(prefix: str, wait: float = 0.0, what: str = "trail") -> Iterator[None]:
    """Hold a trail for one run; raises StorageError, which names the holder, where another run holds it for ``wait`` seconds.

    The system frees the lock when the process ends, however it ends.
    """
    target = Path(prefix)
    path = target.parent / f".{target.name}.lock"
    with writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _taken(handle, time.monotonic() + wait):
            problem = f"another run is writing this {what}{_holder(handle)}"
            raise StorageError(problem, where=Where(source=prefix))
        _note_holder(handle)
        yield
    finally:
        os.close(handle)


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


def _note_holder(handle: int) -> None:
    """Write who holds the lock; a full disk does not keep anybody from holding it."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    text = f"process {os.getpid()} of {os.uname().nodename}, since {now}"
    with suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, text.encode()[:HOLDER_BYTES], 0)


def _holder(handle: int) -> str:
    with suppress(OSError):
        text = os.pread(handle, HOLDER_BYTES, 0).decode("utf-8", "replace")
        return f": {text}" if text else ""
    return ""
