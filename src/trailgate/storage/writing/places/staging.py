"""Folders of staged objects in a store, named by editions: what runs left that can never publish is deleted.

An object decides what is published, as the manifest of a trail does: it is put only in place of the one that was read. Each put of it raises its edition.
A run stages below a folder whose name begins with the edition that it has read. Once the object has a later edition, the tag that
the run has is gone for good, so the one put by which the run would publish is refused, however long the run was paused. Nothing will ever
refer to what is in its folder, and it can be deleted at once: that follows from what is in the store, without a clock or a lease (decision 0046).

A folder of the edition that is read is left alone, since its run may live. It is deleted after the next publication.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Self

from trailgate.errors import StorageError
from trailgate.storage.stores.conditions import check_conditions
from trailgate.storage.stores.object_store import ObjectStore
from trailgate.storage.writing.places.deciding import DecidingObject, decided_in

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
        self.store.delete(key for key, _ in self.store.listed(above) if wanted(key))
        self.store.abandon(above, wanted)


def edition_in(data: bytes) -> int:
    """Return the edition of a state; 0 where it has none, before which nothing is swept."""
    try:
        return int(json.loads(data)["edition"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return 0
