"""A new folder of files (Parquet or records), written in parts by tasks and published at once.

Tasks stage parts under temporary names. ``PartFolder.publish`` then gives all of them their names
together (``storage.publish.protocol``), and marks the folder as complete.
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

from trailgate.cobol.records.policy_counts import PolicyCounts, PolicyTally
from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import is_stored, locate
from trailgate.storage.publish.local_disk import LocalBackend
from trailgate.storage.publish.protocol import CommitPlan, PublishBackend, SidecarFile, StagedFile
from trailgate.storage.publish.store_folder import STATE, StoreBackend
from trailgate.storage.stores.writable_stores import writable_store

DONE: Final = "_SUCCESS"  # this file marks a complete folder
PARQUET: Final = ".snappy.parquet"  # the suffix of Parquet parts
# part-00012-0123456789ab, with or without the ending of a Parquet file
PART: Final = re.compile(rf"part-\d{{5,}}-[0-9a-f]{{12}}(?:{re.escape(PARQUET)})?")
NEW: Final = "Name a different one: existing files are not overwritten"
COMPLETED: Final = (
    "An interrupted run had already decided to publish its files: they are published now"
)


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part of a new folder that a task has written: at most one file for each table.

    In an object store the files are uploads that are not completed yet.
    """

    rows: int
    files: tuple[StagedFile, ...]
    tally: PolicyCounts = member(default_factory=PolicyTally)


@dataclass(frozen=True, slots=True)
class PartFolder:
    """A new folder of Parquet or record files that one run publishes. It can be pickled.

    On a local disk, only one run can create the file that marks the folder as complete. In an
    object store, any number of runs may upload at the same time; the first to create the folder's
    state publishes (decision 0046). No other run can publish afterwards, so all other uploads are
    deleted, including those of killed runs.
    """

    backend: PublishBackend
    run: str
    sidecars: tuple[SidecarFile, ...] = ()
    tables: tuple[str, ...] = ("",)  # the subfolders of the parts
    ending: str = PARQUET
    names: tuple[str, ...] = ()  # the parts' names by number; empty means generated names

    def _is_part(self, name: str) -> bool:
        """Return True if an unfinished upload of this name belongs to a run that writes this folder."""
        table, _, part = name.rpartition("/")
        return name in (STATE, DONE, *self.names) or (
            table in self.tables and PART.fullmatch(part) is not None
        )

    def check_new(self) -> None:
        """Complete an interrupted publication, then raise StorageError if the folder is not empty."""
        # An existing state means that a run has published here.
        backend, state, completed = self.backend.recover()
        if state is not None:
            backend.sweep(self._is_part)
        if state is not None or self._has_files():
            raise self._not_empty(COMPLETED if completed else NEW)

    def _has_files(self) -> bool:
        return next(self.backend.names(), None) is not None

    def _not_empty(self, hint: str) -> StorageError:
        where = Where(source=self.backend.name)
        return StorageError("the folder is not empty", where=where, hint=hint)

    @property
    def staging(self) -> Path:
        """The hidden folder in which tasks write the parts of the new folder."""
        return self.backend.staging(f"staging-{self.run}")

    def begin(self) -> None:
        """Create the hidden folder for parts.

        Raises StorageError if the store cannot prevent two concurrent runs.
        """
        self.backend.check()
        self.backend.create_staging(self.staging)

    def part(
        self, number: int, table: str = "", attempt: str = ""
    ) -> AbstractContextManager[tuple[IO[bytes], list[StagedFile]]]:
        """Context manager that opens the file of a part, and yields it with a list.

        When the file is closed, its StagedFile is added to the list. ``attempt`` distinguishes
        attempts at the same part that may run at the same time.
        """
        name = self.part_name(number)
        staged = f"{number:05d}{table and '-'}{table}{attempt and '-'}{attempt}"
        return self.backend.file(self.staging, staged, f"{table}/{name}" if table else name)

    def part_name(self, number: int) -> str:
        """Return the final name of a part's file."""
        return self.names[number] if self.names else f"part-{number:05d}-{self.run}{self.ending}"

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Give the files of all parts their final names, and mark the folder as complete.

        Raises StorageError if another run has published the folder since ``check_new``.
        """
        # Another run has published since ``check_new``; state() raises a clearer error if so.
        if not self.backend.appends and self._has_files():
            self.backend.state()
            raise self._not_empty(NEW)
        files = tuple(file for part in parts for file in part.files)
        commit = CommitPlan(
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
        """Delete all files of this run's parts that are not published."""
        self.backend.discard(
            self.staging, is_own=lambda name: self._is_part(name) and self.run in name
        )

    def absolute(self) -> PartFolder:
        """Return the part folder with an absolute path."""
        return replace(self, backend=self.backend.absolute())


def part_folder(
    target: str, what: str = "Parquet", tables: Iterable[str] = ("",), ending: str = PARQUET
) -> PartFolder:
    """Return the new folder of a run at an address. Raises OptionError if the store cannot be written."""
    run, names = uuid.uuid4().hex[:12], tuple(tables)
    if not is_stored(target):
        disk = LocalBackend(locate(target)[1], DONE, is_folder=True)
        return PartFolder(disk, run, (), names, ending)
    store, key = writable_store(target, what)
    return PartFolder(
        StoreBackend.of_folder(store, key), run, (SidecarFile(DONE, b""),), names, ending
    )


@contextmanager
def publishing(folder: PartFolder) -> Iterator[list[WrittenPart]]:
    """Context manager that publishes the parts that the block adds to the yielded list.

    If the block or the publication raises an error, all parts are deleted.
    """
    folder.begin()
    parts: list[WrittenPart] = []
    try:
        yield parts
        folder.publish(parts)
    except BaseException:
        with suppress(StorageError):  # the first error is the one to report
            folder.discard()
        raise
