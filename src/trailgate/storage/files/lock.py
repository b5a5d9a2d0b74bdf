"""The lock that a run holds on the trail that it writes."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trailgate.errors import StorageError, Where
from trailgate.storage.files.durable import writing


@contextmanager
def locked(prefix: str) -> Iterator[None]:
    """Hold a trail for one run; raises StorageError where another run holds it.

    The system frees the lock when the process ends, however it ends.
    """
    target = Path(prefix)
    path = target.parent / f".{target.name}.lock"
    with writing(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            problem = "another run is writing this trail"
            raise StorageError(problem, where=Where(source=prefix)) from None
        yield
    finally:
        os.close(handle)
