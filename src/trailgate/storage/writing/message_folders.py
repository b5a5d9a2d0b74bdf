"""Folders that messages are published into, on a local disk or in a store: one object states what is in them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

from trailgate.storage.files.addresses import Address, is_stored, locate
from trailgate.storage.files.durable import sync_folder, write_whole, writing
from trailgate.storage.files.lock import locked
from trailgate.storage.stores.conditions import check_conditions
from trailgate.storage.stores.kinds import writable_store
from trailgate.storage.stores.object_store import ObjectStore
from trailgate.storage.writing.places.decided import Decided
from trailgate.storage.writing.places.deciding import DecidingObject, decided_in
from trailgate.storage.writing.places.publication import PlacedFile

CHECKPOINT: Final = ".published.json"
STAGING: Final = ".publishing"


class MessageFolder(Protocol):
    """A folder, and its state as bytes of JSON."""

    @property
    def shown(self) -> str:
        """Return what messages call the folder; without credentials."""

    def held(self) -> AbstractContextManager[None]:
        """Hold the folder for one run, where that can be."""

    def state(self) -> bytes | None:
        """Return the state; None where there is none."""

    def other(self) -> str | None:
        """Return the name of a file that is not hidden, if there is one."""

    def begin(self) -> None:
        """Make the folder, and delete what an interrupted run left."""

    def path(self, name: str) -> Path:
        """Return where a file is written before it is published."""

    def write_state(self, state: bytes) -> None:
        """Replace the state; raises OvertakenError where another run has."""

    def publish(self, path: Path, name: str, state: bytes) -> None:
        """Give a file its name, and replace the state: both or none, after a crash too."""


def message_folder(address: Address) -> MessageFolder:
    """Return the folder at an address; raises OptionError where the store is not written to."""
    if not is_stored(address):
        return LocalMessageFolder(Path(locate(address)[1]))
    store, key = writable_store(str(address), "a folder of messages")
    return StoreMessageFolder(store, key.rstrip("/"))


@dataclass(frozen=True, slots=True)
class LocalMessageFolder:
    """A folder on a local disk: files are renamed in it."""

    folder: Path

    @property
    def shown(self) -> str:
        """Return the path."""
        return str(self.folder)

    def held(self) -> AbstractContextManager[None]:
        """Hold the folder by a lock of the system."""
        return locked(str(self.folder))

    def state(self) -> bytes | None:
        """Return the state."""
        try:
            return (self.folder / CHECKPOINT).read_bytes()
        except FileNotFoundError:
            return None

    def other(self) -> str | None:
        """Return the name of a file."""
        if not self.folder.exists():
            return None
        return next((path.name for path in self.folder.iterdir() if path.name[0] != "."), None)

    def begin(self) -> None:
        """Make the folder, and delete unfinished files."""
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            for left in self.folder.glob(".messages-*.new"):
                left.unlink()

    def path(self, name: str) -> Path:
        """Return a hidden file of the folder."""
        return self.folder / f".{name}.new"

    def write_state(self, state: bytes) -> None:
        """Replace the state."""
        write_whole(self.folder / CHECKPOINT, state)

    def publish(self, path: Path, name: str, state: bytes) -> None:
        """Rename the file, then replace the state.

        A file of the name was published by a run that ended before its state was: the messages are the same.
        """
        with writing(self.folder):
            path.replace(self.folder / name)
            sync_folder(self.folder)
        self.write_state(state)


@dataclass(slots=True)
class StoreMessageFolder:
    """What looks like a folder of a store: the state decides, as the manifest of a trail does (decision 0040)."""

    store: ObjectStore
    key: str
    _tag: str | None = None
    _state: bytes = b"{}"
    _scratch: str = ""

    @property
    def shown(self) -> str:
        """Return the address."""
        return self.store.shown(self.key)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a temporary folder alone: what a run publishes over is what it has read."""
        with TemporaryDirectory(prefix="trailgate-") as self._scratch:
            yield

    def state(self) -> bytes | None:
        """Return the state; what an interrupted run had decided is completed first."""
        while True:
            found = self.store.read(self._deciding.key)
            if found is None:
                return None
            record = decided_in(found.data)
            if not record:
                self._tag, self._state = found.tag, found.data
                return found.data
            self._deciding.complete(record, found.tag)

    def other(self) -> str | None:
        """Return the name of an object."""
        above = f"{self.key}/"
        names = (key[len(above) :] for key, _ in self.store.listed(above))
        return next((name for name in names if name[0] != "."), None)

    def begin(self) -> None:
        """Check that the store obeys conditions."""
        check_conditions(self.store, f"{self.key}/{STAGING}/check-{uuid.uuid4().hex[:8]}")

    def path(self, name: str) -> Path:
        """Return a temporary file."""
        return Path(self._scratch) / name

    def write_state(self, state: bytes) -> None:
        """Replace the state."""
        tag = self.store.put(self._deciding.key, state, self._tag)
        if tag is None:
            raise self._deciding.overtaken()
        self._tag, self._state = tag, state

    def publish(self, path: Path, name: str, state: bytes) -> None:
        """Upload the file, decide on its name and the state, and delete what was uploaded."""
        staging = f"{self.key}/{STAGING}/{uuid.uuid4().hex}"
        with writing(path):
            size = path.stat().st_size
            self.store.upload(f"{staging}/{name}", path)
            path.unlink()
        file = PlacedFile(name, name, size)
        own = Decided(staging, f"{self.key}/", (file,), (), "", (), state)
        before: dict[str, Any] = json.loads(self._state)

        def naming(record: str) -> bytes:
            return json.dumps({**before, "decided": {"record": record}}).encode()

        try:
            self._deciding.decide(own, naming, self._tag)
        finally:
            found = self.store.read(self._deciding.key)
            if found is None or not decided_in(found.data).startswith(staging):
                self.store.delete(self._staged(staging))
        if found is None or found.data != state:
            raise self._deciding.overtaken()
        self._tag, self._state = found.tag, state

    def _staged(self, staging: str) -> Iterator[str]:
        return (key for key, _ in self.store.listed(f"{staging}/"))

    @property
    def _deciding(self) -> DecidingObject:
        return DecidingObject(self.store, f"{self.key}/{CHECKPOINT}")
