"""HDFS: files are written under hidden names and renamed, and replaced under a condition by a claim (decision 0045).

A file is replaced only where it is the one that was read, in a tree that has atomic renames and nothing else. A tag of a file is never that of another one
which has had its name: times rise along the files of a name. Who replaces the one with a tag makes the folder that claims it, with the new file in it, by a
rename that fails where the folder is there; then looks that the tag is still that of the file, and renames the new one over it. What a claim has was
chosen before the tag is looked at, and gets the key's name at most once, so that whoever finds a claim can end it: a writer that was killed holds up nobody.
The steps are yielded, and the answers to them are sent in: nothing there sends a request.

``.ot.manifest.json.0123...ef.writing`` is a file, or a folder with one, that becomes the key's by a rename.
``.ot.manifest.json.1700000000000-512.over`` is a folder that claims to replace the file with the tag 1700000000000-512 by the one in it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from trailgate.errors import Where, WriteError
from trailgate.storage.files.hadoop import UNREACHED, RefusedError, ask, check_installed, hdfs_place
from trailgate.storage.stores.object_store import (
    GONE,
    NO_OBJECT,
    UNDECIDED,
    ObjectStore,
    Parts,
    Pending,
    Range,
    Stored,
    UnmetError,
)

WRITING: Final = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{32}\.writing")
CLAIM: Final = re.compile(r"\.(?P<name>.+)\.(?P<over>\d+-\d+)\.over")
# Folders of staged files: of runs, of streaming queries, and of published messages. Nobody else makes them.
STAGING: Final = re.compile(r"\..+\.staging|\..+\.stream-.+|\.publishing")


def writing_name(key: str, own: str) -> str:
    """Return where a file is written that becomes a key's; ``own`` are 32 hexadecimal digits that no other writer has."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{own}.writing"


def claim_name(key: str, over: str) -> str:
    """Return the folder that claims to replace the file with a tag."""
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}.{name}.{over}.over"


def is_claim(name: str) -> bool:
    """Return whether the last part of a path is that of a claim."""
    return CLAIM.fullmatch(name) is not None


def is_hidden(name: str) -> bool:
    """Return whether the last part of a path is one of these names."""
    return bool(WRITING.fullmatch(name) or CLAIM.fullmatch(name))


def key_of(path: str) -> str:
    """Return the key that a path is of: itself, or the one that it was written for, or claims to replace."""
    folder = ""
    for part in path.split("/"):
        found = WRITING.fullmatch(part) or CLAIM.fullmatch(part)
        if found:
            return f"{folder}{found['name']}"
        folder += f"{part}/"
    return path


def staging_folders(keys: set[str]) -> list[str]:
    """Return the folders of staged files that keys are in, and those in them on the way, the deepest first."""
    found: set[str] = set()
    for key in keys:
        parts = key.split("/")[:-1]
        first = next((at for at, part in enumerate(parts) if STAGING.fullmatch(part)), len(parts))
        found.update("/".join(parts[: end + 1]) for end in range(first, len(parts)))
    return sorted(found, key=lambda folder: (-folder.count("/"), folder))


class Moved(Enum):
    """What came of a rename."""

    DONE = "done"
    GONE = "what was to be renamed is not there"
    TAKEN = "the name is taken"


class Rename(NamedTuple):
    """Rename a file, or a folder; ``over`` replaces the file that is there. The answer is a Moved."""

    source: str
    target: str
    over: bool


class TagOf(NamedTuple):
    """The tag of a file; None where there is none."""

    key: str


class NamesIn(NamedTuple):
    """The names in a folder; None where it is not there."""

    folder: str


class Remove(NamedTuple):
    """Delete a file or an empty folder; nothing happens where it is not there, or not empty."""

    key: str


Step = Rename | TagOf | NamesIn | Remove
Steps = Generator[Step, Any, bool]


