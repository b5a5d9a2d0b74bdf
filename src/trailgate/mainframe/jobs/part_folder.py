"""A new folder of files that tasks write in parts, of Parquet or of records: they get their names together.

Tasks stage parts, which one publication names (``storage/publish/protocol.py``).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from dataclasses import field as member
from pathlib import Path
from typing import IO, Any, Final

from trailgate.cobol.records.fields import PolicyCounts, Tally
from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import is_stored, locate
from trailgate.storage.publish.local_disk import LocalDisk
from trailgate.storage.publish.protocol import Backend, Commit, Sidecar, StagedFile
from trailgate.storage.publish.store_folder import STATE, StoreFolder
from trailgate.storage.stores.kinds import writable_store

DONE: Final = "_SUCCESS"  # the mark of a complete folder
PARQUET: Final = ".snappy.parquet"  # the end of the names of parts
PART: Final = re.compile(rf"part-\d{{5,}}-[0-9a-f]{{12}}(?:{re.escape(PARQUET)})?")
NEW: Final = "Name another one: no file is overwritten"
COMPLETED: Final = "A run that was interrupted had decided on all of its files: they are there now"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that a task wrote, a file for each table with rows; in a store they are uploads that are not completed."""

    rows: int
    files: tuple[StagedFile, ...]
    tally: PolicyCounts = member(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A new folder that one run publishes into. Values can be pickled.

    On a local disk the mark of a complete folder is what decides. In a store any number of runs may upload at the same time: the first one that
    makes the folder's state publishes (decision 0046). From then on no other run can, so all other uploads are deleted, those of killed runs too.
    """

    backend: Backend
    run: str
    sidecars: tuple[Sidecar, ...] = ()
    tables: tuple[str, ...] = ("",)  # the folders that parts are in, below it
    ending: str = PARQUET
    names: tuple[str, ...] = ()  # of parts by their numbers; else they have names of the run

    def _is_part(self, name: str) -> bool:
        """Return whether an unfinished upload of a name is of a run into this folder."""
        table, _, part = name.rpartition("/")
        return name in (STATE, DONE, *self.names) or (
            table in self.tables and PART.fullmatch(part) is not None
        )

    def check_new(self) -> None:
        """Raise StorageError where something is in the folder, after applying what an interrupted run had decided."""
        backend, state, completed = self.backend.recover()
        if state is not None:
            backend.sweep(self._is_part)
        if state is not None or self._holds_anything():
            raise self._not_empty(COMPLETED if completed else NEW)

    def _holds_anything(self) -> bool:
        return next(self.backend.names(), None) is not None

    def _not_empty(self, hint: str) -> StorageError:
        where = Where(source=self.backend.name)
        return StorageError("the folder is not empty", where=where, hint=hint)

    @property
    def staging(self) -> Path:
        """Return the hidden folder of the run."""
        return self.backend.staging(f"staging-{self.run}")

    def begin(self) -> None:
        """Make what parts are staged in; raises StorageError where a store cannot decide between two runs."""
        self.backend.check()
        self.backend.make(self.staging)

    def part(
        self, number: int, table: str = "", attempt: str = ""
    ) -> AbstractContextManager[tuple[IO[bytes], list[StagedFile]]]:
        """Give the file of a part, in the folder of a table if that has a name, and a list for what it becomes.

        Attempts that may run at the same time have names of their own, by which they are staged.
        """
        name = self.part_name(number)
        staged = f"{number:05d}{table and '-'}{table}{attempt and '-'}{attempt}"
        return self.backend.file(self.staging, staged, f"{table}/{name}" if table else name)

    def part_name(self, number: int) -> str:
        """Return the name that a part gets."""
        return self.names[number] if self.names else f"part-{number:05d}-{self.run}{self.ending}"

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Give parts their names, and mark the folder as complete."""
        if not self.backend.appends and self._holds_anything():
            self.backend.state()
            raise self._not_empty(NEW)
        files = tuple(file for part in parts for file in part.files)
        commit = Commit(
            files,
            self._state,
            lambda generation, record: self._state(generation, decided={"record": record}),
            self._is_part,
            self.sidecars,
        )
        self.backend.commit(commit, self.staging)

    def _state(self, generation: int, **more: Any) -> bytes:
        if not generation:
            return b""
        return json.dumps({"edition": generation, "run": self.run, **more}).encode()

    def discard(self) -> None:
        """Delete what was staged and is not published."""
        self.backend.discard(
            self.staging, is_own=lambda name: self._is_part(name) and self.run in name
        )

    def absolute(self) -> PartFolder:
        """Return the folder as other working folders name it."""
        return replace(self, backend=self.backend.absolute())


def part_folder(
    target: str, what: str = "Parquet", tables: Iterable[str] = ("",), ending: str = PARQUET
) -> PartFolder:
    """Return the folder of a new run at an address; raises OptionError where ``what`` is not written to the store."""
    run, own = uuid.uuid4().hex[:12], tuple(tables)
    if not is_stored(target):
        disk = LocalDisk(locate(target)[1], DONE, is_folder=True)
        return PartFolder(disk, run, (), own, ending)
    store, key = writable_store(target, what)
    return PartFolder(StoreFolder.of_folder(store, key), run, (Sidecar(DONE, b""),), own, ending)


@contextmanager
def publishing(folder: PartFolder) -> Iterator[list[WrittenPart]]:
    """Publish the parts that are added to the list in this context; delete them where it raises."""
    folder.begin()
    parts: list[WrittenPart] = []
    try:
        yield parts
        folder.publish(parts)
    except BaseException:
        with suppress(StorageError):  # what failed first is the error
            folder.discard()
        raise
