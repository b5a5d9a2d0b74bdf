"""The files of a cluster of Hadoop as a file system of pyarrow's, to read from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import RawIOBase
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import fs

from trailgate.storage.hadoop.namenode import ask


class HadoopFile(RawIOBase):
    """A file to read from."""

    def __init__(self, authority: str, path: str) -> None:
        self._asked = authority, path
        self._file = ask(authority, "open", path)
        self._size, self._at = int(self._file.file_length()), 0

    def readable(self) -> bool:
        """Return that it is read."""
        return True

    def seekable(self) -> bool:
        """Return that it is read anywhere."""
        return True

    def tell(self) -> int:
        """Return where the next byte is."""
        return self._at

    def size(self) -> int:
        """Return how many bytes there are."""
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set where the next byte is, and return it."""
        self._at = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence] + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, fewer of them at the end alone."""
        authority, path = self._asked
        end = self._size if size is None or size < 0 else self._at + size
        data = bytes(ask(authority, "range", path, self._file, self._at, end))
        self._at += len(data)
        return data


class HadoopFiles(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types of its own
    """The files of one cluster; they are not written by pyarrow."""

    def __init__(self, authority: str) -> None:
        self.authority = authority

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopFiles) and other.authority == self.authority

    def __hash__(self) -> int:
        return hash(self.authority)

    def get_type_name(self) -> str:
        """Return the name of the kind."""
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        """Return a path as it is."""
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[fs.FileInfo]:
        """Return what there is at each path."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        try:
            return _described(path, ask(self.authority, "status", f"/{path.strip('/')}"))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Return what is in a folder."""
        folder = f"/{selector.base_dir.strip('/')}"
        try:
            if not ask(self.authority, "status", folder).isdir:
                raise NotADirectoryError(f"{folder} is not a folder")
            found = ask(self.authority, "entries", folder, bool(selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        return [_described(entry.path, entry) for entry in found]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Return a file to read from, anywhere."""
        return pa.PythonFile(HadoopFile(self.authority, path), mode="r")

    open_input_stream = open_input_file

    def _refused(self, *_: object) -> NoReturn:
        raise NotImplementedError("pyarrow does not write files of Hadoop here")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refused
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refused


def _described(path: str, status: Any) -> fs.FileInfo:
    if status.isdir:
        return fs.FileInfo(path, fs.FileType.Directory)
    changed = int(status.modification_time) * 1_000_000
    return fs.FileInfo(path, fs.FileType.File, size=int(status.length), mtime_ns=changed)
