"""What is held of an open unit: some of it in memory, and what is more than that in a temporary file."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final, Generic, TypeVar

from trailgate.storage.files.durable import writing

HELD_BYTES: Final = 16 << 20  # of message bodies; their operations take several times as much

T = TypeVar("T")


class Held(Generic[T]):
    """Values in their order; those after ``limit`` bytes are in a file without a name in ``folder``.

    The file does not outlive the process, and need not: after a start the messages of an open unit are given again.
    """

    def __init__(self, folder: Path, limit: int = HELD_BYTES) -> None:
        self._folder, self._room, self._stored = folder, limit, 0
        self._values: list[T] = []
        self._file: IO[bytes] | None = None

    def add(self, value: T, size: int) -> None:
        """Add a value that was made of so many bytes; raises WriteError where there is no room for it on the disk."""
        self._room -= size
        if self._room >= 0:
            self._values.append(value)
            return
        with writing(self._folder):
            if self._file is None:
                self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115  closed with this object
                weakref.finalize(self, self._file.close)
            pickle.dump(value, self._file, pickle.HIGHEST_PROTOCOL)
        self._stored += 1

    def __iter__(self) -> Iterator[T]:
        yield from self._values
        if self._file is not None:
            self._file.seek(0)
            for _ in range(self._stored):
                yield pickle.load(self._file)  # noqa: S301  nobody else can open the file

    def clear(self) -> None:
        """Forget all values."""
        self._values.clear()
        self._stored = 0
