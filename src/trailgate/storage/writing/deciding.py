"""The record of a publication that is decided: whoever finds it carries it out, with the same bytes.

A store has no renames, and whoever holds a trail there may be gone. So a run writes down all that it is going to do, and then replaces
the manifest by one that names the record, on the condition that it is still the one that the run read. That decides between two
writers, and nothing was given a name of the trail before. From then on the steps are the record's, whoever does them (decision 0040).

One object of a store decides what is published: two puts of it, each under the condition of what was read, and the steps between.

Folders of staged objects in a store, named by editions: what runs left that can never publish is deleted.

An object decides what is published, as the manifest of a trail does: it is put only in place of the one that was read. Each put of it raises its edition.
A run stages below a folder whose name begins with the edition that it has read. Once the object has a later edition, the tag that
the run has is gone for good, so the one put by which the run would publish is refused, however long the run was paused. Nothing will ever
refer to what is in its folder, and it can be deleted at once: that follows from what is in the store, without a clock or a lease (decision 0046).

A folder of the edition that is read is left alone, since its run may live. It is deleted after the next publication.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import (
    ObjectStore,
    Pending,
    Range,
    Stored,
    check_conditions,
)
from trailgate.storage.writing.publication import PlacedFile


@dataclass(frozen=True, slots=True)
class Beside:
    """A whole file beside the trail, and the tag of the one that it replaces, None: there is none."""

    name: str
    over: str | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Decided:
    """Files by the names of the staged ones, what is beside them, parts of a quarantine file, and the next manifest.

    ``folder`` is what the keys of the files begin with. ``uploads`` have their names already, and are completed first.
    """

    staging: str
    folder: str
    files: tuple[PlacedFile, ...]
    beside: tuple[Beside, ...]
    quarantine: str
    parts: tuple[tuple[str, int], ...]
    after: bytes
    uploads: tuple[Pending, ...] = ()


def encode_decided(decided: Decided) -> bytes:
    """Return the record's content."""
    fields = {
        "staging": decided.staging,
        "folder": decided.folder,
        "files": [
            [file.staged, file.name, file.size, [[at, _text(data)] for at, data in file.patches]]
            for file in decided.files
        ],
        "beside": [[one.name, one.over, _text(one.data)] for one in decided.beside],
        "quarantine": decided.quarantine,
        "parts": decided.parts,
        "after": decided.after.decode(),
        "uploads": decided.uploads,
    }
    return json.dumps(fields).encode()


