"""HDFS: files are written under hidden names and renamed, and replaced under a condition by a claim (decision 0045)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trailgate.errors import WriteError
from trailgate.storage.accounts.hdfs import hdfs_place
from trailgate.storage.hadoop.namenode import check_installed
from trailgate.storage.stores.conditions import UNDECIDED, put_decided
from trailgate.storage.stores.hdfs.claims import ended, replaced
from trailgate.storage.stores.hdfs.names import (
    is_claim,
    is_hidden,
    key_of,
    staging_folders,
    writing_name,
)
from trailgate.storage.stores.hdfs.parts import HdfsParts, renamed, written
from trailgate.storage.stores.hdfs.tree import HdfsTree, name_in, tag_of
from trailgate.storage.stores.object_store import (
    GONE,
    ObjectStore,
    Pending,
    Range,
    Stored,
    UnmetError,
)
from trailgate.storage.stores.parted_upload import (
    PartedUpload,
    compose_by_reading,
    upload_file,
)

READ: Final = 20  # times that a file is read which others replace meanwhile


def hdfs_store(address: str) -> tuple[ObjectStore, str]:
    """Return the cluster of an address and the key in it; raises OptionError and MissingDependencyError."""
    place = hdfs_place(address)
    check_installed()
    return HdfsStore(HdfsTree(place.authority)), place.key


@dataclass(frozen=True)
class HdfsStore:
    """One cluster; keys are paths without their first slash."""

    tree: HdfsTree

    def shown(self, key: str) -> str:
        """Return the address of a file."""
        return self.tree.shown(key)

    def read(self, key: str) -> Stored | None:
        """Return a file, after the claim to replace it, if a writer was killed with one; None where there is none."""
        for _ in range(READ):
            status = self.tree.status(key)
            if status is None or status.isdir:
                return None
            tag = tag_of(status)
            if self._ended(key, tag):
                continue
            try:
                data = self.part(Range(key, 0, status.length))
            except WriteError:
                if self.tree.tag(key) == tag:
                    raise
                continue
            # Tags of a file do not come again: what was read is one file's if its tag was there before and after.
            if self.tree.tag(key) == tag:
                return Stored(data, tag)
        raise self.tree.error(UNDECIDED, key)

    def _ended(self, key: str, tag: str) -> bool:
        """End the claim to replace a file; return whether there was one that this process may end."""
        try:
            return self.tree.take(ended(key, tag))
        except WriteError:
            return False  # who may only read sees the file as it is

    def part(self, piece: Range) -> bytes:
        """Return some bytes of a file."""
        if piece.begin == piece.end:
            return b""
        try:
            file = self.tree.call("open", piece.key)
            return bytes(self.tree.call("range", piece.key, file, piece.begin, piece.end))
        except FileNotFoundError:
            raise self.tree.error("the object is gone", piece.key) from None

    def put(self, key: str, data: bytes, over: str | None) -> str | None:
        """Write a file where the condition holds; return its tag where it has these bytes now."""

        def send() -> str:
            own = uuid.uuid4().hex
            if over is None:
                return self._made(key, writing_name(key, own), data)
            return self._replaced(key, data, over, own)

        return put_decided(self, key, send, data, over)

    def _made(self, key: str, path: str, data: bytes) -> str:
        written(self.tree, path, data)
        try:
            return renamed(self.tree, path, key, over=False)
        except UnmetError:
            self.tree.remove(path)
            raise

    def _replaced(self, key: str, data: bytes, over: str, own: str) -> str:
        """Replace the file with a tag; raises UnmetError where another one is there."""
        before = self.tree.status(key)
        if before is None or tag_of(before) != over:
            raise UnmetError(over)
        path = f"{writing_name(key, own)}/{own}"
        made = written(self.tree, path, data)
        if made is None:
            raise UnmetError(path)
        # Clocks of namenodes differ: the time of a file is later than that of the one that it replaces.
        time = max(made.modification_time, before.modification_time + 1)
        if time != made.modification_time:
            self.tree.call("set_time", path, time)
        if not self.tree.take(replaced(key, over, own)):
            raise UnmetError(over)
        return f"{time}-{made.length}"

    def upload(self, key: str, path: Path) -> None:
        """Write a local file."""
        upload_file(HdfsParts(self.tree, key, fresh=False), path)

    def compose(self, key: str, pieces: Sequence[bytes | Range]) -> None:
        """Write a file of bytes and parts of others; they are read, since HDFS copies nothing itself."""
        compose_by_reading(HdfsParts(self.tree, key, fresh=False), pieces, self.part)

    def begin(self, key: str, *, later: bool = False) -> PartedUpload:
        """Begin a file that must not be there when it is finished."""
        del later  # it has a hidden name in any case
        return PartedUpload(HdfsParts(self.tree, key, fresh=True), fresh=True)

    def complete(self, pending: Pending) -> None:
        """Give a file that was left its name."""
        try:
            renamed(self.tree, pending.upload, pending.key, over=False)
        except UnmetError:
            if self.tree.status(pending.key) is None:
                raise self.tree.error(GONE, pending.key) from None
            self.tree.remove(pending.upload)

    def listed(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        for entry in self._below(prefix, after):
            yield entry.path[1:], int(entry.length)

    def _below(self, prefix: str, after: str = "") -> Iterator[Any]:
        """Yield the files whose keys begin with a prefix, in the order of keys."""
        # HDFS orders names by bytes with signs, and a folder by its name without the slash: so each is ordered here.
        named = []
        for entry in self.tree.entries(prefix.rpartition("/")[0]) or ():
            key = f"{entry.path[1:]}/" if entry.isdir else entry.path[1:]
            begins = key.startswith(prefix) and not is_hidden(name_in(entry.path))
            if begins and (key > after or after.startswith(key)):
                named.append((key, entry))
        for key, entry in sorted(named, key=lambda one: one[0]):
            if entry.isdir:
                yield from self._below(key, after)
            elif key > after:
                yield entry

    def delete(self, keys: Iterable[str]) -> None:
        """Delete files, and the folders of staged files that are empty then."""
        doomed = set(keys)
        for key in sorted(doomed):
            self.tree.remove(key)
        for folder in staging_folders(doomed):
            self.tree.remove(folder)

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete what was written for wanted keys and has not got its name, and what is left of claims to replace them."""
        doomed = set()
        for path in self._hidden(prefix.rpartition("/")[0], prefix):
            key = key_of(path)
            if key.startswith(prefix) and wanted(key):
                # A claim to a file that is there is ended by who reads the file; it is deleted where it is empty.
                if not is_claim(name_in(path)) or self.tree.status(key) is None:
                    self.tree.call("delete", path, True)
                else:
                    self.tree.remove(path)
                doomed.add(key)
        for folder in staging_folders(doomed):
            self.tree.remove(folder)

    def _hidden(self, folder: str, prefix: str) -> Iterator[str]:
        """Yield the paths of what is written and of claims, in a folder and in those in it that can have a prefix."""
        for entry in self.tree.entries(folder) or ():
            path = entry.path[1:]
            if is_hidden(name_in(path)):
                yield path
            elif entry.isdir and f"{path}/".startswith(prefix):
                yield from self._hidden(path, prefix)