def replace_file(key: str, over: str, own: str) -> Steps:
    """Replace the file with the tag ``over`` by the one at ``writing_name(key, own)``, a folder that has it as ``own``.

    Return whether it was; otherwise it is deleted, or somebody has deleted it.
    """
    staged, claim = writing_name(key, own), claim_name(key, over)
    if (yield Rename(staged, claim, False)) is not Moved.DONE:
        names = yield from ended(key, over)
        # A client sends a request again whose answer was lost: then the claim is ours.
        if own not in names:
            yield Remove(f"{staged}/{own}")
            yield Remove(staged)
            return False
    return (yield from _decide(key, over, own))


def _decide(key: str, over: str, own: str) -> Steps:
    """End a claim of one's own; return whether its file has got the key's name."""
    staged, claim = writing_name(key, own), claim_name(key, over)
    mine = f"{claim}/{own}"
    if (yield TagOf(key)) == over:
        # Where it is gone, somebody else has ended the claim, by the same rename.
        yield Rename(mine, key, True)
        won = True
    else:
        # The file is withdrawn, unless somebody else was faster to give it the key's name.
        moved = yield Rename(mine, staged, False)
        won = moved is Moved.GONE and (yield TagOf(staged)) is None
        yield Remove(staged)
    yield Remove(claim)
    return won


def ended(key: str, over: str) -> Generator[Step, Any, tuple[str, ...]]:
    """End the claim to replace a file, whoever made it, and return what was in it."""
    claim = claim_name(key, over)
    names: tuple[str, ...] | None = yield NamesIn(claim)
    if names is None:
        return ()
    if names and (yield TagOf(key)) == over:
        for name in names:
            yield Rename(f"{claim}/{name}", key, True)
    yield Remove(claim)
    return names


READ: Final = 20  # times that a file is read which others replace meanwhile
NOT_EMPTY: Final = "PathIsNotEmptyDirectoryException"


class _NotEmptyError(Exception):
    """The folder to delete is not empty."""


