"""One object of a store decides what is published: two puts of it, each under the condition of what was read, and the steps between."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from trailgate.errors import StorageError, Where
from trailgate.storage.stores.object_store import ObjectStore, Range, Stored
from trailgate.storage.writing.places.decided import Decided, encode_decided, parse_decided
from trailgate.storage.writing.places.publication import PlacedFile

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
            raise self.overtaken()
        try:
            tag = self.store.put(self.key, before(record), base)
            if tag is not None:
                self.complete(record, tag, own)
        except StorageError as error:
            if not self._is_still(base):
                error.hint = error.hint or MAY_BE_DECIDED
            raise
        if tag is None:
            raise self.overtaken()

    def settled(self) -> tuple[Stored | None, bool]:
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
            raise self.overtaken()

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
            raise self.overtaken()

    def overtaken(self) -> OvertakenError:
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
