"""One open file: bytes from any place of one whose size is known, or of a compressed one that is unpacked from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from posixpath import splitext
from types import MappingProxyType
from typing import Any, Final, Self

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


# Arrow's names of the codecs that are read, by the suffix of the file's name.
CODECS: Final[Mapping[str, str]] = MappingProxyType(
    {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
)
PASSED: Final = 1 << 20  # bytes that are unpacked at once to reach a place
_NOT_READ: Final = frozenset({".zip", ".xz", ".z", ".7z", ".tgz", ".tar", ".br", ".snappy", ".lzo"})


def codec_of(path: str) -> str | None:
    """Return the codec of a compressed file, by its name; None for a file that is not compressed.

    Raises StorageError for an archive, or a compression that is not read.
    """
    suffix = splitext(path)[1].lower()  # not by pathlib: a folder may have very many files
    if suffix in _NOT_READ:
        problem = f"files of the kind {suffix} are not read"
        hint = f"Unpack it first, or compress it as {', '.join(CODECS)}"
        raise StorageError(problem, where=Where(source=path), hint=hint)
    return CODECS.get(suffix)


class CompressedFile:
    """Reads a compressed file of any store in ascending places; ``what`` names it where it cannot be opened."""

    def __init__(self, path: str, codec: str, what: str) -> None:
        self.path = path
        store, place = locate(path)
        try:
            self._stream: Any = store.open_input_stream(place, compression=codec)
        except OSError as error:
            raise self._error(f"cannot open the {what}: {error}") from error
        self._held, self._begin, self._over = b"", 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, place: int, size: int) -> pa.Buffer:
        """Return the unpacked bytes from a place on, fewer only at the end.

        A place is never before that of an earlier call; what is between is passed over. Raises StorageError where the
        file is damaged.
        """
        while place > self._begin + len(self._held) and not self._over:
            self._begin += len(self._held)
            self._held = self._unpack(min(PASSED, place - self._begin))
            self._over = not self._held
        parts = [self._held[place - self._begin :]]
        held = len(parts[0])
        while (
            held <= size and not self._over
        ):  # a byte more than asked for shows whether there is one
            part = self._unpack(size + 1 - held)
            self._over = not part
            parts.append(part)
            held += len(part)
        self._held, self._begin = b"".join(parts), place
        return pa.py_buffer(self._held[:size])

    def ended(self, place: int) -> bool:
        """Return whether no byte follows a place to which the file has been read."""
        return self._over and place >= self._begin + len(self._held)

    def _unpack(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except OSError as error:
            raise self._error(f"the compressed file is damaged: {error}") from error

    def _error(self, problem: str) -> StorageError:
        return StorageError(problem, where=Where(source=self.path))