def parse_decided(data: bytes, path: str) -> Decided:
    """Return the record that is an object's content; raises StorageError."""
    try:
        fields: dict[str, Any] = json.loads(data)
        return Decided(
            fields["staging"],
            fields["folder"],
            tuple(
                PlacedFile(staged, name, size, tuple((at, _bytes(text)) for at, text in patches))
                for staged, name, size, patches in fields["files"]
            ),
            tuple(Beside(name, over, _bytes(text)) for name, over, text in fields["beside"]),
            fields["quarantine"],
            tuple((name, size) for name, size in fields["parts"]),
            fields["after"].encode(),
            tuple(
                Pending(key, upload, tuple(tags)) for key, upload, tags in fields.get("uploads", ())
            ),
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the record of what is being published cannot be understood: {error!r}"
        raise StorageError(problem, where=Where(source=path)) from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


HEAD: Final = (
    5 << 20
)  # bytes of a file that are read to change its header; the store copies the rest
PLACING: Final = 8  # files at once: a store answers slowly
MAY_BE_DECIDED: Final = (
    "The next writer completes what was decided: see what is there before writing the same again"
)


class OvertakenError(StorageError):
    """Another run has published since this one began; nothing of this one is published."""


class _CompletedError(Exception):
    """Another run has completed the publication meanwhile."""


@dataclass(frozen=True, slots=True)
class DecidingObject:
    """A JSON object whose field ``decided`` names the record of what is being published: a manifest, or the state of a folder."""

    store: ObjectStore
    key: str

    def decide(self, own: Decided, before: Callable[[str], bytes], base: str | None) -> None:
        """Decide on a publication, and carry it out.

        ``before`` gives the object's content with the name of a record, ``base`` is the tag of the one that was read. Raises
        OvertakenError where it has changed since.
        """
        record = f"{own.staging}/decided-{uuid.uuid4().hex}.json"
        if self.store.put(record, encode_decided(own), None) is None:
            raise self.overtaken_error()
        try:
            tag = self.store.put(self.key, before(record), base)
            if tag is not None:
                self.complete(record, tag, own)
        except StorageError as error:
            if not self._is_still(base):
                error.hint = error.hint or MAY_BE_DECIDED
            raise
        if tag is None:
            raise self.overtaken_error()

    def recover(self) -> tuple[Stored | None, bool]:
        """Return the object without a record, None: there is none, and whether what an interrupted run had decided was completed for that."""
        completed = False
        while True:
            found = self.store.read(self.key)
            record = "" if found is None else decided_in(found.data)
            if found is None or not record:
                return found, completed
            self.complete(record, found.tag)
            completed = True

    def check(self, base: str | None) -> None:
        """Raise OvertakenError where the object has not the tag ``base``, None: where there is one."""
        found = self.store.read(self.key)
        if (None if found is None else found.tag) != base:
            raise self.overtaken_error()

    def _is_still(self, base: str | None) -> bool:
        """Return whether the object is surely the one with a tag, None: whether it is surely not there."""
        try:
            found = self.store.read(self.key)
        except StorageError:
            return False
        return (None if found is None else found.tag) == base

    def complete(self, record: str, tag: str, own: Decided | None = None) -> None:
        """Do what a record states, and replace the object that names it; others may do the same at the same time.

        ``tag`` is that of the object. Nothing happens where another run was faster.
        """
        try:
            own = self._record(record) if own is None else own
            self._carry_out(own, record)
        except _CompletedError:
            return
        except StorageError:
            if self._names(record):
                raise
            return  # another run has completed it, and deleted what was staged
        if self.store.put(self.key, own.after, tag) is None and self._names(record):
            raise self.overtaken_error()

    def overtaken_error(self) -> OvertakenError:
        """Return the error of a run that was not the first."""
        problem = "another run has published here since this one began"
        hint = "Nothing of this one is published: run it again"
        return OvertakenError(problem, where=Where(source=self.store.shown(self.key)), hint=hint)

    def _record(self, record: str) -> Decided:
        shown = self.store.shown(record)
        found = self.store.read(record)
        if found is None:
            problem = "the record of what is being published is gone"
            raise StorageError(problem, where=Where(source=shown))
        return parse_decided(found.data, shown)

    def _names(self, record: str) -> bool:
        """Return whether the object names a record."""
        found = self.store.read(self.key)
        return found is not None and decided_in(found.data) == record

    def _carry_out(self, own: Decided, record: str) -> None:
        with ThreadPoolExecutor(PLACING) as pool:
            for _ in pool.map(self.store.complete, own.uploads):
                pass
        for one in own.beside:
            over = one.over
            while self.store.put(one.name, one.data, over) is None:
                found = self.store.read(one.name)
                if not self._names(record):
                    raise _CompletedError
                # While the record is named nothing later can have been published: somebody else has changed the file.
                over = None if found is None else found.tag
        with ThreadPoolExecutor(PLACING) as pool:
            for _ in pool.map(lambda file: self._place(own, file), own.files):
                pass
        if own.parts:
            pieces = [Range(f"{own.staging}/{name}", 0, size) for name, size in own.parts]
            self.store.compose(own.quarantine, pieces)

    def _place(self, own: Decided, file: PlacedFile) -> None:
        """Write a staged file under its name, with its header."""
        source = f"{own.staging}/{file.staged}"
        head = bytearray(self.store.part(Range(source, 0, min(HEAD, file.size))))
        for offset, data in file.patches:
            head[offset : offset + len(data)] = data
        rest = Range(source, len(head), file.size)
        self.store.compose(f"{own.folder}{file.name}", [bytes(head), rest])


def decided_in(data: bytes) -> str:
    """Return the record that an object names; empty where it names none."""
    try:
        return str(json.loads(data)["decided"]["record"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


STATE: Final = ".published.json"  # decides what is published into a folder that is not a trail's
STAGED: Final = ".publishing"


@dataclass(frozen=True, slots=True)
class StagingFolders:
    """The folders whose runs publish by one deciding object; ``above`` is what their keys begin with, and ends with a slash."""

    store: ObjectStore
    deciding: DecidingObject
    above: str

    @classmethod
    def of_folder(cls, store: ObjectStore, folder: str) -> Self:
        """Return those of a folder with a state."""
        deciding = DecidingObject(store, f"{folder}/{STATE}")
        return cls(store, deciding, f"{folder}/{STAGED}/")

    def folder(self, edition: int, name: str) -> str:
        """Return the folder of a run that has read the object of an edition; ``name`` is one that no other run has."""
        return f"{self.above}{edition:09}-{name}"

    def check_conditions(self, edition: int, name: str) -> None:
        """Raise StorageError where the store does not obey the conditions that decide between two runs."""
        check_conditions(self.store, self.folder(edition, f"check-{name}"))

    @contextmanager
    def staging(self, base: str | None) -> Iterator[None]:
        """Raise OvertakenError in place of an error in here, where the object has not the tag ``base`` any more: then what was staged is swept."""
        try:
            yield
        except StorageError:
            self.deciding.check(base)
            raise

    def sweep(self, edition: int) -> None:
        """Delete what runs of earlier editions left; ``edition`` is one that the object has had without a record, or has."""

        def is_left(key: str) -> bool:
            number = key[len(self.above) :].partition("-")[0]
            return number.isdecimal() and int(number) < edition

        self.delete_below(self.above, is_left)

    def discard(self, folder: str, names: Sequence[str] = ()) -> bool:
        """Delete what a run has staged, or the objects that are named; False: the run has decided on it, and it is kept."""
        found = self.store.read(self.deciding.key)
        if found is not None and decided_in(found.data).startswith(f"{folder}/"):
            return False
        if names:
            self.store.delete(f"{folder}/{name}" for name in names)
        else:
            self.delete_below(f"{folder}/", bool)
        return True

    def delete_below(self, above: str, wanted: Callable[[str], bool]) -> None:
        """Delete staged objects, and the parts of those that were not finished."""
        self.store.delete(key for key, _ in self.store.list_keys(above) if wanted(key))
        self.store.abandon(above, wanted)


def edition_in(data: bytes) -> int:
    """Return the edition of a state; 0 where it has none, before which nothing is swept."""
    try:
        return int(json.loads(data)["edition"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
