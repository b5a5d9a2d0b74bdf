"""Message files as columns: a list of a hundred thousand is sent to every task, which looks at a few of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pyarrow as pa

from trailgate.arrays import Longs, Octets


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A message file: its address, its size when it was found, and whether it is JSON lines.

    ``begin``: the messages before this byte are left out. ``codec``: Arrow's name of its compression; its messages then
    have places in what is unpacked.
    """

    path: str
    size: int
    json: bool = False
    begin: int = 0
    codec: str | None = None


_Kind = tuple[bool, str | None]  # whether it is JSON lines, and the codec


class FileList(Sequence[MessageFile]):
    """Message files in order, which are made when they are asked for.

    Paths are kept without what all of them begin with. A list takes a few bytes a file where it is pickled, and no time a file.
    """

    def __init__(self, files: Iterable[MessageFile]) -> None:
        files = tuple(files)
        paths = [file.path for file in files]
        self._prefix = os.path.commonprefix(paths)  # noqa: RUF071  of the texts, wherever it ends
        begin = len(self._prefix)
        self._paths = pa.array([path[begin:] for path in paths], pa.large_string())
        self._sizes: Longs = np.array([file.size for file in files], np.int64)
        self._begins: Longs = np.array([file.begin for file in files], np.int64)
        numbers: dict[_Kind, int] = {}
        kinds = (numbers.setdefault((f.json, f.codec), len(numbers)) for f in files)
        self._kind: Octets = np.fromiter(kinds, np.uint8, len(files))
        self._kinds: tuple[_Kind, ...] = tuple(numbers)

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, at: int) -> MessageFile: ...
    @overload
    def __getitem__(self, at: slice) -> FileList: ...
    def __getitem__(self, at: int | slice) -> MessageFile | FileList:
        if isinstance(at, slice):
            return FileList(self[number] for number in range(*at.indices(len(self))))
        number = range(len(self))[at]  # raises IndexError
        json, codec = self._kinds[self._kind[number]]
        path = self._prefix + self._paths[number].as_py()
        return MessageFile(path, int(self._sizes[number]), json, int(self._begins[number]), codec)

    def __iter__(self) -> Iterator[MessageFile]:
        numbers = (self._sizes.tolist(), self._kind.tolist(), self._begins.tolist())
        for path, size, kind, begin in zip(self._paths.to_pylist(), *numbers, strict=True):
            json, codec = self._kinds[kind]
            yield MessageFile(self._prefix + path, size, json, begin, codec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileList | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Return how many files there are, and a digest of all that is known of them."""
        digest = hashlib.sha256(repr((self._prefix, self._kinds)).encode())
        for part in (self._sizes, self._begins, self._kind, *self._paths.buffers()):
            digest.update(b"" if part is None else part)
        return f"<{len(self)} message files {digest.hexdigest()}>"
