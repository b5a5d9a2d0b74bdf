"""One open file whose size is known: bytes from any place, never fewer than it is to have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import pyarrow as pa

from trailgate.arrays import Octets
from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import locate


class OpenedFile:
    """Reads a local file or one of any store; ``what`` names it where it cannot be opened."""

    def __init__(self, path: str, size: int, what: str) -> None:
        self.path, self.size = path, size
        store, place = locate(path)
        try:
            self._handle: Any = store.open_input_file(place)
        except OSError as error:
            where = Where(source=path)
            raise StorageError(f"cannot open the {what}: {error}", where=where) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def size_now(self) -> int:
        """Return how many bytes the file has by now, which may be more than when it was found."""
        with self._reading(self.size):
            return int(self._handle.size())

    def ended(self, place: int) -> bool:
        """Return whether no byte follows a place."""
        return place >= self.size

    def read(self, place: int, size: int) -> pa.Buffer:
        """Return the bytes from a place on, no more than the file had when it was found.

        Raises StorageError where there are fewer.
        """
        size = max(0, min(size, self.size - place))
        if not size:  # a store does not take a place after the end
            return pa.py_buffer(b"")
        with self._reading(place):
            self._handle.seek(place)
            data = self._handle.read_buffer(size)
        self._check(data.size, size)
        return data

    def read_into(self, buffer: Octets, place: int) -> Octets:
        """Read the bytes from a place on into a buffer, and return them: its beginning, or all of it."""
        data = buffer[: max(0, min(len(buffer), self.size - place))]
        if not len(data):
            return data
        with self._reading(place):
            self._handle.seek(place)
            found = self._handle.readinto(data)
        self._check(found, len(data))
        return data

    @contextmanager
    def _reading(self, place: int) -> Iterator[None]:
        """Turn an error of the system at a place into our error."""
        try:
            yield
        except OSError as error:
            where = Where(source=self.path, offset=place)
            raise StorageError(f"the file cannot be read: {error}", where=where) from error

    def _check(self, found: int, size: int) -> None:
        if found < size:
            problem = "the file became shorter while it was read"
            raise StorageError(problem, where=Where(source=self.path))
