"""HDFS: files are written under hidden names and renamed when they are complete.

HDFS has atomic renames but no conditional writes. ``hdfs_claims.py`` describes how a file is replaced
only if it is still the one that was read; ``HdfsStore.take`` executes its steps. Requests are sent by
``storage.files.hdfs_client``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from trailgate.errors import Where, WriteError
from trailgate.storage.files.hdfs_client import (
    UNREACHED,
    RefusedError,
    ask,
    check_hdfs_installed,
    parse_hdfs_address,
)
from trailgate.storage.stores.hdfs_claims import (
    ListStep,
    RemoveStep,
    RenameResult,
    RenameStep,
    Step,
    TagStep,
    complete_claim,
    is_claim_name,
    is_hidden_name,
    key_of,
    replace_file,
    staging_folders,
    writing_name,
)
from trailgate.storage.stores.object_store import (
    GONE,
    NO_OBJECT,
    UNDECIDED,
    ConditionNotMetError,
    ObjectRange,
    ObjectStore,
    PendingUpload,
    StoredObject,
    UploadParts,
)

READ: Final = 20  # attempts to read a file that others keep replacing
NOT_EMPTY: Final = "PathIsNotEmptyDirectoryException"

WRITTEN: Final = 3  # attempts to write a small file that another run may sweep


class _NotEmptyError(Exception):
    """Raised for an HDFS folder that cannot be deleted because it is not empty."""


@dataclass(frozen=True)
class HdfsStore(ObjectStore):
    """One HDFS cluster. Keys are paths without the first slash."""

    authority: str

    def shown(self, key: str) -> str:
        """Return the hdfs:// address of a file."""
        return f"hdfs://{self.authority}/{key}"

    def call(self, operation: str, key: str, *given: Any) -> Any:
        """Send a request to the HDFS cluster. Raises FileNotFoundError, FileExistsError and WriteError."""
        try:
            return ask(self.authority, operation, f"/{key}", *given)
        except RefusedError as error:
            if error.kind == NOT_EMPTY:
                raise _NotEmptyError from None
            where = Where(source=self.shown(key_of(key)))
            what = "refused the request" if error.kind != UNREACHED else "cannot be reached"
            problem = f"the store {what}: {error.problem}"
            raise WriteError(problem, where=where, hint=error.hint) from None

    def status(self, key: str) -> Any:
        """Return the status of an HDFS file or folder, or None if it does not exist."""
        try:
            return self.call("status", key)
        except FileNotFoundError:
            return None

    def tag(self, key: str) -> str | None:
        """Return the tag of an HDFS file, or None if it does not exist."""
        status = self.status(key)
        return None if status is None else tag_of(status)

    def entries(self, folder: str) -> list[Any] | None:
        """Return the entries of an HDFS folder, or None if it does not exist."""
        try:
            return list(self.call("entries", folder))
        except FileNotFoundError:
            return None

    def rename(self, source: str, target: str, *, over: bool) -> RenameResult:
        """Rename an HDFS file or folder. ``over`` replaces an existing file."""
        try:
            self.call("rename", source, f"/{target}", over)
        except FileNotFoundError:
            return RenameResult.GONE
        except FileExistsError:
            return RenameResult.TAKEN
        return RenameResult.DONE

    def remove(self, key: str) -> bool:
        """Delete an HDFS file or an empty folder. Returns False if it is a folder that is not empty."""
        try:
            self.call("delete", key, False)
        except FileNotFoundError:
            return True
        except _NotEmptyError:
            return False
        return True

    def take(self, steps: Generator[Step, Any, object]) -> bool:
        """Execute the steps of a plan for HDFS, and return whether its result is true (or not empty)."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return bool(end.value)
            answer = self._answer(step)

    def _answer(self, step: Step) -> Any:
        match step:
            case RenameStep(source, target, over):
                return self.rename(source, target, over=over)
            case TagStep(key):
                return self.tag(key)
            case ListStep(folder):
                entries = self.entries(folder)
                return None if entries is None else tuple(name_in(entry.path) for entry in entries)
            case RemoveStep(key):
                return self.remove(key)

    def written(self, path: str, data: bytes) -> Any:
        """Write an HDFS file, and return its status. Returns None if another run has deleted it."""
        try:
            self.call("write", path, data)
        except FileNotFoundError:
            return None
        return self.status(path)

    def give_name(self, path: str, key: str, *, over: bool) -> str:
        """Rename a written HDFS file to its key, and return its tag. With ``over``, replace the key's file.

        Raises ConditionNotMetError if the written file does not exist, or if the key exists and
        ``over`` is not set.
        """
        tag = self.tag(path)
        moved = self.rename(path, key, over=over)
        # A client repeats a request whose answer was lost. Then the file may already have its name.
        if tag is not None and (
            moved is RenameResult.DONE or (moved is RenameResult.GONE and self.tag(key) == tag)
        ):
            return tag
        raise ConditionNotMetError(moved.value)

    def read(self, key: str) -> StoredObject | None:
        """Read an HDFS file, or return None if it does not exist.

        A claim left by a killed writer is completed first.
        """
        for _ in range(READ):
            status = self.status(key)
            if status is None or status.isdir:
                return None
            tag = tag_of(status)
            # True if a claim was completed: the file is now a newer one, so read its status again.
            if self._end(key, tag):
                continue
            try:
                data = self.read_range(ObjectRange(key, 0, status.length))
            except WriteError:
                # The file is unchanged, so the error is not due to a replacement during the read.
                if self.tag(key) == tag:
                    raise
                continue
            # Tags never return. If the file had the tag before and after, all bytes are from that file.
            if self.tag(key) == tag:
                return StoredObject(data, tag)
        raise self.error(UNDECIDED, key)

    def _end(self, key: str, tag: str) -> bool:
        """Complete a claim on the file with a tag, which another writer has not finished.

        Returns False if there is no claim or nothing in it, or if this process may only read.
        """
        try:
            return self.take(complete_claim(key, tag))
        except WriteError:
            return False  # a process that may only read sees the file as it is

    def read_range(self, piece: ObjectRange) -> bytes:
        """Read a range of an HDFS file."""
        if piece.begin == piece.end:
            return b""
        try:
            file = self.call("open", piece.key)
            return bytes(self.call("range", piece.key, file, piece.begin, piece.end))
        except FileNotFoundError:
            raise self.error(NO_OBJECT, piece.key) from None

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write an HDFS file if its tag is still ``over``, or if ``over`` is None and it does not exist."""
        unique = uuid.uuid4().hex
        if over is None:
            return self._made(key, writing_name(key, unique), data)
        return self._replace(key, data, over, unique)

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> HdfsParts:
        """Begin an HDFS file with a hidden name, which is renamed when it is complete."""
        del later
        return HdfsParts(self, key, fresh=fresh)

    def _made(self, key: str, path: str, data: bytes) -> str:
        self.written(path, data)
        try:
            return self.give_name(path, key, over=False)
        except ConditionNotMetError:
            self.remove(path)
            raise

    def _replace(self, key: str, data: bytes, over: str, unique: str) -> str:
        """Replace the HDFS file that has the tag ``over``, and return the new tag.

        ``unique`` are 32 hex digits for the name of the new file. Raises ConditionNotMetError if
        another writer has replaced the file.
        """
        before = self.status(key)
        if before is None or tag_of(before) != over:
            raise ConditionNotMetError(over)
        path = f"{writing_name(key, unique)}/{unique}"
        written = self.written(path, data)
        if written is None:
            raise ConditionNotMetError(path)
        # The clocks of namenodes differ, but a file must have a later time than the one that it replaces.
        time = max(written.modification_time, before.modification_time + 1)
        if time != written.modification_time:
            self.call("set_time", path, time)
        if not self.take(replace_file(key, over, unique)):
            raise ConditionNotMetError(over)
        return f"{time}-{written.length}"

    def complete(self, pending: PendingUpload) -> None:
        """Rename the hidden file of a pending upload to its key."""
        try:
            self.give_name(pending.upload, pending.key, over=False)
        except ConditionNotMetError:
            if self.status(pending.key) is None:
                raise self.error(GONE, pending.key) from None
            self.remove(pending.upload)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield the keys and sizes of HDFS files."""
        for entry in self._below(prefix, after):
            yield entry.path[1:], int(entry.length)

    def _below(self, prefix: str, after: str = "") -> Iterator[Any]:
        """Yield the HDFS files whose keys begin with a prefix, in the order of keys."""
        # HDFS sorts names by signed bytes, and folders without their slash. So sort every folder here.
        named = []
        for entry in self.entries(prefix.rpartition("/")[0]) or ():
            key = f"{entry.path[1:]}/" if entry.isdir else entry.path[1:]
            begins = key.startswith(prefix) and not is_hidden_name(name_in(entry.path))
            # The second condition is for folders: `a/` is before `a/5`, but may have later files.
            if begins and (key > after or after.startswith(key)):
                named.append((key, entry))
        for key, entry in sorted(named, key=lambda one: one[0]):
            if entry.isdir:
                yield from self._below(key, after)
            elif key > after:
                yield entry

    def delete(self, keys: Iterable[str]) -> None:
        """Delete HDFS files, and then the folders of staged files that are empty."""
        to_delete = set(keys)
        for key in sorted(to_delete):
            self.remove(key)
        for folder in staging_folders(to_delete):
            self.remove(folder)

    def abandon(self, prefix: str, condition: Callable[[str], bool]) -> None:
        """Delete the hidden HDFS files of unfinished uploads to keys for which ``condition`` returns true.

        A claim to replace such a key is only deleted if it is empty or the key does not exist.
        Otherwise the next reader of the key completes it.
        """
        to_delete = set()
        for path in self._hidden(prefix.rpartition("/")[0], prefix):
            key = key_of(path)
            if key.startswith(prefix) and condition(key):
                # The next reader of an existing file completes claims on it; delete them only if they are empty.
                if not is_claim_name(name_in(path)) or self.status(key) is None:
                    self.call("delete", path, True)
                else:
                    self.remove(path)
                to_delete.add(key)
        for folder in staging_folders(to_delete):
            self.remove(folder)

    def _hidden(self, folder: str, prefix: str) -> Iterator[str]:
        """Yield the hidden paths in a folder, and in its subfolders that can contain keys with the prefix."""
        for entry in self.entries(folder) or ():
            path = entry.path[1:]
            if is_hidden_name(name_in(path)):
                yield path
            elif entry.isdir and f"{path}/".startswith(prefix):
                yield from self._hidden(path, prefix)


def tag_of(status: Any) -> str:
    """Return the tag of an HDFS file: its modification time in milliseconds, and its length."""
    return f"{status.modification_time}-{status.length}"


def name_in(path: str) -> str:
    """Return the last part of an HDFS path."""
    return path.rpartition("/")[2]


class HdfsParts(UploadParts[HdfsStore]):
    """An HDFS file that is written under a hidden name and renamed when it is complete.

    ``fresh`` means that an existing file is not replaced.
    """

    def __init__(self, store: HdfsStore, key: str, *, fresh: bool) -> None:
        super().__init__(store, key, fresh=fresh)
        self._upload = writing_name(key, uuid.uuid4().hex)
        self._file: Any = None

    def create(self, data: bytes) -> None:
        """Create the HDFS file from bytes."""
        for _ in range(WRITTEN):
            path = self._upload = writing_name(self._key, uuid.uuid4().hex)
            self._store.written(path, data)
            try:
                self._store.give_name(path, self._key, over=not self._fresh)
            except ConditionNotMetError:
                # The key exists, so another attempt cannot help. Otherwise the hidden file was
                # swept: write it again.
                if self._fresh and self._store.tag(self._key) is not None:
                    raise
            else:
                return
        raise ConditionNotMetError(self._upload)

    def send(self, data: bytes) -> None:
        """Write the next part to the hidden HDFS file."""
        if self._file is None:
            self._file = self._store.call("create", self._upload)
        if data:
            self._ask("append", data)

    def complete(self) -> None:
        """Rename the hidden HDFS file to its key."""
        self._ask("close")
        self._store.give_name(self._upload, self._key, over=not self._fresh)

    def suspend(self) -> PendingUpload:
        """Close the hidden HDFS file, which gets its name later."""
        try:
            self._ask("close")
        except ConditionNotMetError:
            raise self.error(GONE) from None
        return super().suspend()

    def _ask(self, operation: str, *given: bytes) -> None:
        try:
            self._store.call(operation, self._upload, self._file, *given)
        except FileNotFoundError:
            raise ConditionNotMetError(self._upload) from None

    def discard(self) -> None:
        """Delete the hidden HDFS file."""
        self._store.remove(self._upload)


def hdfs_store(address: str) -> tuple[ObjectStore, str]:
    """Return the HDFS cluster of an address and the key in it.

    Raises OptionError and MissingDependencyError.
    """
    place = parse_hdfs_address(address)
    check_hdfs_installed()
    return HdfsStore(place.authority), place.key
