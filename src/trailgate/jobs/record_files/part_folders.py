"""Folders that Parquet files are written into: parts are staged by tasks, and get their names together at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from trailgate.errors import StorageError, Where
from trailgate.storage.files.addresses import absolute, is_stored, locate
from trailgate.storage.files.durable import remove_folder, writing
from trailgate.storage.stores.kinds import writable_store
from trailgate.storage.stores.object_store import ObjectStore, Pending

DONE: Final = "_SUCCESS"  # the mark of a complete folder
CLAIM: Final = ".writing.json"


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A part that a task wrote; in a store it is an upload that is not completed."""

    number: int
    rows: int
    upload: Pending | None = None


class PartFolder(Protocol):
    """A new folder. Values can be pickled."""

    def check_new(self) -> None:
        """Raise StorageError where something is in the folder."""

    def begin(self) -> None:
        """Make the folder this run's; raises StorageError where another run was faster."""

    def part(self, number: int) -> AbstractContextManager[tuple[IO[bytes], list[Pending]]]:
        """Give the file of a part, and a list for the upload that it becomes."""

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Give parts their names."""

    def discard(self) -> None:
        """Delete what was staged and is not published."""

    def finish(self) -> None:
        """Mark the folder as complete."""

    def anywhere(self) -> PartFolder:
        """Return the folder as other working folders name it."""


def part_folder(target: str, run: str) -> PartFolder:
    """Return the folder at an address; raises OptionError where the store is not written to."""
    if not is_stored(target):
        return LocalFolder(locate(target)[1], run)
    store, key = writable_store(target, "Parquet")
    return StoreFolder(store, key.rstrip("/"), run)


def _not_empty(shown: str) -> StorageError:
    hint = "Name another one: no file is overwritten"
    return StorageError("the folder is not empty", where=Where(source=shown), hint=hint)


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder on a local disk: parts are renamed out of a hidden folder in it."""

    target: str
    run: str

    @property
    def _staging(self) -> Path:
        return Path(self.target) / f".staging-{self.run}"

    def check_new(self) -> None:
        """Look into the folder."""
        folder = Path(self.target)
        with writing(folder):
            taken = folder.exists() and any(folder.iterdir())
        if taken:
            raise _not_empty(self.target)

    def begin(self) -> None:
        """Make the hidden folder."""
        with writing(self._staging):
            self._staging.mkdir(parents=True)

    @contextmanager
    def part(self, number: int) -> Iterator[tuple[IO[bytes], list[Pending]]]:
        """Give a file of the hidden folder."""
        path = self._staged(number)
        with writing(path), path.open("wb") as file:
            yield file, []

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Rename the parts."""
        for part in parts:
            self._staged(part.number).rename(Path(self.target) / _name(part.number, self.run))

    def discard(self) -> None:
        """Remove the hidden folder."""
        remove_folder(self._staging)

    def finish(self) -> None:
        """Write an empty file."""
        (Path(self.target) / DONE).touch()

    def anywhere(self) -> LocalFolder:
        """Return the folder by its absolute path."""
        return LocalFolder(absolute(self.target), self.run)

    def _staged(self, number: int) -> Path:
        return self._staging / f"{number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class StoreFolder:
    """What looks like a folder of a store: parts are uploaded under their names, and completed at the end.

    Nobody sees an upload that is not completed. Where a task runs twice there are two uploads, of which one is completed.
    """

    store: ObjectStore
    key: str
    run: str

    def check_new(self) -> None:
        """Look for keys below the folder."""
        if next(self.store.listed(f"{self.key}/"), None) is not None:
            raise _not_empty(self.store.shown(self.key))

    def begin(self) -> None:
        """Claim the folder by an object that only one run can make, and look into it again."""
        own = f"{self.key}/{CLAIM}"
        if self.store.put(own, self.run.encode(), None) is None:
            raise _not_empty(self.store.shown(self.key))
        if [key for key, _ in self.store.listed(f"{self.key}/")] != [own]:
            self.store.delete([own])
            raise _not_empty(self.store.shown(self.key))

    @contextmanager
    def part(self, number: int) -> Iterator[tuple[IO[bytes], list[Pending]]]:
        """Give an upload."""
        upload = self.store.begin(f"{self.key}/{_name(number, self.run)}", later=True)
        made: list[Pending] = []
        try:
            yield upload.file, made
            made.append(upload.leave())
        finally:
            upload.abort()

    def publish(self, parts: Iterable[WrittenPart]) -> None:
        """Complete the uploads."""
        for part in parts:
            assert part.upload is not None
            self.store.complete(part.upload)

    def discard(self) -> None:
        """Delete the parts of uploads that are not completed, and the claim."""
        above = f"{self.key}/"
        self.store.abandon(above, lambda key: self.run in key)
        self.store.delete([above + CLAIM])

    def finish(self) -> None:
        """Put an empty object."""
        self.store.put(f"{self.key}/{DONE}", b"", None)

    def anywhere(self) -> StoreFolder:
        """Return the folder: its address is absolute."""
        return self


def _name(number: int, run: str) -> str:
    return f"part-{number:05d}-{run}.snappy.parquet"