@dataclass(frozen=True)
class HdfsStore(ObjectStore):
    """One cluster, and how it is reached; keys are paths without their first slash."""

    authority: str

    def shown(self, key: str) -> str:
        """Return the address of a file."""
        return f"hdfs://{self.authority}/{key}"

    def call(self, operation: str, key: str, *given: Any) -> Any:
        """Return the cluster's answer; raises FileNotFoundError, FileExistsError and WriteError."""
        try:
            return ask(self.authority, operation, f"/{key}", *given)
        except RefusedError as error:
            if error.kind == NOT_EMPTY:
                raise _NotEmptyError from None
            where = Where(source=self.shown(key_of(key)))
            what = "refuses it" if error.kind != UNREACHED else "cannot be reached"
            problem = f"the store {what}: {error.problem}"
            raise WriteError(problem, where=where, hint=error.hint) from None

    def status(self, key: str) -> Any:
        """Return what there is; None where there is nothing."""
        try:
            return self.call("status", key)
        except FileNotFoundError:
            return None

    def tag(self, key: str) -> str | None:
        """Return the tag of a file; None where there is none."""
        found = self.status(key)
        return None if found is None else tag_of(found)

    def entries(self, folder: str) -> list[Any] | None:
        """Return what is in a folder; None where it is not there."""
        try:
            return list(self.call("entries", folder))
        except FileNotFoundError:
            return None

    def rename(self, source: str, target: str, *, over: bool) -> Moved:
        """Rename a file or a folder; ``over`` replaces the file that is there."""
        try:
            self.call("rename", source, f"/{target}", over)
        except FileNotFoundError:
            return Moved.GONE
        except FileExistsError:
            return Moved.TAKEN
        return Moved.DONE

    def remove(self, key: str) -> bool:
        """Delete a file or an empty folder; return whether it is not there now."""
        try:
            self.call("delete", key, False)
        except FileNotFoundError:
            return True
        except _NotEmptyError:
            return False
        return True

    def take(self, steps: Generator[Step, Any, object]) -> bool:
        """Take steps to their end, and return what comes of them."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return bool(end.value)
            answer = self._answer(step)

    def _answer(self, step: Step) -> Any:
        match step:
            case Rename(source, target, over):
                return self.rename(source, target, over=over)
            case TagOf(key):
                return self.tag(key)
            case NamesIn(folder):
                found = self.entries(folder)
                return None if found is None else tuple(name_in(entry.path) for entry in found)
            case Remove(key):
                return self.remove(key)

    def written(self, path: str, data: bytes) -> Any:
        """Write a file of bytes, and return its status; None where it is gone, as another run deletes what it takes for left over."""
        try:
            self.call("write", path, data)
        except FileNotFoundError:
            return None
        return self.status(path)

    def give_name(self, path: str, key: str, *, over: bool) -> str:
        """Give a written file its name, and return its tag; raises UnmetError where the name is taken, or the file is not there."""
        tag = self.tag(path)
        moved = self.rename(path, key, over=over)
        # A client sends a request again whose answer was lost: then the file has its name.
        if tag is not None and (
            moved is Moved.DONE or (moved is Moved.GONE and self.tag(key) == tag)
        ):
            return tag
        raise UnmetError(moved.value)

    def read(self, key: str) -> Stored | None:
        """Return a file, after the claim to replace it, if a writer was killed with one; None where there is none."""
        for _ in range(READ):
            status = self.status(key)
            if status is None or status.isdir:
                return None
            tag = tag_of(status)
            if self._end(key, tag):
                continue
            try:
                data = self.part(Range(key, 0, status.length))
            except WriteError:
                if self.tag(key) == tag:
                    raise
                continue
            # Tags of a file do not come again: what was read is one file's if its tag was there before and after.
            if self.tag(key) == tag:
                return Stored(data, tag)
        raise self.error(UNDECIDED, key)

    def _end(self, key: str, tag: str) -> bool:
        """End the claim to replace a file; return whether there was one that this process may end."""
        try:
            return self.take(ended(key, tag))
        except WriteError:
            return False  # who may only read sees the file as it is

    def part(self, piece: Range) -> bytes:
        """Return some bytes of a file."""
        if piece.begin == piece.end:
            return b""
        try:
            file = self.call("open", piece.key)
            return bytes(self.call("range", piece.key, file, piece.begin, piece.end))
        except FileNotFoundError:
            raise self.error(NO_OBJECT, piece.key) from None

    def put_once(self, key: str, data: bytes, over: str | None) -> str:
        """Write a file where the condition holds."""
        own = uuid.uuid4().hex
        if over is None:
            return self._made(key, writing_name(key, own), data)
        return self._replace(key, data, over, own)

    def parts(self, key: str, *, fresh: bool, later: bool = False) -> HdfsParts:
        """Return what writes a file, which has a hidden name in any case."""
        del later
        return HdfsParts(self, key, fresh=fresh)

    def _made(self, key: str, path: str, data: bytes) -> str:
        self.written(path, data)
        try:
            return self.give_name(path, key, over=False)
        except UnmetError:
            self.remove(path)
            raise

    def _replace(self, key: str, data: bytes, over: str, own: str) -> str:
        """Replace the file with a tag; raises UnmetError where another one is there."""
        before = self.status(key)
        if before is None or tag_of(before) != over:
            raise UnmetError(over)
        path = f"{writing_name(key, own)}/{own}"
        made = self.written(path, data)
        if made is None:
            raise UnmetError(path)
        # Clocks of namenodes differ: the time of a file is later than that of the one that it replaces.
        time = max(made.modification_time, before.modification_time + 1)
        if time != made.modification_time:
            self.call("set_time", path, time)
        if not self.take(replace_file(key, over, own)):
            raise UnmetError(over)
        return f"{time}-{made.length}"

    def complete(self, pending: Pending) -> None:
        """Give a file that was left its name."""
        try:
            self.give_name(pending.upload, pending.key, over=False)
        except UnmetError:
            if self.status(pending.key) is None:
                raise self.error(GONE, pending.key) from None
            self.remove(pending.upload)

    def list_keys(self, prefix: str, after: str = "") -> Iterator[tuple[str, int]]:
        """Yield keys and sizes."""
        for entry in self._below(prefix, after):
            yield entry.path[1:], int(entry.length)

    def _below(self, prefix: str, after: str = "") -> Iterator[Any]:
        """Yield the files whose keys begin with a prefix, in the order of keys."""
        # HDFS orders names by bytes with signs, and a folder by its name without the slash: so each is ordered here.
        named = []
        for entry in self.entries(prefix.rpartition("/")[0]) or ():
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
        to_delete = set(keys)
        for key in sorted(to_delete):
            self.remove(key)
        for folder in staging_folders(to_delete):
            self.remove(folder)

    def abandon(self, prefix: str, wanted: Callable[[str], bool]) -> None:
        """Delete what was written for wanted keys and has not got its name, and what is left of claims to replace them."""
        to_delete = set()
        for path in self._hidden(prefix.rpartition("/")[0], prefix):
            key = key_of(path)
            if key.startswith(prefix) and wanted(key):
                # A claim to a file that is there is ended by who reads the file; it is deleted where it is empty.
                if not is_claim(name_in(path)) or self.status(key) is None:
                    self.call("delete", path, True)
                else:
                    self.remove(path)
                to_delete.add(key)
        for folder in staging_folders(to_delete):
            self.remove(folder)

    def _hidden(self, folder: str, prefix: str) -> Iterator[str]:
        """Yield the paths of what is written and of claims, in a folder and in those in it that can have a prefix."""
        for entry in self.entries(folder) or ():
            path = entry.path[1:]
            if is_hidden(name_in(path)):
                yield path
            elif entry.isdir and f"{path}/".startswith(prefix):
                yield from self._hidden(path, prefix)


def tag_of(status: Any) -> str:
    """Return the tag of a file: when it was written, in milliseconds, and how long it is."""
    return f"{status.modification_time}-{status.length}"


def name_in(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


WRITTEN: Final = 3  # times that a small file is written which another run deletes


class HdfsParts(Parts[HdfsStore]):
    """A file that is written, and renamed when it is whole; ``fresh``: a file that is there is not replaced."""

    def __init__(self, store: HdfsStore, key: str, *, fresh: bool) -> None:
        super().__init__(store, key, fresh=fresh)
        self._upload = writing_name(key, uuid.uuid4().hex)
        self._file: Any = None

    def whole(self, data: bytes) -> None:
        """Make the file of bytes."""
        for _ in range(WRITTEN):
            path = self._upload = writing_name(self._key, uuid.uuid4().hex)
            self._store.written(path, data)
            try:
                self._store.give_name(path, self._key, over=not self._fresh)
            except UnmetError:
                if self._fresh and self._store.tag(self._key) is not None:
                    raise
            else:
                return
        raise UnmetError(self._upload)

    def send(self, data: bytes) -> None:
        """Write the next part."""
        if self._file is None:
            self._file = self._store.call("create", self._upload)
        if data:
            self._ask("append", data)

    def complete(self) -> None:
        """Give the file its name."""
        self._ask("close")
        self._store.give_name(self._upload, self._key, over=not self._fresh)

    def left(self) -> Pending:
        """Close the file, which gets its name later."""
        try:
            self._ask("close")
        except UnmetError:
            raise self.error(GONE) from None
        return super().left()

    def _ask(self, operation: str, *given: bytes) -> None:
        try:
            self._store.call(operation, self._upload, self._file, *given)
        except FileNotFoundError:
            raise UnmetError(self._upload) from None

    def discard(self) -> None:
        """Delete what was written."""
        self._store.remove(self._upload)


def hdfs_store(address: str) -> tuple[ObjectStore, str]:
    """Return the cluster of an address and the key in it; raises OptionError and MissingDependencyError."""
    place = hdfs_place(address)
    check_installed()
    return HdfsStore(place.authority), place.key
