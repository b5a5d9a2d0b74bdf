"""One file of HDFS while it is written, under a hidden name beside its own."""

from __future__ import annotations

import uuid
from typing import Any, Final

from trailgate.errors import WriteError
from trailgate.storage.stores.hdfs.claims import Moved
from trailgate.storage.stores.hdfs.names import writing_name
from trailgate.storage.stores.hdfs.tree import HdfsTree
from trailgate.storage.stores.object_store import GONE, Pending, UnmetError

WRITTEN: Final = 3  # times that a small file is written which another run deletes


class HdfsParts:
    """A file that is written, and renamed when it is whole; ``fresh``: a file that is there is not replaced."""

    def __init__(self, tree: HdfsTree, key: str, *, fresh: bool) -> None:
        self._tree, self._key, self._fresh = tree, key, fresh
        self._path = writing_name(key, uuid.uuid4().hex)
        self._file: Any = None
        self._count = 0

    @property
    def count(self) -> int:
        """Return how many parts were sent."""
        return self._count

    def whole(self, data: bytes) -> None:
        """Make the file of bytes."""
        for _ in range(WRITTEN):
            path = self._path = writing_name(self._key, uuid.uuid4().hex)
            written(self._tree, path, data)
            try:
                renamed(self._tree, path, self._key, over=not self._fresh)
            except UnmetError:
                if self._fresh and self._tree.tag(self._key) is not None:
                    raise
            else:
                return
        raise UnmetError(self._path)

    def send(self, data: bytes) -> None:
        """Write the next part."""
        if self._file is None:
            self._file = self._tree.call("create", self._path)
        self._count += 1
        if data:
            self._ask("append", data)

    def complete(self) -> None:
        """Give the file its name."""
        self._ask("close")
        renamed(self._tree, self._path, self._key, over=not self._fresh)

    def left(self) -> Pending:
        """Close the file, which gets its name later."""
        try:
            self._ask("close")
        except UnmetError:
            raise self.error(GONE) from None
        return Pending(self._key, self._path, ())

    def _ask(self, operation: str, *given: bytes) -> None:
        try:
            self._tree.call(operation, self._path, self._file, *given)
        except FileNotFoundError:
            raise UnmetError(self._path) from None

    def discard(self) -> None:
        """Delete what was written."""
        self._tree.remove(self._path)

    def error(self, problem: str) -> WriteError:
        """Return an error about the file."""
        return self._tree.error(problem, self._key)


def written(tree: HdfsTree, path: str, data: bytes) -> Any:
    """Write a file of bytes, and return its status; None where it is gone, as another run deletes what it takes for left over."""
    try:
        tree.call("write", path, data)
    except FileNotFoundError:
        return None
    return tree.status(path)


def renamed(tree: HdfsTree, path: str, key: str, *, over: bool) -> str:
    """Give a written file its name, and return its tag; raises UnmetError where the name is taken, or the file is not there."""
    tag = tree.tag(path)
    moved = tree.rename(path, key, over=over)
    # A client sends a request again whose answer was lost: then the file has its name.
    if tag is not None and (moved is Moved.DONE or (moved is Moved.GONE and tree.tag(key) == tag)):
        return tag
    raise UnmetError(moved.value)
