"""Read one open file.

An uncompressed file is read at any offset, a compressed file sequentially while it is unpacked.
"""

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

# Arrow's names of the supported codecs, by file suffix.
CODECS: Final[Mapping[str, str]] = MappingProxyType(
    {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
)
# No codec makes more bytes of an empty file, apart from the file's name, which gzip stores.
_EMPTY: Final = 64
PASSED: Final = 1 << 20  # bytes to unpack at once when skipping to an offset
_NOT_READ: Final = frozenset({".zip", ".xz", ".z", ".7z", ".tgz", ".tar", ".br", ".snappy", ".lzo"})


class OpenedFile:
    """An open file, local or in any store, which can be read at any offset.

    ``path`` is its address, and ``size`` the size that the caller knows from a listing: later bytes
    are not read. Errors call the file ``subject``.
    """

    def __init__(self, path: str, size: int, subject: str) -> None:
        self.path, self.size = path, size
        store, path_in_store = locate(path)
        try:
            self._handle: Any = store.open_input_file(path_in_store)
        except OSError as error:
            where = Where(source=path)
            raise StorageError(f"cannot open the {subject}: {error}", where=where) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the open file."""
        self._handle.close()

    def size_now(self) -> int:
        """Return the open file's current size, which may be larger than when it was listed."""
        with self._reading(self.size):
            return int(self._handle.size())

    def is_at_end(self, offset: int) -> bool:
        """Return True if the open file has no bytes after an offset."""
        return offset >= self.size

    def read(self, offset: int, size: int) -> pa.Buffer:
        """Read up to ``size`` bytes of the open file from an offset, but no bytes after the size that the listing stated.

        Raises StorageError if the file has become shorter.
        """
        size = max(0, min(size, self.size - offset))
        if not size:  # stores refuse an offset at or after the end
            return pa.py_buffer(b"")
        with self._reading(offset):
            self._handle.seek(offset)
            data = self._handle.read_buffer(size)
        self._check(data.size, size)
        return data

    def read_into(self, buffer: Octets, offset: int) -> Octets:
        """Fill a buffer with bytes of the open file from an offset, and return the filled part."""
        data = buffer[: max(0, min(len(buffer), self.size - offset))]
        if not len(data):
            return data
        with self._reading(offset):
            self._handle.seek(offset)
            read_count = self._handle.readinto(data)
        self._check(read_count, len(data))
        return data

    @contextmanager
    def _reading(self, offset: int) -> Iterator[None]:
        """Convert an operating system error in the block to a StorageError that names ``offset``."""
        try:
            yield
        except OSError as error:
            where = Where(source=self.path, offset=offset)
            raise StorageError(f"the file cannot be read: {error}", where=where) from error

    def _check(self, read_count: int, size: int) -> None:
        if read_count < size:
            problem = "the file became shorter while it was read"
            hint = "Read it again when no other program changes it"
            raise StorageError(problem, where=Where(source=self.path), hint=hint)


def codec_of(path: str) -> str | None:
    """Return Arrow's codec for a file by the suffix of its name (.gz: "gzip"), or None if uncompressed.

    Raises StorageError for an archive or an unsupported compression.
    """
    suffix = splitext(path)[1].lower()  # not pathlib, which is slow for very many files
    if suffix in _NOT_READ:
        problem = f"{suffix} files cannot be read"
        hint = f"Unpack it first, or compress it as {', '.join(CODECS)}"
        raise StorageError(problem, where=Where(source=path), hint=hint)
    return CODECS.get(suffix)


class CompressedFile:
    """Reads a compressed file of any store at ascending offsets. Errors call it ``subject``."""

    def __init__(self, path: str, codec: str, subject: str) -> None:
        self.path = path
        store, path_in_store = locate(path)
        try:
            self._stream: Any = store.open_input_stream(path_in_store, compression=codec)
        except OSError as error:
            raise self._error(f"cannot open the {subject}: {error}") from error
        self._buffered, self._begin, self._at_end = b"", 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, offset: int, size: int) -> pa.Buffer:
        """Return unpacked bytes of a compressed file from an offset; fewer than ``size`` only at the end.

        Offsets must not decrease from call to call; bytes in between are skipped. Raises
        StorageError if the file is damaged.
        """
        while offset > self._begin + len(self._buffered) and not self._at_end:
            self._begin += len(self._buffered)
            self._buffered = self._unpack(min(PASSED, offset - self._begin))
            self._at_end = not self._buffered
        parts = [self._buffered[offset - self._begin :]]
        buffered = len(parts[0])
        # Reading one more byte than requested shows whether the file ends here.
        while buffered <= size and not self._at_end:
            part = self._unpack(size + 1 - buffered)
            self._at_end = not part
            parts.append(part)
            buffered += len(part)
        self._buffered, self._begin = b"".join(parts), offset
        return pa.py_buffer(self._buffered[:size])

    def is_at_end(self, offset: int) -> bool:
        """Return True if the compressed file has no bytes after an offset.

        The file must have been read up to that offset.
        """
        return self._at_end and offset >= self._begin + len(self._buffered)

    def _unpack(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except OSError as error:
            raise self._error(f"the compressed file is damaged: {error}") from error

    def _error(self, problem: str) -> StorageError:
        return StorageError(problem, where=Where(source=self.path))


def is_empty_file(path: str, size: int, subject: str) -> bool:
    """Return True if a file of ``size`` bytes has no content. A small compressed file is unpacked to find out."""
    codec = codec_of(path)
    if codec is None or not size:
        return not size
    if size > _EMPTY + len(path):
        return False
    try:
        with CompressedFile(path, codec, subject) as file:
            return not file.read(0, 1)
    except StorageError:
        return False  # it is damaged, which reading it reports
