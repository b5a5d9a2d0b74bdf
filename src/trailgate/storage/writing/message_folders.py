"""Folders that messages are published into, on a local disk or in a store: one object states what is in them.

Messages written as files of a folder, a message a line: each file is there whole or not at all.

Beside them a checkpoint states what they hold, so that a later run continues after it. Files end where transactions end.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final, Protocol

from trailgate.errors import EncodeError, StorageError, Where
from trailgate.messages.publishing import Messages
from trailgate.storage.files.addresses import Address, is_stored, locate
from trailgate.storage.files.durable import lock, sync_folder, write_whole, writing
from trailgate.storage.files.quarantine import message_line
from trailgate.storage.stores.kinds import writable_store
from trailgate.storage.stores.object_store import ObjectStore
from trailgate.storage.writing.deciding import STATE, Decided, StagingFolders
from trailgate.storage.writing.publication import PlacedFile
from trailgate.storage.writing.table_writing import Counts

CHECKPOINT: Final = STATE
MESSAGES: Final = re.compile(r"messages-(\d{9,})\.(?:txt|jsonl)")  # the names of files
EDITION: Final = "edition"
RUN: Final = "run"  # these two fields of a state only stores need


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
        return lock(str(self.folder))

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
    _edition: int = 0
    _fields: dict[str, Any] = field(default_factory=dict)
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
        found, _ = self._runs.deciding.recover()
        if found is None:
            return None
        self._take(found.data, found.tag)
        return json.dumps(self._fields).encode()

    def _take(self, data: bytes, tag: str) -> None:
        """Note a state without what only stores need of it."""
        fields = json.loads(data)
        self._edition = int(fields.pop(EDITION, 0))
        fields.pop(RUN, None)
        self._tag, self._fields = tag, fields

    def other(self) -> str | None:
        """Return the name of an object, unless another run has published it since the state was read."""
        above = f"{self.key}/"
        names = (key[len(above) :] for key, _ in self.store.list_keys(above))
        name = next((name for name in names if name[0] != "."), None)
        if name is not None:
            self._runs.deciding.check(self._tag)
        return name

    def begin(self) -> None:
        """Check that the store obeys conditions."""
        self._runs.check_conditions(self._edition, uuid.uuid4().hex[:8])

    def path(self, name: str) -> Path:
        """Return a temporary file."""
        return Path(self._scratch) / name

    def write_state(self, state: bytes) -> None:
        """Replace the state, where it is another one, and delete what killed runs left."""
        fields = json.loads(state)
        if fields != self._fields:
            data = self._with_edition(fields, self._edition + 1)
            tag = self.store.put(self._runs.deciding.key, data, self._tag)
            if tag is None:
                raise self._runs.deciding.overtaken_error()
            self._take(data, tag)
        self._sweep()

    def publish(self, path: Path, name: str, state: bytes) -> None:
        """Upload the file, decide on its name and the state, and delete what was uploaded."""
        deciding, staging = self._runs.deciding, self._runs.folder(self._edition, uuid.uuid4().hex)
        after = self._with_edition(json.loads(state), self._edition + 2)
        before = {**self._fields, EDITION: self._edition + 1}

        def naming(record: str) -> bytes:
            return json.dumps({**before, "decided": {"record": record}}).encode()

        try:
            with writing(path), self._runs.staging(self._tag):
                size = path.stat().st_size
                self.store.upload(f"{staging}/{name}", path)
                path.unlink()
            file = PlacedFile(name, name, size)
            own = Decided(staging, f"{self.key}/", (file,), (), "", (), after)
            deciding.decide(own, naming, self._tag)
        except BaseException:
            with suppress(StorageError):  # the next run deletes what is left
                self._runs.discard(staging)
            raise
        found = self.store.read(deciding.key)
        if found is None or found.data != after:
            raise deciding.overtaken_error()
        self._take(after, found.tag)
        self._sweep()

    def _with_edition(self, fields: dict[str, Any], edition: int) -> bytes:
        """Return a state whose bytes no other run puts, so that its tag is new in every kind of store."""
        return json.dumps({**fields, EDITION: edition, RUN: uuid.uuid4().hex}).encode()

    def _sweep(self) -> None:
        """Delete what runs left that can never publish, staged objects and unfinished parts of published files."""
        with suppress(StorageError):  # the next run deletes what is left
            self._runs.sweep(self._edition)
            self.store.abandon(f"{self.key}/", self._is_published)

    def _is_published(self, key: str) -> bool:
        """Return whether a file is the state, or among those of it: then no run completes an upload of it."""
        if key == self._runs.deciding.key:
            return True
        named = MESSAGES.fullmatch(key[len(self.key) + 1 :])
        return named is not None and int(named[1]) <= int(self._fields.get("files", 0))

    @property
    def _runs(self) -> StagingFolders:
        return StagingFolders.of_folder(self.store, self.key)


VERSION: Final = 1
HINT: Final = "Publish into an empty folder"
NEWLINE: Final = b"\n"


@dataclass(frozen=True, slots=True)
class Published:
    """What a folder holds: of which source, by which options, up to which position; sums of all runs."""

    source: str
    form: Mapping[str, str] = field(default_factory=dict)
    position: str = ""
    files: int = 0
    messages: int = 0
    operations: int = 0
    transactions: int = 0
    counts: Counts = field(default_factory=dict)


def read_published(folder: MessageFolder) -> Published | None:
    """Return what a folder holds; None where nothing was published into it. Raises StorageError."""
    where = Where(source=f"{folder.shown}/{CHECKPOINT}")
    try:
        state = folder.state()
        if state is None:
            return None
        fields = json.loads(state)
        version = fields.pop("version")
        if version != VERSION:
            raise StorageError(f"the checkpoint has version {version}, not {VERSION}", where=where)
        return Published(**fields)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the checkpoint cannot be understood: {error!r}"
        raise StorageError(problem, where=where, hint=HINT) from error


def check_folder(folder: MessageFolder, source: str, form: Mapping[str, str]) -> Published:
    """Return what a folder holds of a source, nothing for a new or an empty one; raises StorageError for one of other content."""
    known = read_published(folder)
    other = None if known is not None and known.files else folder.other()
    where = Where(source=folder.shown)
    if known is None or not (known.files or other):  # a run that failed before its first file
        if other:
            problem = f"the folder is not empty, and was not published into: {other}"
            raise StorageError(problem, where=where, hint=HINT)
        return Published(source, form)
    asked, held = {"trail": source, **form}, {"trail": known.source, **known.form}
    for name in sorted(asked.keys() | held.keys()):
        own, before = asked.get(name), held.get(name)
        if own != before:
            problem = f"the folder's messages were published with {name} {before}, not {own}"
            raise StorageError(problem, where=where, hint=HINT)
    return known


class MessageFileWriter:
    """Writes messages into files of about ``file_bytes``; what is not committed is gone with the next run."""

    def __init__(
        self, folder: MessageFolder, known: Published, *, bare: bool, file_bytes: int
    ) -> None:
        self._folder, self._bare, self._file_bytes = folder, bare, file_bytes
        self.published = known
        self._file: BinaryIO | None = None
        self._safe = self._size = 0
        self.names: list[str] = []
        folder.begin()
        folder.write_state(self._state(known))

    def append(self, messages: Messages, begin: int = 0, stop: int | None = None) -> None:
        """Write messages [begin, stop)."""
        count = len(messages) if stop is None else stop
        if begin == count:
            return
        with writing(self._folder.shown):
            file = self._open()
            for line in _lines(messages, begin, count, bare=self._bare):
                file.write(line)
                self._size += len(line)

    def commit(self, state: Published) -> None:
        """Note that what was written up to here, and ``state``, belong together; a large file ends here."""
        self.published = replace(state, files=self.published.files)
        self._safe = self._size
        if self._size >= self._file_bytes:
            self.close()

    def close(self) -> None:
        """End the open file at the last commit, and make it and the state last."""
        if self._file is None or not self._safe:
            self.discard()
            self._folder.write_state(self._state(self.published))
            return
        path = Path(self._file.name)
        with writing(path):
            self._file.truncate(self._safe)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self._file = None
        self._safe = self._size = 0
        name = self._name()
        done = replace(self.published, files=self.published.files + 1)
        self._folder.publish(path, name, self._state(done))
        self.published = done
        self.names.append(name)

    def _state(self, published: Published) -> bytes:
        state: dict[str, Any] = {"version": VERSION, **asdict(published)}
        return json.dumps(state, indent=1).encode() + NEWLINE

    def discard(self) -> None:
        """Remove the open file."""
        if self._file is not None:
            self._file.close()
            Path(self._file.name).unlink(missing_ok=True)
            self._file = None
            self._safe = self._size = 0

    def _name(self) -> str:
        return f"messages-{self.published.files + 1:09}.{'txt' if self._bare else 'jsonl'}"

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = self._folder.path(self._name()).open("wb")
        return self._file


def _lines(messages: Messages, begin: int, stop: int, *, bare: bool) -> Iterator[bytes]:
    headers = {name: values.to_pylist() for name, values in messages.headers.items()}
    for at, body in enumerate(messages.bodies.slice(begin, stop - begin).to_pylist(), begin):
        if bare:
            if NEWLINE in body.rstrip(NEWLINE):
                problem = "a message has a line feed, and each line is to be a message"
                raise EncodeError(problem, where=Where(raw=body), hint="Write JSON lines")
            yield body.rstrip(NEWLINE) + NEWLINE
        else:
            own = {name: values[at] for name, values in headers.items() if values[at] is not None}
            yield message_line(body, own)
